"""The table of options: each option and each key of a configuration file, declared once.

    Option ─┬─▶ click option, `--help`, completion            cli/decorators.py
            ├─▶ value of the command line, with its origin    cli/option_mapping.py
            ├─▶ key of a configuration file, and its checks   config/settings.py
            ├─▶ field of the run's configuration (sets)       config/resolution.py
            ├─▶ "changes nothing in this run"                 cli/unused_options.py
            └─▶ the table of docs/configuration.md            tests/test_docs.py

Kinds of run add their own rows (kinds/*/options.py). `--help` reads these tables: import nothing slow here.
"""

import enum
import os
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Final

from orchestrator.config import choices
from orchestrator.config.report_formats import ReportFormat

LARGEST: Final = 1_000_000_000
"""Largest whole number that an option accepts. A larger one is a typing mistake."""

MOST_LAUNCHES: Final = 1000  # of each cell: the plan lists every launch


class Kind(enum.Enum):
    """Type of a value, on the command line and in a configuration file.

    SWITCH: on or off. REPEATED: a switch that is counted (-vv). FILE: a path. WORDS: one or several texts. NUMBER: a
    whole number. NUMBERS: one or several. BATCH_SIZES: NUMBERS or "auto". DEVICES: indices, UUIDs, "cpu:0". AMOUNT: any
    decimal number. SECONDS: a decimal number above 0; 0 is allowed if Option.least is 0.
    """

    SWITCH = enum.auto()
    REPEATED = enum.auto()  # a switch that counts
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
    """Condition for an option to have an effect. Its value says why the option has no effect if the run lacks it."""

    TOKENS = "none of the models takes tokens"
    PIXELS = "none of the models has a size in pixels to choose"
    IMAGES = "none of the models sees images"
    MODELS = "probes have no phases"
    PRECISIONS = "these probes do not depend on the precision"
    OWN_MODEL = "no model of yours is measured"
    LOADING = "only load cells keep weights, and this run has no load cell"
    INFERENCE = "no inference is measured"
    TRAINING = "no training is measured"
    GENERATION = "no generation is measured"
    ITERATIONS = "loading is repeated as often as the profile's time allows"
    WARM_UP = "a load has no warm-up"
    COMPUTING = "only inference and training are compiled, and neither is measured"
    COMPILING = "every model is measured eager (--compile)"
    COMPILED_INFERENCE = "no inference is compiled at a fixed batch size (--compile)"
    SHAPES = "no changing shapes are measured (--compile-shapes)"
    FIXED_BATCH = "a scan for the batch size is made once"
    SEVERAL_DEVICES = "there is only one device"
    GPUS = "there is no GPU in this run"
    READ_GPUS = "this run has no GPU to read"
    MONITORING = "no GPU is read"
    WHOLE_GPUS = "the health of CPU devices and of slices of a GPU is not judged"
    HISTORY = "the run is not recorded"


