"""kinds/burn_in/analysis.py, heat_soaks.py and rate_checks.py: from the files of a night to what is said of each
GPU.
"""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.burn_in import BurnInReport, GpuBurnIn, PaceReport
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import Pace
from orchestrator.kinds.burn_in.heat_soak import Ending
from orchestrator.kinds.burn_in.rate_checks import BESIDE, OVER_TIME
from orchestrator.state.coherence import wrong
from orchestrator.state.failure_policy import POLICY, Reach
from orchestrator.state.slots import scopes
from orchestrator.stats.slowdown_reasons import Reason
from orchestrator.store.journal import read
from orchestrator.store.records import Skipped, TooHot
from protocol.cell import Device, Workload
from protocol.failure import Category
from tests.fakes.findings import mismatch
from tests.fakes.nights import Night, same, sound
from tests.fakes.runs import cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


def steady(_hours: float) -> float:
    """61 degrees from the first moment on."""
    return 61.0


def told(night: Night) -> BurnInReport:
    """What the report says of it."""
    found = night.report().burn_in
    assert found is not None
    return found


def a_night(
    folder: Path,
    *,
    rate: Callable[[int, float], float] = same,
    hot: Callable[[float], float | None] = steady,
    clock: Callable[[int, float], float] = lambda _gpu, _hours: 1500.0,
    devices: tuple[Device, ...] = gpus(4),
) -> BurnInReport:
    """An hour of some GPUs, all of them well looked at; GPU 2 is as hot as `hot` says, the others are steady."""
    night = Night(folder, devices)
    night.work(rate=rate)
    for place in range(len(devices)):
        mine = hot if place == 2 else steady
        night.climate(place, temperature=mine, clock=lambda hours, place=place: clock(place, hours))
    night.well()
    night.finish()
    return told(night)


def pace(gpu: GpuBurnIn, kind: str) -> PaceReport:
    """What one kind of its rates says."""
    return next(one for one in gpu.paces if one.kind == kind)


def test_a_healthy_night_passes(tmp_path: Path) -> None:
    """Every GPU, with its checks, its paces and its heat soak."""
    night = a_night(tmp_path)
    assert [gpu.verdict for gpu in night.gpus] == [HealthVerdict.PASS] * 4
    for gpu in night.gpus:
        assert {one.pace for one in gpu.paces} == {Pace.STEADY}
        assert gpu.heat_soak is not None
        assert gpu.heat_soak.ended_because == (Ending.STEADY,)
        assert "stop for heat" not in gpu.not_tested
        assert gpu.heat_soak.left_out_seconds == 190  # eighteen windows, and the first that is like them


def warming(hours: float) -> float:
    """Half a degree in ten seconds, for eight minutes and a half."""
    return min(31 + 180 * hours, 56.5)


def test_what_a_gpu_does_while_it_warms_up_is_not_held_against_it(tmp_path: Path) -> None:
    """It is fast while it is cold: judged from the first minute on it would be called slowing."""

    def rate(gpu: int, hours: float) -> float:
        return 1.15 if gpu == 2 and warming(hours) < 56 else 1.0

    night = a_night(tmp_path, rate=rate, hot=warming)
    slow, other = night.gpus[2], night.gpus[1]
    assert slow.verdict is HealthVerdict.PASS, slow.reasons
    assert slow.heat_soak is not None
    assert other.heat_soak is not None
    assert slow.heat_soak.left_out_seconds is not None
    assert slow.heat_soak.left_out_seconds > 500
    assert pace(slow, BESIDE).text.startswith("100.0% of its siblings' rate")
    assert other.heat_soak.left_out_seconds == 190


