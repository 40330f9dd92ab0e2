"""The options of a run, once for both programs, and what they say in the terms of a configuration file."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from orchestrator.cli import complete

if TYPE_CHECKING:
    from orchestrator.settings import Said

Command = TypeVar("Command", bound=Callable[..., Any])


class DisplayParams(TypedDict):
    """What click passes for DISPLAY_OPTIONS."""

    verbose: bool | None
    quiet: bool
    log_format: str
    strict: bool


class RunParams(DisplayParams):
    """What click passes for RUN_OPTIONS and DISPLAY_OPTIONS. None: the option was not given."""

    models: str | None
    batch_sizes: str | None
    precision: str | None
    iterations: int | None
    warmup: int | None
    output: str | None
    format: str | None
    gpu_ids: str | None
    multi_gpu: bool | None
    solo: bool | None
    allow_busy: bool | None
    profile: str | None
    phases: str | None
    launches: int | None
    isolation: str | None
    seed: int | None
    monitor_gpu: bool | None
    compare_baseline: str | None
    config: str | None
    runs_folder: str | None
    dry_run: bool


DISPLAY_OPTIONS: Final = (
    click.option("-v", "--verbose", is_flag=True, default=None, help="Tell every step."),
    click.option("--quiet", is_flag=True, help="Tell failures and warnings alone."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="What is told, as text or as a JSON object a line.",
    ),
    click.option("--strict", is_flag=True, help="End with 1 where a result is degraded or does not fit."),
)

RUN_OPTIONS: Final = (
    click.option(
        "-m",
        "--models",
        metavar="NAMES",
        shell_complete=complete.models,
        help="Models, separated by commas, or all. [default: all]",
    ),
    click.option(
        "-b",
        "--batch-sizes",
        metavar="SIZES",
        help="Batch sizes of inference and training, separated by commas. [default: 1,8,32; training: 32]",
    ),
    click.option(
        "-p",
        "--precision",
        metavar="NAMES",
        shell_complete=complete.precisions,
        help="fp32, bf16 or both, separated by commas. [default: fp32]",
    ),
    click.option(
        "-i",
        "--iterations",
        type=int,
        metavar="N",
        help="Measure exactly N iterations a launch. [default: until the profile's interval is reached]",
    ),
    click.option(
        "-w",
        "--warmup",
        type=int,
        metavar="N",
        help="Warm up for exactly N iterations. [default: until times are steady]",
    ),
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(),
        help="The report; an older one is kept beside it. [default: ./benchmark_report.json]",
    ),
    click.option(
        "-f",
        "--format",
        metavar="NAMES",
        shell_complete=complete.formats,
        help="json, csv, txt or several, separated by commas. [default: by the suffix of --output, else json]",
    ),
    click.option(
        "--gpu-ids",
        metavar="IDS",
        shell_complete=complete.gpu_ids,
        help="Indices or UUIDs of GPUs, separated by commas; all; or CPU devices: cpu:0,cpu:1. [default: all]",
    ),
    click.option(
        "--multi-gpu",
        is_flag=True,
        default=None,
        help="All GPUs (the default), whatever the file of --config says, unless --gpu-ids names some.",
    ),
    click.option(
        "--solo", is_flag=True, default=None, help="One device at a time, the others idle. [default: all at once]"
    ),
    click.option(
        "--allow-busy",
        is_flag=True,
        default=None,
        help="Measure beside other processes on the GPU; results are marked contaminated.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        shell_complete=complete.profiles,
        help="quick, standard or rigorous: how long and how exactly is measured. [default: quick]",
    ),
    click.option(
        "--phases",
        metavar="NAMES",
        shell_complete=complete.phases,
        help="load, inference, training or several. [default: all three]",
    ),
    click.option(
        "--launches",
        type=int,
        metavar="N",
        help="Fresh processes for each cell. [default: what the profile says]",
    ),
    click.option(
        "--isolation",
        type=click.Choice(["fork", "exec"]),
        help="How a fresh process is made: forked from one with torch imported, or a new interpreter. [default: fork]",
    ),
    click.option(
        "--seed",
        type=int,
        metavar="N",
        help="Decides the order of the cells, weights and inputs. [default: 1]",
    ),
    click.option(
        "--monitor-gpu/--no-monitor-gpu",
        default=None,
        help="Read temperature, power and clocks during the run. [default: yes]",
    ),
    click.option(
        "--compare-baseline",
        metavar="FILE",
        type=click.Path(),
        help="Compare with an earlier report (comes with a later version).",
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        help="A configuration file; the command line wins over it. configs/default.yaml explains every key.",
    ),
    click.option(
        "--runs-folder",
        metavar="FOLDER",
        type=click.Path(),
        help="Each run gets a folder of its own in it. [default: ./runs]",
    ),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Show the plan, cell by cell, with an estimate of the time; run and write nothing.",
    ),
)


def run_options(command: Command) -> Command:
    """Every option of a run, in the order of --help."""
    return _decorate(command, (*RUN_OPTIONS, *DISPLAY_OPTIONS))


def display_options(command: Command) -> Command:
    """How a run is shown and how it ends."""
    return _decorate(command, DISPLAY_OPTIONS)


def require_one_voice(params: DisplayParams) -> None:
    """Refuse to tell every step and next to nothing at once. Raises click's UsageError."""
    if params["verbose"] and params["quiet"]:
        raise click.UsageError("-v/--verbose and --quiet contradict each other; leave one of them out")