@dataclass(frozen=True)
class Option:
    """One option of the command line (spec), one key of a configuration file, or both.

    spec: flags and placeholder, "-m, --models NAMES". key: with its section, "gpu.ids". Each may be "". sets: field of
    Configuration that gets the value unchanged, or "". default: text for --help; also the value if there are `choices`
    but no key. follows: another key; its command-line option sets this key, too. constant: value that a flag stands
    for. needs: the option has no effect without it. choices: for completion. least, most: limits of a NUMBER.
    separator: of a list; "" if the option is repeated instead.
    """

    spec: str  # flags and metavar, "-m, --models NAMES" or "--history/--no-history"; empty for a key alone
    key: str  # with its section; empty for an option alone
    kind: Kind
    help: str = ""
    _: KW_ONLY
    sets: str = (
        ""  # field of Configuration, or "measurement.iterations" of its Measurement, that gets the value unchanged
    )
    default: str = ""  # in words
    follows: str = ""  # the key whose option sets this one too
    constant: str = ""  # the value of a flag
    needs: enum.StrEnum | None = None  # without it, no effect
    choices: Callable[[], Iterable[str]] | None = None  # for completion
    least: int = 1  # of a NUMBER; 0 lets SECONDS be 0
    most: int = LARGEST  # of a NUMBER
    separator: str = ","  # of a list; empty if the option is repeated

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """Flags of the option as typed, the short one first: -b, --batch-sizes."""
        words = self.spec.partition("/")[0].replace(",", "").split()
        return tuple(word for word in words if word.startswith("-"))

    @property
    def off(self) -> str:
        """The flag that switches the option off, "--no-history"; empty if there is none."""
        return self.spec.partition("/")[2]

    @property
    def metavar(self) -> str:
        """Placeholder of the value in --help, "NAMES"; empty for a flag without a value."""
        last = self.spec.rpartition(" ")[2]
        return "" if last.startswith("-") else last

    @property
    def name(self) -> str:
        """Name of the option's parameter in Python: models_file for --models-file; empty for a key alone."""
        return self.flags[-1].lstrip("-").replace("-", "_") if self.spec else ""

    @property
    def spelling(self) -> str:
        """Name of the option in messages: -b/--batch-sizes."""
        return "/".join(self.flags)