def test_wrong_bits_of_the_heat_soak_count(tmp_path: Path) -> None:
    """A product is right or wrong at any temperature."""
    night = Night(tmp_path, gpus(1))
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    wrong = mismatch(at_ns=night.now_ns, beyond_rounding=True)
    found = msgspec.structs.replace(sound(cell), mismatches=3, kept=(wrong,))
    night.work(verified={(0, Workload.SOAK, 0): found})
    night.climate(0)
    night.well()
    night.finish()
    (gpu,) = told(night).gpus
    assert gpu.verdict is HealthVerdict.FAIL
    soak = next(check for check in gpu.checks if check.check == Workload.SOAK)
    per_launch = 3 * sum(1 for one in night.stored.plan.cells if one.workload is Workload.SOAK)
    assert (soak.mismatches, soak.error_bound) == (per_launch, None)
    assert any(f"{per_launch - 4} more mismatches" in reason.text for reason in gpu.reasons)
    others = [check for check in gpu.checks if check.check != Workload.SOAK]
    assert all(check.mismatches == 0 and check.error_bound == 3 / check.checks for check in others)
    assert soak.error_bound_per_hour is None
    assert all(check.error_bound_per_hour == pytest.approx(3 * 3600 / check.measured_seconds) for check in others)
    assert soak.method == "every output of soak, by a digest"


def test_without_temperatures_the_first_round_is_left_out(tmp_path: Path) -> None:
    """As it is said; what it did in that round is not held against it."""
    launches = 11

    def rate(gpu: int, hours: float) -> float:
        return 1.15 if gpu == 2 and hours < launches * 25 / 3600 else 1.0

    night = Night(tmp_path, gpus(4))
    night.work(rate=rate)
    for gpu in range(4):
        night.climate(gpu, temperature=lambda _hours: None)
    night.well()
    night.finish()
    gpu = told(night).gpus[2]
    assert gpu.heat_soak is not None
    assert (gpu.heat_soak.left_out_seconds, gpu.heat_soak.ended_because) == (None, (Ending.FIRST_ROUND,))
    assert gpu.not_tested["stop for heat"] == "no temperature was read"
    assert {one.pace for one in gpu.paces} == {Pace.STEADY}, gpu.paces
    assert pace(gpu, BESIDE).text.startswith("100.0% of its siblings' rate")


def test_a_cpu_device_has_no_heat_soak(tmp_path: Path) -> None:
    """Its rates are not judged at all."""
    night = Night(tmp_path, cpus(2))
    night.work()
    night.finish()
    assert [(gpu.heat_soak, gpu.paces) for gpu in told(night).gpus] == [(None, ()), (None, ())]


@pytest.mark.parametrize(("devices", "said"), [(1, True), (2, False)])
def test_bits_that_nobody_was_held_against_are_not_tested(tmp_path: Path, devices: int, said: bool) -> None:
    """One device alone has no other to be compared with."""
    night = Night(tmp_path, cpus(devices))
    night.work()
    night.finish()
    for gpu in told(night).gpus:
        assert ("bits against other devices'" in gpu.not_tested) is said


def test_each_time_the_run_is_taken_up_a_gpu_warms_up_again(tmp_path: Path) -> None:
    """An hour's pause in the middle: both beginnings are left out."""
    night = Night(tmp_path, gpus(1))
    middle = len(night.stored.plan.order[night.stored.devices[0].uuid]) // 2
    night.work(last=middle)
    night.segment(now_ns=night.now_ns + 3600 * 10**9)
    night.work(first=middle)
    night.climate(0)
    night.well()
    night.finish()
    (gpu,) = told(night).gpus
    assert gpu.heat_soak is not None
    assert gpu.heat_soak.left_out_seconds == pytest.approx(2 * 190)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_gpu_that_was_too_hot_fails(tmp_path: Path, resumed: bool) -> None:
    """Also where somebody resumed the run, in which it stays out; the others do not."""
    night = Night(tmp_path, gpus(2))
    night.work(last=20)
    night.too_hot(1, "too hot: for 10 s at 90")
    if resumed:
        night.segment()
        night.work(first=20)
    for gpu in range(2):
        night.climate(gpu)
    night.well()
    night.finish()
    first, second = told(night).gpus
    assert second.verdict is HealthVerdict.FAIL
    assert re.fullmatch(r"too hot: for 10 s at 90; first at 20\d\d-\S+Z", second.reasons[0].text)
    assert all("too hot" not in reason.text for reason in first.reasons)
    assert any("was taken out" in reason.text for reason in second.reasons)


