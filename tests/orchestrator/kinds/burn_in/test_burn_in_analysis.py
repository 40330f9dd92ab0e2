"""kinds/burn_in/analysis.py, heat_soak.py and rate_checks.py: from the files of a burn-in to the report on each GPU."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.burn_in import BurnInReport, Ending, GpuBurnIn, Pace, PaceReport
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import cell_name
from orchestrator.kinds.burn_in.rate_checks import BESIDE, OVER_TIME
from orchestrator.state.coherence import wrong
from orchestrator.state.failure_policy import POLICY, Reach
from orchestrator.state.slots import scopes
from orchestrator.stats.slowdown_reasons import Reason
from orchestrator.store.journal import read
from orchestrator.store.journal_records import Skipped, TooHot
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.burn_ins import FakeBurnIn, same, sound
from tests.fakes.findings import mismatch
from tests.fakes.runs import cpus, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


Rate = Callable[[int, float], float]


def steady(_hours: float) -> float:
    """61 degrees from the first moment on."""
    return 61.0


def only(device: int, share: Rate) -> Rate:
    """That rate of one device, and the usual one of all others."""
    return lambda gpu, hours: share(gpu, hours) if gpu == device else 1.0


def reported(
    folder: Path,
    *,
    rate: Rate = same,
    hot: Callable[[float], float | None] = steady,
    clock: Rate = lambda _gpu, _hours: 1500.0,
) -> BurnInReport:
    """An hour of four healthy GPUs; GPU 2 is as hot as `hot` says, the others are steady."""
    burn_in_run = FakeBurnIn(folder, gpus(4))
    burn_in_run.work(rate=rate)
    for place in range(4):
        mine = hot if place == 2 else steady
        burn_in_run.climate(place, temperature=mine, clock=lambda hours, place=place: clock(place, hours))
    burn_in_run.well()
    return burn_in_run.finished()


def pace(gpu: GpuBurnIn, kind: str) -> PaceReport:
    """What one kind of its rates says."""
    return next(one for one in gpu.paces if one.kind == kind)


def warming(hours: float) -> float:
    """Half a degree in ten seconds, for eight minutes and a half."""
    return min(31 + 180 * hours, 56.5)


def test_rates_of_the_heat_soak_are_not_judged(tmp_path: Path) -> None:
    """A cold GPU is fast: judged from the first minute on it would be called slowing. The healthy others pass too."""
    rate = only(2, lambda _gpu, hours: 1.15 if warming(hours) < 56 else 1.0)
    gpus_of = reported(tmp_path, rate=rate, hot=warming).gpus
    for place, gpu in enumerate(gpus_of):
        assert gpu.verdict is HealthVerdict.PASS, gpu.reasons
        assert {one.pace for one in gpu.paces} == {Pace.STEADY}
        assert "temperature limit" not in gpu.not_tested
        if place != 2:  # eighteen windows, and the first that is like them
            assert (gpu.heat_soak.ended_because, gpu.heat_soak.excluded_seconds) == ((Ending.STEADY,), 190)
    assert gpus_of[2].heat_soak.excluded_seconds > 500
    assert pace(gpus_of[2], BESIDE[Workload.SOAK]).text.startswith("100.0%")


def test_wrong_bits_of_the_heat_soak_count(tmp_path: Path) -> None:
    """A product is right or wrong at any temperature."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(1), "10m")
    wrong = mismatch(at_ns=burn_in_run.now_ns, beyond_rounding=True)
    found = msgspec.structs.replace(sound(burn_in_run.first(Workload.SOAK)), mismatches=3, kept=(wrong,))
    burn_in_run.work(verified={(0, Workload.SOAK, 0): found})
    (gpu,) = burn_in_run.watched().gpus
    assert gpu.verdict is HealthVerdict.FAIL
    soak = next(check for check in gpu.checks if check.check == Workload.SOAK)
    launches = sum(1 for one in burn_in_run.stored.plan.cells if one.workload is Workload.SOAK)
    assert (soak.mismatches, soak.error_bound) == (3 * launches, None)
    assert any(f"{(3 - 1) * launches} more mismatches" in reason.text for reason in gpu.reasons)
    others = [check for check in gpu.checks if check.check != Workload.SOAK]
    assert all(check.mismatches == 0 and check.error_bound == 3 / check.checks for check in others)
    assert soak.error_bound_per_hour is None
    assert all(check.error_bound_per_hour == pytest.approx(3 * 3600 / check.measured_seconds) for check in others)
    assert soak.method == found.method


