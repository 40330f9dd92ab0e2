"""Words that an option takes, for shell completion. Every import here is deferred."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

GPU_FOLDER: Final = Path("/proc/driver/nvidia/gpus")  # NVML takes seconds to start without persistence mode


def models() -> Iterable[str]:
    """Models and probes that ship, and "all". Raises ConfigError for a broken catalogue."""
    from orchestrator.config import catalogue

    return ["all", *(model.name for model in catalogue.load().models)]


def model_types() -> Iterable[str]:
    """Types of models."""
    from orchestrator.config.catalogue import MODEL_TYPES

    return MODEL_TYPES


def profiles() -> Iterable[str]:
    """Profiles. Raises ConfigError for a broken catalogue."""
    from orchestrator.config import catalogue

    return catalogue.load().profiles


def precisions() -> Iterable[str]:
    """Measurable precisions."""
    from protocol.cell import Precision

    return Precision


def phases() -> Iterable[str]:
    """Measurable phases."""
    from orchestrator.config.workloads import PHASES

    return PHASES


def memory_formats() -> Iterable[str]:
    """Memory formats of images."""
    from protocol.cell import MemoryFormat

    return MemoryFormat


def isolations() -> Iterable[str]:
    """Ways to start the process of a launch."""
    from orchestrator.config.run_configuration import Isolation

    return Isolation


def report_formats() -> Iterable[str]:
    """Formats of the report."""
    from orchestrator.config.report_formats import ReportFormat

    return ReportFormat


def health_signals() -> Iterable[str]:
    """Health signals of a GPU, and names of groups."""
    from orchestrator.config.health_signals import names

    return names()


def devices() -> Iterable[str]:
    """Indices of GPUs as in --gpu-ids, CPU devices, and "all"."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([word for word in visible.split(",") if word.strip()])
    else:
        count = len(list(GPU_FOLDER.iterdir())) if GPU_FOLDER.is_dir() else 0
    cpus = range(len(os.sched_getaffinity(0)))
    return ["all", *map(str, range(count)), *(f"cpu:{number}" for number in cpus)]
