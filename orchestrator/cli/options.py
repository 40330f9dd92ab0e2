"""The options of a run, once for both programs. What they say in the terms of a configuration file: spoken.py."""

import os
from collections.abc import Callable
from typing import Any, Final, TypedDict, TypeVar

import click

from orchestrator.cli import complete
from orchestrator.cli.lists import ListOption
from orchestrator.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])


class DisplayParams(TypedDict):
    """What click passes for DISPLAY_OPTIONS."""

    verbose: bool | None
    quiet: bool
    log_format: str
    strict: bool
    on_finish: str | None
    on_failure: str | None
    metrics_file: str | None
    metrics_port: int | None


class HistoryParams(TypedDict):
    """What click passes for HISTORY_OPTIONS. None: the option was not given."""

    history: bool | None
    history_db: str | None


class RunParams(DisplayParams, HistoryParams):
    """What click passes for RUN_OPTIONS, HISTORY_OPTIONS and DISPLAY_OPTIONS. None: the option was not given."""

    models: str | None
    models_file: str | None
    pythonpath: str | None
    allow_code: bool
    batch_sizes: str | None
    precision: str | None
    seq_len: str | None
    input_size: str | None
    memory_format: str | None
    iterations: str | None
    warmup: str | None
    output: str | None
    format: str | None
    gpu_ids: str | None
    multi_gpu: bool | None
    solo: bool | None
    allow_busy: bool | None
    profile: str | None
    phases: str | None
    launches: str | None
    isolation: str | None
    seed: str | None
    monitor_gpu: bool | None
    require: str | None
    burn_in: str | None
    level: str | None
    inject: tuple[str, ...]
    max_temperature: int | None
    steps: bool
    in_phase: bool
    compare_baseline: str | None
    thresholds: str | None
    price: float | None
    config: str | None
    runs_folder: str | None
    dry_run: bool


def a_file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """What -o says. Raises BadParameter for the sign of standard output."""
    if value == "-":
        raise click.BadParameter(
            "reports are files, and '-' is none. Leave -o out, then `cat` the report in the folder of the run"
        )
    return value