def test_without_temperatures_the_first_round_is_the_heat_soak(tmp_path: Path) -> None:
    """The report names the cause; rates of that round are not judged."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(4))
    launches = len({cell for cell, _ in burn_in_run.stored.plan.order[burn_in_run.stored.devices[2].uuid]})
    burn_in_run.work(rate=only(2, lambda _gpu, hours: 1.15 if hours < launches * 25 / 3600 else 1.0))
    gpu = burn_in_run.watched(temperature=lambda _hours: None).gpus[2]
    assert (gpu.heat_soak.excluded_seconds, gpu.heat_soak.ended_because) == (None, (Ending.FIRST_ROUND,))
    assert "temperature limit" in gpu.not_tested
    assert {one.pace for one in gpu.paces} == {Pace.STEADY}, gpu.paces
    assert pace(gpu, BESIDE[Workload.SOAK]).text.startswith("100.0%")


@pytest.mark.parametrize("count", [1, 2])
def test_a_cpu_device_has_no_heat_soak(tmp_path: Path, count: int) -> None:
    """Nor are its rates judged; the bits of one device alone have nothing to be compared with."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(count), "10m")
    burn_in_run.work()
    for gpu in burn_in_run.finished().gpus:
        assert (gpu.heat_soak, gpu.paces) == (None, ())
        assert any(what.startswith("bits") for what in gpu.not_tested) is (count == 1)


def test_a_gpu_warms_up_again_when_the_run_is_resumed(tmp_path: Path) -> None:
    """An hour's pause in the middle: both heat soaks count."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(1))
    middle = len(burn_in_run.stored.plan.order[burn_in_run.stored.devices[0].uuid]) // 2
    burn_in_run.work(last=middle)
    burn_in_run.segment(now_ns=burn_in_run.now_ns + 3600 * 10**9)
    burn_in_run.work(first=middle)
    (gpu,) = burn_in_run.watched().gpus
    assert gpu.heat_soak.excluded_seconds == pytest.approx(2 * 190)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_gpu_that_was_too_hot_fails(tmp_path: Path, resumed: bool) -> None:
    """Also where somebody resumed the run, in which it stays quarantined; the others do not fail."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(2), "10m")
    burn_in_run.work(last=15)
    burn_in_run.too_hot(1, "too hot: for 10 s at 90")
    if resumed:
        burn_in_run.segment()
        burn_in_run.work(first=15)
    first, second = burn_in_run.watched().gpus
    assert second.verdict is HealthVerdict.FAIL
    assert re.fullmatch(r"too hot: .* 10 s .*90; .* 20\d\d-\S+Z", second.reasons[0].text)
    assert all("too hot" not in reason.text for reason in first.reasons)
    assert any("quarantined" in reason.text for reason in second.reasons)


def failing(folder: Path, workload: Workload, *categories: Category, **details: object) -> FakeBurnIn:
    """A healthy burn-in of two CPU devices, in which launches of the second round and later failed and were retried."""
    burn_in_run = FakeBurnIn(folder, cpus(2), "10m")
    burn_in_run.work()
    for number, category in enumerate(categories, 1):
        burn_in_run.failed(burn_in_run.first(workload), category, number=number, message="ended by SIGABRT", **details)
    burn_in_run.finish()
    return burn_in_run