MEASUREMENT: Final = (
    Option(
        "-m, --models NAMES",
        "models",
        Kind.WORDS,
        "Models, or your own (net.py:Net).",
        default="all",
        choices=choices.models,
    ),
    Option(
        "--models-file FILE",
        "models_file",
        Kind.FILE,
        "Your own models, in YAML (docs/own-models.md).",
        needs=Need.OWN_MODEL,
    ),
    Option(
        "--pythonpath FOLDERS",
        "pythonpath",
        Kind.WORDS,
        "Folders of your packages, separated by colons.",
        needs=Need.OWN_MODEL,
        separator=os.pathsep,
    ),
    Option(
        "--allow-code",
        "",
        Kind.SWITCH,
        "Allow files and packages of your own to run.",
        needs=Need.OWN_MODEL,
    ),
    Option(
        "-b, --batch-sizes SIZES",
        "batch_sizes",
        Kind.BATCH_SIZES,
        "Batch sizes, or auto (scan).",
        default="1,8,32; training: 32; generation: 1",
        needs=Need.INFERENCE,
    ),
    Option("", "training_batch_sizes", Kind.BATCH_SIZES, follows="batch_sizes", needs=Need.TRAINING),
    Option("", "generation_batch_sizes", Kind.BATCH_SIZES, follows="batch_sizes", needs=Need.GENERATION),
    Option(
        "-p, --precision NAMES",
        "benchmark.precision",
        Kind.WORDS,
        "fp32, tf32, fp16, bf16 or several.",
        default="fp32",
        needs=Need.PRECISIONS,
        choices=choices.precisions,
    ),
    Option(
        "--seq-len LENGTHS",
        "sequence_lengths",
        Kind.NUMBERS,
        "Tokens per sequence.",
        default="each model's own",
        needs=Need.TOKENS,
    ),
    Option(
        "--input-size SIZES",
        "input_sizes",
        Kind.NUMBERS,
        "Image side in pixels.",
        default="each model's own",
        needs=Need.PIXELS,
    ),
    Option(
        "--memory-format NAME",
        "benchmark.memory_format",
        Kind.TEXT,
        "channels_last or contiguous.",
        default="by model",
        needs=Need.IMAGES,
        choices=choices.memory_formats,
    ),
    Option(
        "--compile MODES",
        "benchmark.compile",
        Kind.WORDS,
        "eager, default, reduce-overhead, max-autotune or several.",
        default="eager",
        needs=Need.COMPUTING,
        choices=choices.compile_modes,
    ),
    Option(
        "--dynamic",
        "benchmark.dynamic",
        Kind.SWITCH,
        "Compile for any size, not just the measured one.",
        sets="dynamic_shapes",
        needs=Need.COMPILING,
    ),
    Option(
        "--compile-shapes SIZES",
        "benchmark.compile_shapes",
        Kind.NUMBERS,
        "Input sizes of compiled inference, in random order.",
        needs=Need.COMPILED_INFERENCE,
    ),
    Option(
        "--buckets N",
        "benchmark.buckets",
        Kind.NUMBER,
        "Pad --compile-shapes to N, 2N, ...",
        default="64",
        needs=Need.SHAPES,
    ),
    Option(
        "-i, --iterations N",
        "benchmark.iterations",
        Kind.NUMBER,
        "Iterations per launch.",
        sets="measurement.iterations",
        default="by the profile",
        needs=Need.ITERATIONS,
    ),
    Option(
        "-w, --warmup N",
        "benchmark.warmup",
        Kind.NUMBER,
        "Warm-up iterations.",
        sets="measurement.warm_up_iterations",
        default="until steady",
        needs=Need.WARM_UP,
    ),
    Option(
        "-o, --output FILE",
        "output.path",
        Kind.FILE,
        "The report.",
        default="./benchmark_report.json",
    ),
    Option(
        "-f, --format NAMES",
        "output.format",
        Kind.WORDS,
        f"{', '.join(ReportFormat)}.",
        default="by the suffix of -o",
        choices=lambda: ReportFormat,
    ),
    Option(
        "--gpu-ids IDS",
        "gpu.ids",
        Kind.DEVICES,
        "GPUs (index, UUID), or cpu:0,cpu:1.",
        default="all",
        choices=choices.devices,
    ),
    Option(
        "--multi-gpu",
        "gpu.multi_gpu",
        Kind.SWITCH,
        "Use all GPUs, whatever --config says.",
    ),
    Option(
        "--solo",
        "benchmark.mode",
        Kind.WORDS,
        "One device at a time.",
        default="all at once",
        constant="solo",
        needs=Need.SEVERAL_DEVICES,
    ),
    Option(
        "--allow-busy",
        "gpu.allow_busy",
        Kind.SWITCH,
        "Also measure GPUs that other processes use.",
        sets="allow_busy",
        needs=Need.GPUS,
    ),
    Option(
        "--profile NAME",
        "benchmark.profile",
        Kind.TEXT,
        "How exactly to measure: quick, triage, standard or rigorous.",
        default="quick",
        choices=choices.profiles,
    ),
    Option(
        "--phases NAMES",
        "benchmark.phases",
        Kind.WORDS,
        "load, inference, training, generation or several.",
        default="all but generation",
        needs=Need.MODELS,
        choices=choices.phases,
    ),
    Option(
        "--launches N",
        "benchmark.launches",
        Kind.NUMBER,
        "Processes per cell.",
        default="1 to 5, so that the run fits 5 min",
        needs=Need.FIXED_BATCH,
        most=MOST_LAUNCHES,
    ),
    Option(
        "--load-window SECONDS",
        "benchmark.load_window",
        Kind.SECONDS,
        "Read power this long.",
        sets="measurement.load_s",
        default="by the profile",
        needs=Need.MONITORING,
        least=0,
    ),
    Option(
        "--isolation NAME",
        "benchmark.isolation",
        Kind.TEXT,
        "fork or exec each launch.",
        default="fork",
        choices=choices.isolations,
    ),
    Option(
        "--seed N",
        "benchmark.seed",
        Kind.NUMBER,
        "Seed of order, weights and inputs.",
        sets="seed",
        default="1",
        least=0,
    ),
    Option(
        "--monitor-gpu/--no-monitor-gpu",
        "monitoring.enabled",
        Kind.SWITCH,
        "Read power, temperature, clocks.",
        sets="monitor",
        default="yes",
        needs=Need.READ_GPUS,
    ),
    Option(
        "",
        "monitoring.interval_ms",
        Kind.NUMBER,
        sets="monitor_interval_ms",
        default="100",
        needs=Need.MONITORING,
        least=10,
    ),
    Option(
        "--require SIGNALS",
        "health.require",
        Kind.WORDS,
        "Health signals that must be readable, such as xid,ecc.",
        needs=Need.WHOLE_GPUS,
        choices=choices.health_signals,
    ),
)
"""Options for models, measurement, devices and the report file."""

