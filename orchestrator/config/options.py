"""The table of options: each option and each key of a configuration file, declared once.

    Option ─┬─▶ click option, `--help`, completion            cli/options.py
            ├─▶ value of the command line, with its origin    cli/spoken.py
            ├─▶ key of a configuration file, and its checks   configuration/settings.py
            ├─▶ "changes nothing in this run"                 cli/without_effect.py
            └─▶ the table of docs/configuration.md            tests/test_docs.py

Kinds of run add rows of their own (kinds/*/options.py). `--help` reads these tables: nothing slow is imported here.
"""

import enum
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from orchestrator.config import choices

LARGEST: Final = 1_000_000_000
"""Largest whole number of any option: a larger one is a typing mistake, and would not fit into a message."""

MOST_LAUNCHES: Final = 1000
"""Of each cell: the plan names every launch, and nobody has asked more than ten for one."""


class Kind(enum.Enum):
    """Type of a value: how the command line is read, and what may stand in a configuration file."""

    SWITCH = enum.auto()
    TEXT = enum.auto()
    FILE = enum.auto()
    WORDS = enum.auto()
    NUMBER = enum.auto()
    NUMBERS = enum.auto()
    BATCH_SIZES = enum.auto()
    DEVICES = enum.auto()
    AMOUNT = enum.auto()
    SECONDS = enum.auto()

    @property
    def is_list(self) -> bool:
        """Whether an option of this kind takes several values."""
        return self in {Kind.WORDS, Kind.NUMBERS, Kind.BATCH_SIZES, Kind.DEVICES}