def crashing(folder: Path, workload: Workload, category: Category, **details: object) -> Night:
    """A sound night of two CPU devices, in which a launch of the second round failed and was made up for."""
    night = Night(folder, cpus(2), "10m")
    night.work()
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is workload)
    night.failed(cell, category, number=1, message="ended by SIGABRT", **details)
    night.finish()
    return night


FINDINGS = [Category.CRASHED, Category.CUDA_ERROR, Category.COMMUNICATION, Category.NO_OUTCOME]
FROM_OUTSIDE = [
    Category.KILLED,
    Category.ZYGOTE_DIED,
    Category.CONTAMINATED,
    Category.HOST_OUT_OF_MEMORY,
    Category.RESULT_LOST,
]


@pytest.mark.parametrize("category", FINDINGS)
def test_what_a_retry_made_up_for_is_a_finding_all_the_same(tmp_path: Path, category: Category) -> None:
    """WARN for the device that it happened on, with the check, the round and when."""
    assert POLICY[category].retries, "else no run tries it again in its round"
    first, second = told(crashing(tmp_path, Workload.SOAK, category)).gpus
    (reason,) = first.reasons
    assert (first.verdict, reason.verdict, second.verdict) == (
        HealthVerdict.WARN,
        HealthVerdict.WARN,
        HealthVerdict.PASS,
    )
    words = r"made up for it: verified products of .*, round 2, 20\d\d-\S+T\S+Z: "
    assert re.search(f"{words}{category}: ended by SIGABRT$", reason.text), reason.text


@pytest.mark.parametrize("category", [Category.DEADLINE, Category.CUDA_STICKY, Category.EXCEPTION])
def test_what_is_not_tried_again_leaves_a_round_without_a_result(tmp_path: Path, category: Category) -> None:
    """UNKNOWN, also where all other rounds of the check are well."""
    assert not POLICY[category].retries
    night = Night(tmp_path, cpus(2), "10m")
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    at = night.stored.plan.order[cell.devices[0]].index((cell.id, 1))
    night.work(last=at)
    night.failed(cell, category, number=1, message="ended by SIGABRT")
    night.work(first=at + 1)
    night.finish()
    first, second = told(night).gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS)
    assert first.reasons[0].text.startswith("a launch has no result: verified products of ")


def test_a_check_that_was_skipped_is_unknown_on_every_device(tmp_path: Path) -> None:
    """Journals of earlier versions have it: what was well before says nothing of the hours in which it was not made."""
    night = Night(tmp_path, cpus(2), "10m")
    night.work()
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    only = scopes(cell)[Reach.WORK].removeprefix(cell.model).strip()
    night._journal.append(Skipped(model=cell.model, only=only, at_ns=night.now_ns, reason="exception on CPU 0"))
    night.finish()
    for gpu in told(night).gpus:
        (reason,) = gpu.reasons
        assert gpu.verdict is reason.verdict is HealthVerdict.UNKNOWN
        assert reason.text.endswith(", all later rounds: it was skipped on every device: exception on CPU 0")


