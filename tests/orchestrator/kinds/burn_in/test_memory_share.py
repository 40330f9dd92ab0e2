"""kinds/burn_in/tallies.py and memory_test.py: how launches compared, and what the memory test covered."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import memory_test, tallies
from protocol.cell import DeviceKind, Workload
from protocol.verification import MemoryShare, Verification
from tests.fakes.burn_ins import FakeBurnIn, sound
from tests.fakes.runs import cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


def marched(method: str = "compared", **patterns: int) -> Verification:
    """What a launch of the memory test says."""
    return Verification(key=(), method=method, checks=1, patterns=patterns)


TRITON = "64-bit digest by Triton, in one pass, which takes {} % of the time"
STOCK = "64-bit digest by torch's own operators (Triton: another digest), which takes {} % of the time"


def went(way: str, percent: float) -> Verification:
    """What a launch says that compared like this."""
    return Verification(key=(), method=way.format(percent), checks=1)


def test_every_way_is_told_once() -> None:
    """Launches whose digests differ only in cost count as one method."""
    launches = [went(TRITON, 1.2), went(STOCK, 8.0), went(TRITON, 1.3)]
    assert tallies.method(launches) == f"{launches[0].method}; {launches[1].method}"
    assert tallies.method(launches[::2]) == launches[0].method
    assert tallies.not_tested({"a": launches[::2], "b": launches[1:2]}) == {}


def test_a_digest_that_failed_its_trial_once_is_told_of_its_device(tmp_path: Path) -> None:
    """Among what was not tested, with how often; the other device has none of it, and both pass."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m")
    cell = burn_in_run.first(Workload.SOAK)
    said = {number: msgspec.structs.replace(sound(cell), method=TRITON.format(number / 10)) for number in range(20)}
    said[3] = msgspec.structs.replace(sound(cell), method=STOCK.format(9.0))
    burn_in_run.work(verified={(0, Workload.SOAK, number): found for number, found in said.items()})
    first, second = burn_in_run.finished().gpus
    told = {what: why for what, why in first.not_tested.items() if "one method" in what}
    assert any(what.startswith(f"gemm soak {cell.precision} ") for what in told)
    assert all(" in 1 of " in why for why in told.values())
    assert not [what for what in second.not_tested if "one method" in what]
    assert second.verdict is HealthVerdict.PASS


def test_what_one_launch_came_to_is_tested() -> None:
    """A pattern needs one launch in the whole burn-in; all others say nothing about it."""
    launches = [marched(walking=1, random=0, modulo=0), marched(walking=0, random=2, modulo=0), marched("a digest")]
    speed = {"memory: speed": memory_test.SPEED}
    assert memory_test.not_tested(launches) == speed | {"memory: pattern modulo": memory_test.NEVER}
    assert memory_test.not_tested([*launches, marched(modulo=1)]) == speed
    assert memory_test.not_tested([]) == {}


def test_the_method_says_how_often() -> None:
    """Over all launches; other checks say theirs alone."""
    launches = [marched(walking=1, random=0), marched(walking=1, random=2)]
    assert tallies.method(launches).endswith(": walking 2, random 2")
    assert tallies.method([marched("a digest"), marched("a digest")]) == "a digest"
    assert tallies.method([]) == ""


@pytest.mark.parametrize(
    ("covered", "taken", "share", "sizes", "why"),
    [
        (850, 920, "85.0 %", "(850 of 1,000 MiB)", "ended before"),
        (700, 920, "70.0 %", "(700 of 1,000 MiB)", "ended before"),
        (600, 600, "60.0 %", "(600 of 1,000 MiB)", "only 600 MiB"),
        (920, 600, "60.0 %", "(600 of 1,000 MiB)", "only 600 MiB"),
    ],
)
def test_how_much_was_covered_is_told_with_why_no_more(
    covered: int, taken: int, share: str, sizes: str, why: str
) -> None:
    """A worker that says it has checked more than it had is believed as far as that."""
    mib = 1024 * 1024
    said = MemoryShare(covered=covered * mib, taken=taken * mib, whole=1000 * mib)
    found = memory_test.covered([msgspec.structs.replace(marched(), share=said)], DeviceKind.CUDA)
    assert found.share == pytest.approx(min(covered, taken) / 1000)
    assert (found.text.startswith(share), found.text.endswith(sizes), why in found.why) == (True, True, True)


def test_one_launch_that_covered_it_is_enough() -> None:
    """Others may have found less free; a check that says nothing of it is not counted as none."""
    less, most = (MemoryShare(covered=size, taken=size, whole=100) for size in (10, 92))
    launches = [msgspec.structs.replace(marched(), share=share) for share in (less, most, None, less)]
    found = memory_test.covered(launches, DeviceKind.CPU)
    assert found.share == pytest.approx(0.92)
    assert found.text.startswith("92.0 % ")
    assert memory_test.covered([marched()], DeviceKind.CPU) is None


def test_a_launch_that_found_little_free_does_not_stand_for_the_whole_memory() -> None:
    """All of 5 GiB, in the launch that came when the others' memory was still taken, is not all of 140."""
    much, little = (
        MemoryShare(covered=covered << 30, taken=covered << 30, whole=whole << 30)
        for covered, whole in ((84, 140), (5, 5))
    )
    launches = [msgspec.structs.replace(marched(), share=share) for share in (much, little)]
    found = memory_test.covered(launches, DeviceKind.CUDA)
    assert found.share == pytest.approx(84 / 140)
    assert " 86,016 MiB" in memory_test.lacking(found)


def test_the_report_has_the_coverage_of_each_gpu(tmp_path: Path) -> None:
    """UNKNOWN for too small a share; its sibling passes, with the pattern that was never finished as not tested."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(2), "10m")
    share = MemoryShare(covered=60 << 30, taken=60 << 30, whole=80 << 30)
    healthy = sound(burn_in_run.first(Workload.MEMORY))
    short = msgspec.structs.replace(healthy, share=share, patterns={"walking": 1, "random": 1})
    said = [short, msgspec.structs.replace(healthy, patterns={"walking": 1, "random": 0})]
    rounds = {number for _, number in burn_in_run.stored.plan.slots}
    burn_in_run.work(verified={(at, Workload.MEMORY, number): said[at] for at in range(2) for number in rounds})
    first, second = burn_in_run.watched().gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS), second.reasons
    (reason,) = first.reasons
    assert re.search(r"75\.0 % .*\(61,440 of 81,920 MiB\), .*85 %", reason.text)
    shares = {check.check: check.covered_share for check in first.checks}
    assert shares.pop(Workload.MEMORY) == pytest.approx(0.75)
    assert set(shares.values()) == {None}
    patterns = [{what: why for what, why in gpu.not_tested.items() if "pattern" in what} for gpu in (first, second)]
    assert patterns == [{}, {"memory: pattern random": memory_test.NEVER}]
    assert (first.unfinished, second.unfinished) == ((), ("memory: pattern random",))
    memory = next(check for check in first.checks if check.check == Workload.MEMORY)
    assert memory.method.endswith(f"walking {memory.launches}, random {memory.launches}")