class Need(enum.StrEnum):
    """What a run must have for an option to change something; the value says that it has not."""

    TOKENS = "none of the models takes tokens"
    PIXELS = "none of the models has a size in pixels to choose"
    IMAGES = "none of the models sees images"
    MODELS = "probes have no phases"
    PRECISIONS = "these probes move bytes, whatever they stand for"
    OWN_MODEL = "no model of yours is measured"
    LOADING = "weights are kept for load cells, and there is none"
    INFERENCE = "no inference is measured"
    TRAINING = "no training is measured"
    GENERATION = "no generation is measured"
    ITERATIONS = "loading is repeated as often as the profile's time allows"
    WARM_UP = "a load has no warm-up"
    FIXED_BATCH = "a scan for the batch size is made once"
    SEVERAL_DEVICES = "there is one device alone"
    GPUS = "it is about GPUs, and there is none in this run"
    READ_GPUS = "there is no GPU to be read"
    MONITORING = "no GPU is read"
    WHOLE_GPUS = "neither CPU devices nor slices of a GPU are judged"
    HISTORY = "the run is not recorded"


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of the command line, one key of a configuration file, or both.

    flags: as they are typed, the short one first; empty for a key of a file alone. off: the flag that says no.
    key: with its section; empty for an option of the command line alone.
    follows: the key whose option sets this one too. constant: the value that a flag without a value stands for.
    default: in words. needs: what the run must have, or the option changes nothing. least, most: of a NUMBER.
    separator: between the values of a list on the command line; empty where each is given on its own.
    """

    flags: tuple[str, ...] = ()
    key: str = ""
    kind: Kind
    metavar: str = ""
    help: str = ""
    default: str = ""
    off: str = ""
    follows: str = ""
    constant: str = ""
    needs: enum.StrEnum | None = None
    choices: Callable[[], Iterable[str]] | None = None
    least: int = 1
    most: int = LARGEST
    separator: str = ","

    @property
    def name(self) -> str:
        """Name of its parameter: models_file for --models-file."""
        return self.flags[-1].lstrip("-").replace("-", "_") if self.flags else ""

    @property
    def spelling(self) -> str:
        """How messages name it: -b/--batch-sizes."""
        return "/".join(self.flags)


MEASUREMENT: Final = (
    Option(
        flags=("-m", "--models"),
        key="models",
        kind=Kind.WORDS,
        metavar="NAMES",
        help="Models, separated by commas, or all; your own as file.py:Class or package.module:function.",
        default="all",
        choices=choices.models,
    ),
    Option(
        flags=("--models-file",),
        key="models_file",
        kind=Kind.FILE,
        metavar="FILE",
        help="Models of your own, described in YAML. Without -m, these alone are measured.",
        needs=Need.OWN_MODEL,
    ),
    Option(
        flags=("--pythonpath",),
        key="pythonpath",
        kind=Kind.WORDS,
        separator=os.pathsep,
        metavar="FOLDERS",
        help="Folders in which Python looks first for packages of your own, separated by colons.",
        needs=Need.OWN_MODEL,
    ),
    Option(
        flags=("--allow-code",),
        kind=Kind.SWITCH,
        help="Run code of yours: files, and packages that are not installed.",
        needs=Need.OWN_MODEL,
    ),
    Option(
        flags=("-b", "--batch-sizes"),
        key="batch_sizes",
        kind=Kind.BATCH_SIZES,
        metavar="SIZES",
        help="Batch sizes, separated by commas, or auto (scan).",
        default="1,8,32; training: 32; generation: 1",
        needs=Need.INFERENCE,
    ),
    Option(key="training_batch_sizes", kind=Kind.BATCH_SIZES, follows="batch_sizes", needs=Need.TRAINING),
    Option(key="generation_batch_sizes", kind=Kind.BATCH_SIZES, follows="batch_sizes", needs=Need.GENERATION),
    Option(
        flags=("-p", "--precision"),
        key="benchmark.precision",
        kind=Kind.WORDS,
        metavar="NAMES",
        help="fp32, tf32, fp16, bf16 or several, separated by commas.",
        default="fp32",
        needs=Need.PRECISIONS,
        choices=choices.precisions,
    ),
    Option(
        flags=("--seq-len",),
        key="sequence_lengths",
        kind=Kind.NUMBERS,
        metavar="LENGTHS",
        help="Tokens a sequence, for models of text; of the prompt in generation.",
        default="each model's own",
        needs=Need.TOKENS,
    ),
    Option(
        flags=("--input-size",),
        key="input_sizes",
        kind=Kind.NUMBERS,
        metavar="SIZES",
        help="Pixels of a side, for models of images: 224,512,1024.",
        default="each model's own",
        needs=Need.PIXELS,
    ),
    Option(
        flags=("--memory-format",),
        key="benchmark.memory_format",
        kind=Kind.TEXT,
        metavar="NAME",
        help="channels_last or contiguous, for models of images.",
        default="channels_last for convolutional ones",
        needs=Need.IMAGES,
        choices=choices.memory_formats,
    ),
    Option(
        flags=("-i", "--iterations"),
        key="benchmark.iterations",
        kind=Kind.NUMBER,
        metavar="N",
        help="Measure exactly N iterations a launch (not of loads).",
        default="until the profile's interval is reached",
        needs=Need.ITERATIONS,
    ),
    Option(
        flags=("-w", "--warmup"),
        key="benchmark.warmup",
        kind=Kind.NUMBER,
        metavar="N",
        help="Warm up for exactly N iterations (not for loading).",
        default="until times are steady",
        needs=Need.WARM_UP,
    ),
    Option(
        flags=("-o", "--output"),
        key="output.path",
        kind=Kind.FILE,
        metavar="FILE",
        help="The report's file (a folder is refused); an older one is kept beside it.",
        default="./benchmark_report.json",
    ),
    Option(
        flags=("-f", "--format"),
        key="output.format",
        kind=Kind.WORDS,
        metavar="NAMES",
        help="json, csv, txt, html, md, samples.csv, pytorch.json or several, separated by commas.",
        default="by the suffix of --output, else json",
        choices=choices.report_formats,
    ),
    Option(
        flags=("--gpu-ids",),
        key="gpu.ids",
        kind=Kind.DEVICES,
        metavar="IDS",
        help="Indices or UUIDs of GPUs, UUIDs of MIG slices, separated by commas; all; or CPU devices: cpu:0,cpu:1.",
        default="all",
        choices=choices.devices,
    ),
    Option(
        flags=("--multi-gpu",),
        key="gpu.multi_gpu",
        kind=Kind.SWITCH,
        help="All GPUs (the default), whatever the file of --config says, unless --gpu-ids names some.",
    ),
    Option(
        flags=("--solo",),
        key="benchmark.mode",
        kind=Kind.WORDS,
        constant="solo",
        help="One device at a time, the others idle.",
        default="all at once",
        needs=Need.SEVERAL_DEVICES,
    ),
    Option(
        flags=("--allow-busy",),
        key="gpu.allow_busy",
        kind=Kind.SWITCH,
        help="Measure beside other processes on the GPU; results are marked contaminated.",
        needs=Need.GPUS,
    ),
    Option(
        flags=("--profile",),
        key="benchmark.profile",
        kind=Kind.TEXT,
        metavar="NAME",
        help="quick, triage, standard or rigorous: how long and how exactly is measured.",
        default="quick",
        choices=choices.profiles,
    ),
    Option(
        flags=("--phases",),
        key="benchmark.phases",
        kind=Kind.WORDS,
        metavar="NAMES",
        help="load, inference, training, generation or several.",
        default="all but generation",
        needs=Need.MODELS,
        choices=choices.phases,
    ),
    Option(
        flags=("--launches",),
        key="benchmark.launches",
        kind=Kind.NUMBER,
        most=MOST_LAUNCHES,
        metavar="N",
        help="Fresh processes for each cell.",
        default="what the profile says",
        needs=Need.FIXED_BATCH,
    ),
    Option(
        flags=("--isolation",),
        key="benchmark.isolation",
        kind=Kind.TEXT,
        metavar="NAME",
        help="A fresh process is made by fork, from one with torch imported, or by exec, anew.",
        default="fork",
        choices=choices.isolations,
    ),
    Option(
        flags=("--seed",),
        key="benchmark.seed",
        kind=Kind.NUMBER,
        least=0,
        metavar="N",
        help="Decides the order of the cells, weights and inputs.",
        default="1",
    ),
    Option(
        flags=("--monitor-gpu",),
        off="--no-monitor-gpu",
        key="monitoring.enabled",
        kind=Kind.SWITCH,
        help="Read temperature, power and clocks during the run.",
        default="yes",
        needs=Need.READ_GPUS,
    ),
    Option(key="monitoring.interval_ms", kind=Kind.NUMBER, least=10, default="100", needs=Need.MONITORING),
    Option(
        flags=("--require",),
        key="health.require",
        kind=Kind.WORDS,
        metavar="SIGNALS",
        help="Signals of health that must be readable on a GPU, or the run ends with 4: xid,ecc.",
        default="none",
        needs=Need.WHOLE_GPUS,
        choices=choices.health_signals,
    ),
)
"""What is measured, how, on which devices, and where the report goes."""

COMPARISON: Final = (
    Option(
        flags=("--compare-baseline",),
        key="compare.baseline",
        kind=Kind.FILE,
        metavar="FILE",
        help="A baseline, a report, a run's folder or id to be compared with, or the name of a baseline that ships.",
    ),
    Option(
        flags=("--thresholds",),
        key="compare.thresholds",
        kind=Kind.FILE,
        metavar="FILE",
        help="Limits in YAML, as configs/thresholds/example.yaml; one that is missed ends with 1.",
    ),
    Option(
        flags=("--price",),
        key="compare.price",
        kind=Kind.AMOUNT,
        metavar="PRICE",
        help="Of an hour of each device: what a million samples or tokens cost, and the energy they take.",
    ),
)
"""What the figures of a run are compared with; also of `report`."""

PLACES: Final = (
    Option(
        flags=("--config",),
        kind=Kind.FILE,
        metavar="FILE",
        help="A configuration file; the command line wins over it. configs/default.yaml explains every key.",
    ),
    Option(
        flags=("--runs-folder",),
        key="run.folder",
        kind=Kind.FILE,
        metavar="FOLDER",
        help="Each run gets a folder of its own in it.",
        default="./runs",
    ),
    Option(
        key="run.cache", kind=Kind.FILE, default="$XDG_CACHE_HOME/gpubench or ~/.cache/gpubench", needs=Need.LOADING
    ),
    *(
        Option(key=f"deadlines.{step}", kind=Kind.SECONDS, default=default)
        for step, default in (
            ("start", "120"),
            ("import", "300"),
            ("build", "300"),
            ("warm_up", "300"),
            ("measure", "600"),
            ("finish", "60"),
        )
    ),
)
"""Files and folders of the machine, and how long a step of a launch may take there."""

HISTORY: Final = (
    Option(
        flags=("--history-db",),
        key="history.file",
        kind=Kind.FILE,
        metavar="FILE",
        help="The history of runs.",
        default="gpubench/history.db in $XDG_DATA_HOME or ~/.local/share",
        needs=Need.HISTORY,
    ),
    Option(
        flags=("--history",),
        off="--no-history",
        key="history.enabled",
        kind=Kind.SWITCH,
        help="Record the run in the history.",
        default="yes",
    ),
)
"""Whether a run is recorded, and where; also of `resume` and `report`."""

REHEARSAL: Final = (
    Option(
        flags=("--dry-run",),
        kind=Kind.SWITCH,
        help="Show the plan, cell by cell, with an estimate of the time; run and write nothing.",
    ),
)

SESSION: Final = (
    Option(flags=("-v", "--verbose"), key="output.verbose", kind=Kind.SWITCH, help="Report every step."),
    Option(
        flags=("--quiet",),
        kind=Kind.SWITCH,
        help="Print only failures and warnings, and the end in one line.",
    ),
    Option(
        flags=("--log-format",),
        kind=Kind.TEXT,
        metavar="text|json",
        help="Messages as text, or as a JSON object a line.",
        default="text",
        choices=lambda: ("text", "json"),
    ),
    Option(
        flags=("--strict",),
        kind=Kind.SWITCH,
        help="End with 1 for a result that is degraded or does not fit, WARN, or a straggler.",
    ),
    Option(
        flags=("--on-finish",),
        kind=Kind.TEXT,
        metavar="COMMAND",
        help="Call this when the run is over, without a shell; GPUBENCH_REPORT, …_EXIT_CODE and others tell it how.",
    ),
    Option(
        flags=("--on-failure",),
        kind=Kind.TEXT,
        metavar="COMMAND",
        help="The same, only where the exit code is not 0.",
    ),
    Option(
        flags=("--metrics-file",),
        kind=Kind.FILE,
        metavar="FILE.prom",
        help="Keep metrics for Prometheus in this file, for node_exporter's textfile collector.",
    ),
    Option(
        flags=("--metrics-port",),
        kind=Kind.NUMBER,
        most=65_535,
        metavar="PORT",
        help="Answer Prometheus at this port of 127.0.0.1 while the command works.",
    ),
)
"""How one session of a run is shown, and how it ends; also of `resume`, so not of a configuration file."""
