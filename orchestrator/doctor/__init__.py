"""`doctor`: find what would prevent or disturb a run on this machine, and how to fix it."""

import enum
from collections.abc import Iterator

import msgspec


class Level(enum.StrEnum):
    """Severity of a finding. WARNING: a run may be disturbed. BROKEN: a run would fail, or would not even start."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


class Finding(msgspec.Struct, frozen=True):
    """The result of one check. subject: what was checked. fix: what to do; "" if all is well, or no fix is known."""

    level: Level
    subject: str
    message: str
    fix: str = ""


def finding_of(level: Level, subject: str, message: str) -> Finding:
    """Return a finding for the message "what is wrong. What to do", split at its first ". " (no fix without one)."""
    problem, _, fix = message.partition(". ")
    return Finding(level, subject, problem, fix=fix)


def examine(runs_folder: str, gpu_ids: str = "all") -> Iterator[Finding]:
    """Yield findings, good ones too, on all that a run on the devices `gpu_ids` needs. A missing GPU is a finding.

    runs_folder: where runs would be written. gpu_ids: as for --gpu-ids ("0,1", "cpu:0", "all"). Raises DeviceError for
    a word in it that cannot name a device.
    """
    from orchestrator.config import catalogue, libraries
    from orchestrator.doctor import gpus, machine, software
    from protocol.cell import DeviceKind

    facts = gpus.look(gpu_ids) if gpus.names_gpus(gpu_ids) else None
    if facts is not None:
        yield from gpus.judge(facts)
    yield from software.judge(libraries.torch_cuda(), None if facts is None else facts.inventory.cuda_driver_version)
    yield from software.judge_libraries(libraries.missing(catalogue.load().models))
    yield software.judge_toolchain(DeviceKind.CPU if facts is None else DeviceKind.CUDA)
    yield from machine.judge(machine.look(runs_folder), gpus=0 if facts is None else len(facts.chosen))
