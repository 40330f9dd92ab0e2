"""Patterns of the memory test over a whole burn-in: what no launch of a device came to the end of is not tested."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.burn_in import GpuBurnIn
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import memory_test, tallies
from protocol.cell import DeviceKind, Workload
from protocol.verification import MemoryShare, Verification
from tests.fakes.nights import Night, sound
from tests.fakes.runs import gpus

NEVER = "it never came to its end: the launches were too short, or too few"

pytestmark = pytest.mark.usefixtures("unsynced")


def marched(method: str = "compared", **patterns: int) -> Verification:
    """What a launch of the memory test says."""
    return Verification(key=(), method=method, checks=1, patterns=patterns)


def test_what_one_launch_came_to_is_tested() -> None:
    """A pattern needs one launch in the whole night; all others say nothing about it."""
    launches = [marched(walking=1, random=0, modulo=0), marched(walking=0, random=2, modulo=0), marched("a digest")]
    speed = {"memory: its speed": memory_test.SPEED}
    assert memory_test.not_tested(launches) == speed | {"memory: pattern modulo": NEVER}
    assert memory_test.not_tested([*launches, marched(modulo=1)]) == speed
    assert memory_test.not_tested([]) == {}


def test_the_method_says_how_often() -> None:
    """Over all launches; other checks say theirs alone."""
    launches = [marched(walking=1, random=0), marched(walking=1, random=2)]
    assert tallies.method(launches) == "compared, times from end to end: walking 2, random 2"
    assert tallies.method([marched("a digest"), marched("a digest")]) == "a digest"
    assert tallies.method([]) == ""


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
    found = night.ended().burn_in
    assert found is not None
    return found.gpus


def test_the_report_names_them_device_by_device(tmp_path: Path) -> None:
    """Among what was not tested, of the GPU that never came to it alone."""
    first, second = a_night(tmp_path, {0: {"walking": 1, "random": 1}, 1: {"walking": 1, "random": 0}})
    assert "memory: pattern random" not in first.not_tested
    assert second.not_tested["memory: pattern random"] == NEVER
    assert "memory: pattern walking" not in second.not_tested
    assert (first.unfinished, second.unfinished) == ((), ("memory: pattern random",))
    memory = next(check for check in first.checks if check.check == Workload.MEMORY)
    assert memory.method.endswith(f"walking {memory.launches}, random {memory.launches}")


@pytest.mark.parametrize(
    ("covered", "taken", "share", "sizes", "why"),
    [
        (850, 920, "85.0 %", "(850 of 1,000 MiB)", "ended before they had checked"),
        (700, 920, "70.0 %", "(700 of 1,000 MiB)", "ended before they had checked"),
        (600, 600, "60.0 %", "(600 of 1,000 MiB)", "no more than 600 MiB could be had"),
        (920, 600, "60.0 %", "(600 of 1,000 MiB)", "no more than 600 MiB could be had"),
    ],
)
def test_how_much_was_covered_is_told_with_why_no_more(
    covered: int, taken: int, share: str, sizes: str, why: str
) -> None:
    """A worker that says it has checked more than it had is believed as far as that."""
    mib = 1024 * 1024
    said = MemoryShare(covered=covered * mib, taken=taken * mib, whole=1000 * mib)
    found = memory_test.covered([msgspec.structs.replace(marched(), share=said)], DeviceKind.CUDA)
    assert found is not None
    assert (found.share, found.words) == (
        pytest.approx(min(covered, taken) / 1000),
        f"{share} of the most memory that was free when one began {sizes}",
    )
    assert why in found.why


def test_one_launch_that_covered_it_is_enough() -> None:
    """Others may have found less free; a check that says nothing of it is not counted as none."""
    less, most = (MemoryShare(covered=size, taken=size, whole=100) for size in (10, 92))
    launches = [msgspec.structs.replace(marched(), share=share) for share in (less, most, None, less)]
    found = memory_test.covered(launches, DeviceKind.CPU)
    assert found is not None
    assert found.share == pytest.approx(0.92)
    assert found.words == "92.0 % of what was planned (0 of 0 MiB)"
    assert memory_test.covered([marched()], DeviceKind.CPU) is None


def test_a_launch_that_found_little_free_does_not_stand_for_the_whole_memory() -> None:
    """All of 5 GiB, in the launch that came when the others' memory was still taken, is not all of 140."""
    much, little = (
        MemoryShare(covered=covered << 30, taken=covered << 30, whole=whole << 30)
        for covered, whole in ((84, 140), (5, 5))
    )
    launches = [msgspec.structs.replace(marched(), share=share) for share in (much, little)]
    found = memory_test.covered(launches, DeviceKind.CUDA)
    assert found is not None
    assert found.share == pytest.approx(84 / 140)
    assert "no more than 86,016 MiB could be had" in memory_test.lacking(found)


def test_a_gpu_whose_memory_was_not_covered_does_not_pass(tmp_path: Path) -> None:
    """UNKNOWN, with how much was; its sibling, which had it all, passes."""
    night = Night(tmp_path, gpus(2))
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.MEMORY)
    short = msgspec.structs.replace(sound(cell), share=MemoryShare(covered=60 << 30, taken=60 << 30, whole=80 << 30))
    rounds = {number for order in night.stored.plan.order.values() for _, number in order}
    night.work(verified={(0, Workload.MEMORY, number): short for number in rounds})
    for place in range(2):
        night.climate(place)
    night.well()
    found = night.ended().burn_in
    assert found is not None
    first, second = found.gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS), second.reasons
    (reason,) = first.reasons
    assert (
        "75.0 % of the most memory that was free when one began (61,440 of 81,920 MiB), and 85 % are needed"
        in reason.text
    )
    shares = {check.check: check.covered_share for check in first.checks}
    assert shares.pop(Workload.MEMORY) == pytest.approx(0.75)
    assert set(shares.values()) == {None}
