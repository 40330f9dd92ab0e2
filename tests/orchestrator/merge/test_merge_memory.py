"""Patterns of the memory test over a whole burn-in: what no launch of a device came to the end of is not tested."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from orchestrator.merge import memory_patterns
from orchestrator.report.burn_in import GpuBurnIn
from protocol.cell import Workload
from protocol.verification import Verification
from tests.fakes.nights import Night, sound
from tests.fakes.runs import gpus

NEVER = "it never came to its end: the launches were too short, or too few"


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here depends on what survives a crash, and a night has thousands of records."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _fd: None)


def marched(method: str = "compared", **patterns: int) -> Verification:
    """What a launch of the memory test says."""
    return Verification(key=(), method=method, checks=1, patterns=patterns)


def test_what_one_launch_came_to_is_tested() -> None:
    """A pattern needs one launch in the whole night; all others say nothing about it."""
    launches = [marched(walking=1, random=0, modulo=0), marched(walking=0, random=2, modulo=0), marched("a digest")]
    speed = {"memory: its speed": memory_patterns.SPEED}
    assert memory_patterns.not_tested(launches) == speed | {"memory: pattern modulo": NEVER}
    assert memory_patterns.not_tested([*launches, marched(modulo=1)]) == speed
    assert memory_patterns.not_tested([]) == {}


def test_the_method_says_how_often() -> None:
    """Over all launches; other checks say theirs alone."""
    launches = [marched(walking=1, random=0), marched(walking=1, random=2)]
    assert memory_patterns.method(launches) == "compared, times from end to end: walking 2, random 2"
    assert memory_patterns.method([marched("a digest"), marched("a digest")]) == "a digest"
    assert memory_patterns.method([]) == ""


def a_night(folder: Path, said: Mapping[int, Mapping[str, int]]) -> tuple[GpuBurnIn, ...]:
    """Two GPUs, the launches of whose memory test all said this, by device."""
    night = Night(folder, gpus(2))
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.MEMORY)
    rounds = {number for order in night.stored.plan.order.values() for _, number in order}
    night.work(
        verified={
            (place, Workload.MEMORY, number): msgspec.structs.replace(sound(cell), patterns=dict(patterns))
            for place, patterns in said.items()
            for number in rounds
        }
    )
    night.well()
    night.finish()
    found = night.report().burn_in
    assert found is not None
    return found.gpus


def test_the_report_names_them_device_by_device(tmp_path: Path) -> None:
    """Among what was not tested, of the GPU that never came to it alone."""
    first, second = a_night(tmp_path, {0: {"walking": 1, "random": 1}, 1: {"walking": 1, "random": 0}})
    assert "memory: pattern random" not in first.not_tested
    assert second.not_tested["memory: pattern random"] == NEVER
    assert "memory: pattern walking" not in second.not_tested
    memory = next(check for check in first.checks if check.check == Workload.MEMORY)
    assert memory.method.endswith(f"walking {memory.launches}, random {memory.launches}")