FINDINGS = [Category.CRASHED, Category.CUDA_ERROR, Category.COMMUNICATION, Category.NO_OUTCOME]
FROM_OUTSIDE = [Category.KILLED, Category.ZYGOTE_DIED, Category.CONTAMINATED]
FROM_OUTSIDE += [Category.HOST_OUT_OF_MEMORY, Category.RESULT_LOST]


def test_a_failure_is_a_finding_though_its_retry_succeeded(tmp_path: Path) -> None:
    """WARN for the device that it happened on, with the check, the round and the time."""
    assert all(POLICY[category].retries for category in FINDINGS), "else no run tries it again in its round"
    burn_in_run = failing(tmp_path, Workload.SOAK, *FINDINGS)
    first, second = burn_in_run.chapter().gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.WARN, HealthVerdict.PASS)
    for number, (category, reason) in enumerate(zip(FINDINGS, first.reasons, strict=True), 2):
        where = (
            rf"{re.escape(cell_name(burn_in_run.first(Workload.SOAK)))}, round {number}, 20\d\d-\S+T\S+Z: {category}: "
            "ended by SIGABRT$"
        )
        assert re.search(where, reason.text), reason.text
        assert reason.verdict is HealthVerdict.WARN


def test_a_failure_without_a_retry_leaves_a_round_without_a_result(tmp_path: Path) -> None:
    """UNKNOWN, also where all other rounds of the check are healthy."""
    categories = [Category.DEADLINE, Category.CUDA_STICKY, Category.EXCEPTION]
    assert not any(POLICY[category].retries for category in categories)
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m")
    cell, begin = burn_in_run.first(Workload.SOAK), 0
    for number, category in enumerate(categories, 1):
        at = burn_in_run.stored.plan.order[cell.devices[0]].index((cell.id, number))
        burn_in_run.work(first=begin, last=at)
        burn_in_run.failed(cell, category, number=number, message="ended by SIGABRT")
        begin = at + 1
    burn_in_run.work(first=begin)
    first, second = burn_in_run.finished().gpus
    assert (first.verdict, second.verdict) == (HealthVerdict.UNKNOWN, HealthVerdict.PASS)
    for number, category in enumerate(categories, 2):
        assert any(f"{cell_name(cell)}, round {number}, " in one.text and category in one.text for one in first.reasons)


