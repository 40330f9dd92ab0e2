"""What the shell offers after an option. Asked for at every press of Tab, so nothing slow is imported."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from orchestrator.errors import UserError

GPU_FOLDER: Final = Path("/proc/driver/nvidia/gpus")
"""One folder a GPU. NVML would know better, but takes seconds to start where persistence mode is off."""


def models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of models, and all."""
    from orchestrator.config import catalogue

    try:
        return _continued(incomplete, ["all", *(model.name for model in catalogue.load().models)])
    except UserError:
        return []


def profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of profiles."""
    from orchestrator.config import catalogue

    try:
        return [name for name in catalogue.load().profiles if name.startswith(incomplete)]
    except UserError:
        return []


def precisions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Precisions that can be measured."""
    from protocol.cell import Precision

    return _continued(incomplete, list(Precision))


def memory_formats(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Orders in memory."""
    from protocol.cell import MemoryFormat

    return [name for name in MemoryFormat if name.startswith(incomplete)]


def isolations(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ways to make a fresh process."""
    from orchestrator.config.run_configuration import Isolation

    return [name for name in Isolation if name.startswith(incomplete)]


def model_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What kinds of models there are."""
    from orchestrator.config.catalogue import MODEL_TYPES

    return [name for name in MODEL_TYPES if name.startswith(incomplete)]


def levels(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Levels of a burn-in."""
    from orchestrator.kinds.burn_in import levels as table

    try:
        return [name for name in table.load().levels if name.startswith(incomplete)]
    except UserError:
        return []


def phases(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Phases that can be measured."""
    from orchestrator.config.resolution import PHASES

    return _continued(incomplete, PHASES)


def formats(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Formats of the report."""
    from orchestrator.config.run_configuration import ReportFormat

    return _continued(incomplete, list(ReportFormat))


def signals(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Signals of a GPU's health, and words for several."""
    from orchestrator.config.health_signals import names

    return _continued(incomplete, names())


def gpu_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Indices of GPUs as --gpu-ids counts them, and CPU devices."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([word for word in visible.split(",") if word.strip()])
    else:
        count = len(list(GPU_FOLDER.iterdir())) if GPU_FOLDER.is_dir() else 0
    cpus = range(len(os.sched_getaffinity(0)))
    return _continued(incomplete, ["all", *map(str, range(count)), *(f"cpu:{n}" for n in cpus)])


def _continued(incomplete: str, names: Iterable[str]) -> list[str]:
    """Ways to go on with a list whose last word has been begun, without the words that it has already."""
    *before, word = incomplete.split(",")
    start = "".join(f"{name}," for name in before)
    return [f"{start}{name}" for name in names if name.startswith(word) and name not in before]