def _decorate(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def said(params: RunParams) -> "Said":
    """What the options say, by the keys of a configuration file. Raises ConfigError for a value that cannot be."""
    from orchestrator.settings import from_options

    given: dict[str, object] = {name: value for name, value in params.items() if value is not None}
    if params["batch_sizes"] is not None:
        given["batch_sizes"] = [_number(word.strip()) for word in params["batch_sizes"].split(",")]
    if params["solo"]:
        given["solo"] = "solo"
    if params["multi_gpu"]:
        given.setdefault("gpu_ids", "all")
    value: dict[str, object] = {}
    origins = {}
    for key, (name, option) in _KEYS.items():
        if name in given:
            section, _, last = key.rpartition(".")
            part = value.setdefault(section, {}) if section else value
            assert isinstance(part, dict)
            part[last] = given[name]
            origins[key] = option
    return from_options(value, origins)


_KEYS: Final = {
    "benchmark.profile": ("profile", "--profile"),
    "benchmark.phases": ("phases", "--phases"),
    "benchmark.precision": ("precision", "-p/--precision"),
    "benchmark.iterations": ("iterations", "-i/--iterations"),
    "benchmark.warmup": ("warmup", "-w/--warmup"),
    "benchmark.launches": ("launches", "--launches"),
    "benchmark.seed": ("seed", "--seed"),
    "benchmark.mode": ("solo", "--solo"),
    "benchmark.isolation": ("isolation", "--isolation"),
    "models": ("models", "-m/--models"),
    "batch_sizes": ("batch_sizes", "-b/--batch-sizes"),
    "training_batch_sizes": ("batch_sizes", "-b/--batch-sizes"),
    "output.path": ("output", "-o/--output"),
    "output.format": ("format", "-f/--format"),
    "output.verbose": ("verbose", "-v/--verbose"),
    "monitoring.enabled": ("monitor_gpu", "--monitor-gpu"),
    "gpu.ids": ("gpu_ids", "--gpu-ids"),
    "gpu.allow_busy": ("allow_busy", "--allow-busy"),
    "run.folder": ("runs_folder", "--runs-folder"),
}
"""Key in a file → parameter of the command, and how people write it."""


def _number(word: str) -> int | str:
    """The number that `word` is; what is none stays a word, and is refused with the rest of the values."""
    return int(word) if re.fullmatch(r"[0-9]{1,20}", word) else word