def a_history(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """The file that --history-db names, absolute: for every command as in a configuration file. Raises ConfigError."""
    if value is None:
        return None
    from orchestrator.configuration import resolve
    from orchestrator.disk import folders

    return resolve.absolute(value, "--history-db", folders.current())


DISPLAY_OPTIONS: Final = (
    click.option("-v", "--verbose", is_flag=True, default=None, help="Tell every step."),
    click.option("--quiet", is_flag=True, help="Tell failures and warnings alone, and the end in one line."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="What is told, as text or as a JSON object a line.",
    ),
    click.option(
        "--strict", is_flag=True, help="End with 1 for a result that is degraded or does not fit, WARN, or a straggler."
    ),
    click.option(
        "--on-finish",
        metavar="COMMAND",
        help="Call this when the run is over, without a shell; GPUBENCH_REPORT, …_EXIT_CODE and others tell it how.",
    ),
    click.option("--on-failure", metavar="COMMAND", help="The same, only where the exit code is not 0."),
    click.option(
        "--metrics-file",
        metavar="FILE.prom",
        type=click.Path(),
        help="Keep metrics for Prometheus in this file, for node_exporter's textfile collector.",
    ),
    click.option(
        "--metrics-port",
        metavar="PORT",
        type=click.IntRange(1, 65_535),
        help="Answer Prometheus at this port of 127.0.0.1 while the command works.",
    ),
)

HELD_OPTIONS: Final = (
    click.option(
        "--compare-baseline",
        metavar="FILE",
        type=click.Path(),
        help="A baseline, a report or a run's folder to be compared with, or the name of a baseline that ships.",
    ),
    click.option(
        "--thresholds",
        metavar="FILE",
        type=click.Path(),
        help="Limits in YAML, as configs/thresholds/example.yaml; one that is missed ends with 1.",
    ),
    click.option(
        "--price",
        metavar="PRICE",
        type=float,
        help="Of an hour of each device: what a million samples or tokens cost, and the energy they take.",
    ),
)

HISTORY_DB: Final = click.option(
    "--history-db",
    metavar="FILE",
    type=click.Path(),
    callback=a_history,
    help="The history of runs. [default: gpubench/history.db in $XDG_DATA_HOME or ~/.local/share]",
)

HISTORY_OPTIONS: Final = (
    HISTORY_DB,
    click.option("--history/--no-history", default=None, help="Record the run in the history. [default: yes]"),
)

RUN_OPTIONS: Final = (
    click.option(
        "-m",
        "--models",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=complete.models,
        help="Models, separated by commas, or all; your own as file.py:Class or package.module:function. "
        "[default: all]",
    ),
    click.option(
        "--models-file",
        metavar="FILE",
        type=click.Path(),
        help="Models of your own, described in YAML. Without -m, these alone are measured.",
    ),
    click.option(
        "--pythonpath",
        cls=ListOption,
        separator=os.pathsep,
        metavar="FOLDERS",
        help="Folders in which Python looks first for packages of your own, separated by colons.",
    ),
    click.option(
        "--allow-code",
        is_flag=True,
        help="Run code of yours: files, and packages that are not installed.",
    ),
    click.option(
        "-b",
        "--batch-sizes",
        cls=ListOption,
        metavar="SIZES",
        help="Batch sizes, separated by commas, or auto (scan). [default: 1,8,32; training: 32; generation: 1]",
    ),
    click.option(
        "-p",
        "--precision",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=complete.precisions,
        help="fp32, tf32, fp16, bf16 or several, separated by commas. [default: fp32]",
    ),
    click.option(
        "--seq-len",
        cls=ListOption,
        metavar="LENGTHS",
        help="Tokens a sequence, for models of text; of the prompt in generation. [default: each model's own]",
    ),
    click.option(
        "--input-size",
        cls=ListOption,
        metavar="SIZES",
        help="Pixels of a side, for models of images: 224,512,1024. [default: each model's own]",
    ),
    click.option(
        "--memory-format",
        metavar="NAME",
        shell_complete=complete.memory_formats,
        help="channels_last or contiguous, for models of images. [default: channels_last for convolutional ones]",
    ),
    click.option(
        "-i",
        "--iterations",
        metavar="N",
        help="Measure exactly N iterations a launch (not of loads). [default: until the profile's interval is reached]",
    ),
    click.option(
        "-w",
        "--warmup",
        metavar="N",
        help="Warm up for exactly N iterations (not for loading). [default: until times are steady]",
    ),
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(),
        callback=a_file,
        help="The report's file (a folder is refused); an older one is kept beside it. "
        "[default: ./benchmark_report.json]",
    ),
    click.option(
        "-f",
        "--format",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=complete.formats,
        help="json, csv, txt, html, md, samples.csv, pytorch.json or several, separated by commas. "
        "[default: by the suffix of --output, else json]",
    ),
    click.option(
        "--gpu-ids",
        cls=ListOption,
        metavar="IDS",
        shell_complete=complete.gpu_ids,
        help="Indices or UUIDs of GPUs, UUIDs of MIG slices, separated by commas; all; or CPU devices: cpu:0,cpu:1. "
        "[default: all]",
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
        help="quick, triage, standard or rigorous: how long and how exactly is measured. [default: quick]",
    ),
    click.option(
        "--phases",
        cls=ListOption,
        metavar="NAMES",
        shell_complete=complete.phases,
        help="load, inference, training, generation or several. [default: all but generation]",
    ),
    click.option(
        "--launches",
        metavar="N",
        help="Fresh processes for each cell. [default: what the profile says]",
    ),
    click.option(
        "--isolation",
        metavar="NAME",
        shell_complete=complete.isolations,
        help="A fresh process is made by fork, from one with torch imported, or by exec, anew. [default: fork]",
    ),
    click.option(
        "--seed",
        metavar="N",
        help="Decides the order of the cells, weights and inputs. [default: 1]",
    ),
    click.option(
        "--monitor-gpu/--no-monitor-gpu",
        default=None,
        help="Read temperature, power and clocks during the run. [default: yes]",
    ),
    click.option(
        "--require",
        cls=ListOption,
        metavar="SIGNALS",
        shell_complete=complete.signals,
        help="Signals of health that must be readable on a GPU, or the run ends with 4: xid,ecc. [default: none]",
    ),
    click.option(
        "--burn-in",
        metavar="DURATION",
        help="Load and verify every device for so long (10m, 8h, 1h30m), and give each a verdict.",
    ),
    click.option(
        "--level",
        metavar="NAME",
        shell_complete=complete.levels,
        help="Of a burn-in: quick, standard or full. [default: by its duration, up to 10m, up to 1h, longer]",
    ),
    click.option(
        "--inject",
        metavar="FAULT",
        multiple=True,
        help="In a burn-in, prove that a fault is found: flip:<gpu>:<round>[:bits], slow:<gpu>:<percent> or "
        "hot:<gpu>:<celsius>; such a run can never pass.",
    ),
    click.option(
        "--max-temperature",
        metavar="CELSIUS",
        type=int,
        help="In a burn-in, end the load of a GPU that is so hot for 10 s. [default: where it slows itself down]",
    ),
    click.option(
        "--steps", is_flag=True, help="In a burn-in, go from idle to full load and back too, each GPU at its own time."
    ),
    click.option("--in-phase", is_flag=True, help="With --steps, all GPUs at the same time."),
    *HELD_OPTIONS,
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
    *HISTORY_OPTIONS,
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


def held_options(command: Command) -> Command:
    """What a run is held against."""
    return _decorate(command, HELD_OPTIONS)


def history_options(command: Command) -> Command:
    """Whether a run is recorded, and where, in place of what was said when it was begun."""
    return _decorate(command, HISTORY_OPTIONS)


def which_run(command: Command) -> Command:
    """The folder of a run, or the newest one."""
    return _decorate(
        command,
        (
            click.argument("run", required=False, type=click.Path()),
            click.option(
                "--runs-folder",
                metavar="FOLDER",
                type=click.Path(),
                default="runs",
                help="Where to find the newest. [default: ./runs]",
            ),
        ),
    )


def require_one_voice(params: DisplayParams) -> None:
    """Refuse to tell every step and next to nothing at once. Raises ConfigError."""
    if params["verbose"] and params["quiet"]:
        raise ConfigError("-v/--verbose and --quiet contradict each other; leave one of them out")


def _decorate(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
