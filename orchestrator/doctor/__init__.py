"""`doctor`: whether a run can start on this machine, what would disturb it, and what to do about each.

gpus.py      the driver, NVML, CUDA, and who uses the GPUs      ┐
machine.py   cores, memory, disks, limits of the user and job   ├─▶ Finding ─▶ a table, and the exit code
software.py  torch, its CUDA, and the libraries of models       ┘
"""

import enum
from collections.abc import Iterator

import msgspec


class Level(enum.StrEnum):
    """Severity. BROKEN: a run on the GPUs of this machine would not start, or would fail."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


class Finding(msgspec.Struct, frozen=True):
    """One examined thing. fix: what to do about it; empty where all is well."""

    level: Level
    subject: str
    words: str
    fix: str = ""


def said(level: Level, subject: str, message: str) -> Finding:
    """A finding from a message "what is wrong; what to do"."""
    words, _, fix = message.partition("; ")
    return Finding(level, subject, words, fix=fix)


def examine(runs_folder: str, gpu_ids: str = "all") -> Iterator[Finding]:
    """Examine everything that a run on these devices needs; the driver only for GPUs. Raises DeviceError."""
    from orchestrator.config import catalogue, libraries
    from orchestrator.doctor import gpus, machine, software

    facts = gpus.look(gpu_ids) if gpus.names_gpus(gpu_ids) else None
    if facts is not None:
        yield from gpus.judge(facts)
    yield from software.judge(libraries.torch_cuda(), None if facts is None else facts.inventory.cuda_driver_version)
    yield from software.judge_libraries(libraries.missing(catalogue.load().models))
    yield from machine.judge(machine.look(runs_folder), gpus=0 if facts is None else len(facts.chosen))
