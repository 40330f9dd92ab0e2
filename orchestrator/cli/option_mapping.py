"""What the options of a run say, in the terms of a configuration file: the same settings, another way to speak."""

import re
from typing import TYPE_CHECKING, Final

from orchestrator.cli.options import RunParams
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.config.settings import LayeredSettings

KEYS: Final = {
    "benchmark.profile": ("profile", "--profile"),
    "benchmark.phases": ("phases", "--phases"),
    "benchmark.precision": ("precision", "-p/--precision"),
    "benchmark.memory_format": ("memory_format", "--memory-format"),
    "benchmark.iterations": ("iterations", "-i/--iterations"),
    "benchmark.warmup": ("warmup", "-w/--warmup"),
    "benchmark.launches": ("launches", "--launches"),
    "benchmark.seed": ("seed", "--seed"),
    "benchmark.mode": ("solo", "--solo"),
    "benchmark.isolation": ("isolation", "--isolation"),
    "models": ("models", "-m/--models"),
    "models_file": ("models_file", "--models-file"),
    "pythonpath": ("pythonpath", "--pythonpath"),
    "batch_sizes": ("batch_sizes", "-b/--batch-sizes"),
    "training_batch_sizes": ("batch_sizes", "-b/--batch-sizes"),
    "generation_batch_sizes": ("batch_sizes", "-b/--batch-sizes"),
    "sequence_lengths": ("seq_len", "--seq-len"),
    "input_sizes": ("input_size", "--input-size"),
    "output.path": ("output", "-o/--output"),
    "output.format": ("format", "-f/--format"),
    "output.verbose": ("verbose", "-v/--verbose"),
    "monitoring.enabled": ("monitor_gpu", "--monitor-gpu"),
    "health.require": ("require", "--require"),
    "gpu.ids": ("gpu_ids", "--gpu-ids"),
    "gpu.allow_busy": ("allow_busy", "--allow-busy"),
    "run.folder": ("runs_folder", "--runs-folder"),
    "history.enabled": ("history", "--history"),
    "history.file": ("history_db", "--history-db"),
}
"""Key in a file → parameter of the command, and how people write it."""

AUTO: Final = "auto"
"""Instead of batch sizes: find them."""

_NUMBERS: Final = {"iterations", "warmup", "launches", "seed"}
_LISTS: Final = {"batch_sizes", "seq_len", "input_size"}
"""Parameters that are numbers, and those that are lists of them."""


def said(params: RunParams) -> "LayeredSettings":
    """What the options say, by the keys of a configuration file. Raises ConfigError for a value that cannot be."""
    from orchestrator.config.settings import from_options

    given: dict[str, object] = {name: value for name, value in params.items() if value is not None}
    for name in _NUMBERS & given.keys():
        given[name] = _number(str(given[name]))
    for name in _LISTS & given.keys():
        words = [word.strip() for word in str(given[name]).split(",")]
        if name == "batch_sizes" and AUTO in words[1:] + words[:-1]:
            raise ConfigError(f"-b/--batch-sizes: {AUTO} stands alone, it finds the sizes; leave the others out")
        given[name] = AUTO if name == "batch_sizes" and words == [AUTO] else [_number(word) for word in words]
    if params["solo"]:
        given["solo"] = "solo"
    if params["multi_gpu"]:
        given.setdefault("gpu_ids", "all")
    value: dict[str, object] = {}
    origins = {}
    for key, (name, option) in KEYS.items():
        if name in given:
            section, _, last = key.rpartition(".")
            part = value.setdefault(section, {}) if section else value
            assert isinstance(part, dict)
            part[last] = given[name]
            origins[key] = option
    return from_options(value, origins)


def _number(word: str) -> int | str:
    """The number that `word` is; what is none stays a word, and is refused with the rest of the values."""
    return int(word) if re.fullmatch(r"-?[0-9]{1,1000}", word) else word