def test_a_check_that_was_skipped_is_unknown_on_every_device(tmp_path: Path) -> None:
    """Journals of earlier versions have it: what was healthy before says nothing of the hours without it."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2), "10m")
    burn_in_run.work()
    cell = burn_in_run.first(Workload.SOAK)
    only = scopes(cell)[Reach.WORK].removeprefix(cell.model).strip()
    burn_in_run._journal.append(
        Skipped(model=cell.model, only=only, at_ns=burn_in_run.now_ns, reason="exception on CPU 0")
    )
    for gpu in burn_in_run.finished().gpus:
        (reason,) = gpu.reasons
        assert gpu.verdict is reason.verdict is HealthVerdict.UNKNOWN
        assert reason.text.endswith(": exception on CPU 0")


def test_bits_at_another_batch_size_are_not_compared(tmp_path: Path) -> None:
    """A replay for which there was too little memory went on at half the size: other bits, and no fault of the GPU."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(3), "10m")
    burn_in_run.work()
    cell = burn_in_run.first(Workload.REPLAY, burn_in_run.stored.devices[2].uuid)
    halved = msgspec.structs.replace(sound(cell), digests=("0" * 16,))
    burn_in_run.measured(cell, batch_size=cell.batch_size // 2, number=1, blocks=20, verification=halved)
    *others, third = burn_in_run.watched().gpus
    assert [gpu.verdict for gpu in (*others, third)] == [HealthVerdict.PASS] * 3
    untested = [any(what.startswith("bits") for what in gpu.not_tested) for gpu in (*others, third)]
    assert untested == [False, False, True]


def test_a_failure_from_outside_is_no_finding_after_its_retry(tmp_path: Path) -> None:
    """It is only listed among the failures."""
    burn_in_run = failing(tmp_path, Workload.SOAK, *FROM_OUTSIDE)
    assert [(gpu.verdict, gpu.reasons) for gpu in burn_in_run.chapter().gpus] == [(HealthVerdict.PASS, ())] * 2
    assert [(one.category, one.gpu_id) for one in burn_in_run.report().failures] == [(one, 0) for one in FROM_OUTSIDE]


@pytest.mark.parametrize(
    ("blamed", "verdicts"),
    [({}, [HealthVerdict.WARN, HealthVerdict.WARN]), ({"device": "cpu:1"}, [HealthVerdict.PASS, HealthVerdict.WARN])],
)
def test_of_several_devices_the_one_that_is_blamed_has_the_finding(
    tmp_path: Path, blamed: dict[str, str], verdicts: list[HealthVerdict]
) -> None:
    """All of them where nothing tells which it was."""
    burn_in_run = failing(tmp_path, Workload.LINKS, Category.CRASHED, **blamed)
    assert [gpu.verdict for gpu in burn_in_run.chapter().gpus] == verdicts


def test_heat_of_a_gpu_that_the_run_does_not_have_is_damage(tmp_path: Path) -> None:
    """A journal that says so is not this run's, and is not believed."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(1))
    burn_in_run.too_hot(0, "too hot")
    burn_in_run.finish()
    records = list(read(burn_in_run.paths.journal))
    at = next(number for number, one in enumerate(records) if isinstance(one, TooHot))
    assert wrong(burn_in_run.stored, records) is None
    records[at] = msgspec.structs.replace(records[at], device="GPU-of-another-run")
    assert "GPU-of-another-run" in (wrong(burn_in_run.stored, records) or "")


@pytest.mark.parametrize(
    ("clock_too", "heat", "reason"),
    [(True, 20.0, Reason.HEAT), (False, 0.0, Reason.OTHER)],
)
def test_a_gpu_that_slows_has_the_reason(tmp_path: Path, clock_too: bool, heat: float, reason: Reason) -> None:
    """In the report and among the reasons of its verdict: 8 % in an hour, which its clock explains or not."""
    rate = only(2, lambda _gpu, hours: 1 - 0.08 * hours)
    gpu = reported(
        tmp_path,
        rate=rate,
        clock=lambda gpu, hours: 1500 * (rate(gpu, hours) if clock_too else 1.0),
        hot=lambda hours: 61 + heat * hours,
    ).gpus[2]
    found = pace(gpu, OVER_TIME)
    assert (found.pace, found.reason) == (Pace.SLOWER, reason)
    assert found.rate_per_clock_percent == pytest.approx(0.0 if clock_too else -7.0, abs=1.0)
    (said,) = [one.text for one in gpu.reasons if one.text.endswith(f"({OVER_TIME})")]
    assert found.reason_text in said
    assert gpu.verdict is HealthVerdict.WARN


def test_a_gpu_that_is_slower_than_its_siblings_has_the_reason(tmp_path: Path) -> None:
    """All the time alike: only the others show it."""
    rate = only(2, lambda _gpu, _hours: 0.9)
    report = reported(tmp_path, rate=rate, clock=lambda gpu, hours: 1500 * rate(gpu, hours), hot=lambda _hours: 75.0)
    found = pace(report.gpus[2], BESIDE[Workload.SOAK])
    assert (found.pace, found.reason) == (Pace.SLOWER, Reason.HEAT)
    assert [part for part in ("10.0%", "14 degrees") if part not in found.reason_text] == []
    assert pace(report.gpus[2], OVER_TIME).pace is Pace.STEADY
    expected = [HealthVerdict.WARN if at == 2 else HealthVerdict.PASS for at in range(4)]
    assert [gpu.verdict for gpu in report.gpus] == expected
    assert all(one.reason is None for gpu in report.gpus[:2] for one in gpu.paces)