COMPARISON: Final = (
    Option(
        "--compare-baseline FILE",
        "compare.baseline",
        Kind.FILE,
        "Show speed relative to a run; `gate` judges it.",
    ),
    Option(
        "--thresholds FILE",
        "compare.thresholds",
        Kind.FILE,
        "Limits in YAML; exit code 1 if one is missed.",
    ),
    Option(
        "--price PRICE",
        "compare.price",
        Kind.AMOUNT,
        "Price of a device per hour, to report costs.",
    ),
)
"""Options for the comparison of a run with others. The command `report` has them, too."""

PLACES: Final = (
    Option(
        "--config FILE",
        "",
        Kind.FILE,
        "Settings in YAML; the command line wins.",
    ),
    Option("--runs-folder FOLDER", "run.folder", Kind.FILE, "Folder of all runs.", default="./runs"),
    Option("", "run.cache", Kind.FILE, default="$XDG_CACHE_HOME/gpubench or ~/.cache/gpubench", needs=Need.LOADING),
    *(
        Option("", f"deadlines.{step}", Kind.SECONDS, default=default)
        for step, default in (
            ("start", "120"),
            ("import", "300"),
            ("build", "300"),
            ("compile", "900"),
            ("warm_up", "300"),
            ("measure", "600"),
            ("finish", "60"),
        )
    ),
)
"""Options for files and folders, and for the deadlines of a launch's phases."""

HISTORY: Final = (
    Option(
        "--history-db FILE",
        "history.file",
        Kind.FILE,
        "The history of runs.",
        default="gpubench/history.db in $XDG_DATA_HOME or ~/.local/share",
        needs=Need.HISTORY,
    ),
    Option(
        "--history/--no-history",
        "history.enabled",
        Kind.SWITCH,
        "Record the run in the history.",
        sets="history",
        default="yes",
    ),
)
"""Options for recording a run in the history. The commands `resume` and `report` have them, too."""

REHEARSAL: Final = (
    Option(
        "--dry-run",
        "",
        Kind.SWITCH,
        "Show the plan and its time; run nothing.",
    ),
)

SHOWN: Final = (Option("--full", "", Kind.SWITCH, "Print the whole report, not just the answer."),)
"""Options of `run`, `resume` and `report` for the length of the printed report."""

SESSION: Final = (
    Option("-v, --verbose", "output.verbose", Kind.SWITCH, "Report every step."),
    Option(
        "-q, --quiet",
        "",
        Kind.REPEATED,
        "Only warnings, progress, the end; -qq: nothing.",
    ),
    Option(
        "--log-format text|json",
        "",
        Kind.TEXT,
        "Text, or a JSON object a line.",
        default="text",
        choices=lambda: ("text", "json"),
    ),
    Option("--strict", "", Kind.SWITCH, "Exit code 1 for slow GPUs, WARN, degraded results."),
    Option(
        "--on-finish COMMAND",
        "",
        Kind.TEXT,
        "Run this at the end, with $GPUBENCH_EXIT_CODE.",
    ),
    Option("--on-failure COMMAND", "", Kind.TEXT, "Run this if the exit code is not 0."),
    Option(
        "--metrics-file FILE.prom",
        "",
        Kind.FILE,
        "Metrics for node_exporter's textfile collector.",
    ),
    Option(
        "--metrics-port PORT",
        "",
        Kind.NUMBER,
        "Port of 127.0.0.1 for Prometheus.",
        most=65535,
    ),
)
"""Options for display and end of one session (start or resume). Most are not in configuration files."""
