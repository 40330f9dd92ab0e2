"""Possible values of options, for shell completion. Functions import what they need, so that --help is fast."""

import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

GPU_FOLDER: Final = Path("/proc/driver/nvidia/gpus")  # NVML takes seconds to start without persistence mode


def _deferred(module: str, name: str) -> Callable[[], Iterable[str]]:
    return lambda: getattr(importlib.import_module(module), name)


model_types = _deferred("orchestrator.config.catalogue", "MODEL_TYPES")
phases = _deferred("orchestrator.config.workloads", "PHASES")
isolations = _deferred("orchestrator.config.run_configuration", "Isolation")
precisions = _deferred("protocol.cell", "Precision")
compile_modes = _deferred("protocol.cell", "CompileMode")
memory_formats = _deferred("protocol.cell", "MemoryFormat")


def models() -> Iterable[str]:
    """Return the names of shipped models and probes, and "all". Raises ConfigError for a broken catalogue."""
    from orchestrator.config import catalogue

    return ["all", *(model.name for model in catalogue.load().models)]


def profiles() -> Iterable[str]:
    """Return the names of the profiles. Raises ConfigError for a broken catalogue."""
    from orchestrator.config import catalogue

    return catalogue.load().profiles


def health_signals() -> Iterable[str]:
    """Return the names of a GPU's health signals, and of groups of signals, such as "pcie"."""
    from orchestrator.config.health_signals import names

    return names()


def devices() -> Iterable[str]:
    """Return "all" (always), the indices of the visible GPUs ("0"), and a CPU device ("cpu:0") for each usable core."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([word for word in visible.split(",") if word.strip()])
    else:
        count = len(list(GPU_FOLDER.iterdir())) if GPU_FOLDER.is_dir() else 0
    cpus = range(len(os.sched_getaffinity(0)))
    return ["all", *map(str, range(count)), *(f"cpu:{number}" for number in cpus)]