def test_bits_at_another_batch_size_are_not_compared(tmp_path: Path) -> None:
    """A replay for which there was too little memory went on at half the size: other bits, and no fault of the GPU."""
    night = Night(tmp_path, gpus(3), "1h")
    night.work()
    uuid = night.stored.devices[2].uuid
    cell = next(one for one in night.stored.plan.cells if one.workload is Workload.REPLAY and one.devices == (uuid,))
    halved = msgspec.structs.replace(sound(cell), digests=("0" * 16,))
    night.measured(cell, batch_size=cell.batch_size // 2, number=1, blocks=20, verification=halved)
    for gpu in range(3):
        night.climate(gpu)
    night.well()
    night.finish()
    *others, third = told(night).gpus
    assert [gpu.verdict for gpu in (*others, third)] == [HealthVerdict.PASS] * 3
    assert "batch size here" in third.not_tested["bits against other devices'"]
    assert all("bits against other devices'" not in gpu.not_tested for gpu in others)


@pytest.mark.parametrize("category", FROM_OUTSIDE)
def test_what_came_from_outside_and_was_made_up_for_is_told_alone(tmp_path: Path, category: Category) -> None:
    """It is no finding on a device, and stands among the failures."""
    night = crashing(tmp_path, Workload.SOAK, category)
    assert [(gpu.verdict, gpu.reasons) for gpu in told(night).gpus] == [(HealthVerdict.PASS, ())] * 2
    assert [(one.category, one.gpu_id) for one in night.report().failures] == [(category, 0)]


@pytest.mark.parametrize(
    ("blamed", "verdicts"),
    [({}, [HealthVerdict.WARN, HealthVerdict.WARN]), ({"device": "cpu:1"}, [HealthVerdict.PASS, HealthVerdict.WARN])],
)
def test_of_several_devices_the_one_that_is_blamed_has_the_finding(
    tmp_path: Path, blamed: dict[str, str], verdicts: list[HealthVerdict]
) -> None:
    """All of them where nothing tells which it was."""
    night = crashing(tmp_path, Workload.LINKS, Category.CRASHED, **blamed)
    assert [gpu.verdict for gpu in told(night).gpus] == verdicts


def test_heat_of_a_gpu_that_the_run_does_not_have_is_damage(tmp_path: Path) -> None:
    """A journal that says so is not this run's, and is not believed."""
    night = Night(tmp_path, gpus(1))
    night.too_hot(0, "too hot")
    night.finish()
    records = list(read(night.paths.journal))
    at = next(number for number, one in enumerate(records) if isinstance(one, TooHot))
    assert wrong(night.stored, records) is None
    records[at] = msgspec.structs.replace(records[at], device="GPU-of-another-run")
    assert "is no device of the run" in (wrong(night.stored, records) or "")


def fading(_gpu: int, hours: float) -> float:
    """Eight percent in an hour."""
    return 1 - 0.08 * hours


@pytest.mark.parametrize(
    ("clock_too", "heat", "reason"),
    [(True, 20.0, Reason.HEAT), (True, 0.0, Reason.POWER), (False, 0.0, Reason.OTHER)],
)
def test_a_gpu_that_slows_is_told_with_the_reason(tmp_path: Path, clock_too: bool, heat: float, reason: Reason) -> None:
    """In the report and among the reasons of its verdict; what its clock explains, and what not."""

    def rate(gpu: int, hours: float) -> float:
        return fading(gpu, hours) if gpu == 2 else 1.0

    def clock(gpu: int, hours: float) -> float:
        return 1500 * (rate(gpu, hours) if clock_too else 1.0)

    def hot(hours: float) -> float:
        return 61 + heat * hours

    gpu = a_night(tmp_path, rate=rate, clock=clock, hot=hot).gpus[2]
    found = pace(gpu, OVER_TIME)
    assert (found.pace, found.reason) == (Pace.SLOWER, reason)
    assert found.rate_per_clock_percent == pytest.approx(0.0 if clock_too else -7.0, abs=1.0)
    (said,) = [one.text for one in gpu.reasons if one.text.startswith(OVER_TIME)]
    assert said.endswith(found.reason_text)
    assert gpu.verdict is HealthVerdict.WARN


def test_a_gpu_that_is_slower_than_its_siblings_is_told_with_the_reason(tmp_path: Path) -> None:
    """All night alike: only the others show it."""

    def rate(gpu: int, _hours: float) -> float:
        return 0.9 if gpu == 2 else 1.0

    night = a_night(tmp_path, rate=rate, clock=lambda gpu, hours: 1500 * rate(gpu, hours), hot=lambda _hours: 75.0)
    found = pace(night.gpus[2], BESIDE)
    assert (found.pace, found.reason) == (Pace.SLOWER, Reason.HEAT)
    assert found.reason_text == "its clock is 10.0% lower, and it is 14 degrees hotter: cooling"
    assert pace(night.gpus[2], OVER_TIME).pace is Pace.STEADY
    assert [gpu.verdict for gpu in night.gpus] == [
        HealthVerdict.PASS,
        HealthVerdict.PASS,
        HealthVerdict.WARN,
        HealthVerdict.PASS,
    ]
    assert all(one.reason is None for gpu in (night.gpus[0], night.gpus[1]) for one in gpu.paces)
