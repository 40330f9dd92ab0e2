"""kinds/burn_in/rate_checks.py and rate_courses.py: rates of each GPU over time, and compared with its siblings."""

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from orchestrator.analysis.evidence import LaunchEvidence, gather
from orchestrator.figures.burn_in import GpuBurnIn, Pace, PaceReport
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import rate_checks
from orchestrator.kinds.burn_in.findings import RateVerdict
from orchestrator.kinds.burn_in.rate_checks import BESIDE, OVER_TIME, Launched
from orchestrator.kinds.burn_in.rate_courses import ITSELF, SIBLINGS
from orchestrator.state.attempts import Attempt
from orchestrator.stats.drift import Course, Drift, Interval
from orchestrator.stats.drift import DriftVerdict as CourseVerdict
from orchestrator.stats.slowdown_reasons import Reading, Reason
from orchestrator.stats.stragglers import SiblingCell
from orchestrator.stats.windows import Window
from orchestrator.store.journal_records import Segment, Start
from protocol.cell import Cell, Device, Workload
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.runs import SECOND_NS, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


Rate = Callable[[Cell, int, float], float]
"""Share of the usual rate: of a cell, on a GPU by its number, after so many hours."""


def _waiting(evidence: LaunchEvidence, waits: bool) -> LaunchEvidence:
    """A launch that waited for the host, or did not."""
    return replace(evidence, figures=msgspec.structs.replace(evidence.figures, host_bound=waits))


def a_burn_in(folder: Path, rate: Callable[[Cell, int, float], float], count: int = 4) -> tuple[GpuBurnIn, ...]:
    """An hour of some GPUs, all of them well; rate: of a GPU in a cell, at so many hours."""
    burn_in_run = FakeBurnIn(folder, gpus(count))
    burn_in_run.work(rate_in=rate)
    return burn_in_run.watched().gpus


def only(gpu: int, share: float, where: Callable[[Cell, float], bool] = lambda _cell, _hours: True) -> Rate:
    """That share of the usual rate of one GPU, in some cells or at some hours."""
    return lambda cell, at, hours: share if at == gpu and where(cell, hours) else 1.0


def verdicts(burn_in_run: Sequence[GpuBurnIn]) -> list[HealthVerdict]:
    """In the order of the GPUs."""
    return [gpu.verdict for gpu in burn_in_run]


def pace(gpu: GpuBurnIn, kind: str) -> PaceReport:
    """What one kind of its rates says."""
    return next(one for one in gpu.paces if one.kind == kind)


@pytest.mark.parametrize("count", [4, 2])
def test_what_all_gpus_lose_alike_is_a_finding(tmp_path: Path, count: int) -> None:
    """WARN for each, with both courses where there are both, its beginning, and the room as the likely cause."""
    for gpu in a_burn_in(tmp_path, lambda _cell, _gpu, hours: 1 - 0.1 * hours, count):
        found = pace(gpu, OVER_TIME)
        assert (gpu.verdict, found.pace) == (HealthVerdict.WARN, Pace.SLOWER)
        courses = {one.against: one for one in found.courses}
        assert set(courses) == ({SIBLINGS, ITSELF} if count == 4 else {ITSELF})
        assert courses[ITSELF].verdict is CourseVerdict.SLOWING
        assert (courses[ITSELF].change_percent or 0) < -4
        assert count == 2 or courses[SIBLINGS].verdict is CourseVerdict.STEADY
        (reason,) = gpu.reasons
        assert ("room" in reason.text, ", over 0.9 h from 20" in reason.text) == (True, True)


def test_the_memory_test_has_no_rate(tmp_path: Path) -> None:
    """A launch that happens to end within a slow pattern is no slower; both courses of a steady GPU are reported."""

    def rate(cell: Cell, gpu: int, hours: float) -> float:
        return 0.9 - 0.5 * hours if gpu == 2 and cell.workload is Workload.MEMORY else 1.0

    for gpu in a_burn_in(tmp_path, rate):
        assert (gpu.verdict, {one.pace for one in gpu.paces}) == (HealthVerdict.PASS, {Pace.STEADY}), gpu.reasons
        changes = {one.against: one.change_percent for one in pace(gpu, OVER_TIME).courses}
        assert changes == pytest.approx({SIBLINGS: 0, ITSELF: 0}, abs=0.01)


def test_a_gpu_that_is_slow_in_one_kind_of_work_alone_is_a_finding(tmp_path: Path) -> None:
    """Beside its siblings, for that kind of work only: the mean over all work would hide it."""
    truth, training, soak = BESIDE[Workload.TRUTH], BESIDE[Workload.REPLAY], BESIDE[Workload.SOAK]

    def rate(cell: Cell, gpu: int, _hours: float) -> float:
        slow = [cell.workload is Workload.TRUTH, cell.workload is Workload.REPLAY, cell.precision == "fp16"]
        share = 0.92 if gpu == 2 and cell.workload is Workload.SOAK else 0.7
        return share if gpu < 3 and slow[gpu] and (gpu != 2 or cell.workload is Workload.SOAK) else 1.0

    burn_in_run = a_burn_in(tmp_path, rate)
    for gpu, kind, carried in (
        (0, truth, "30.0%"),
        (1, training, "30.0%"),
        (2, soak, "fp16 at 92.0%"),
    ):
        assert [one.kind for one in burn_in_run[gpu].paces if one.pace is Pace.SLOWER] == [kind]
        assert carried in pace(burn_in_run[gpu], kind).text
    assert verdicts(burn_in_run) == [HealthVerdict.WARN] * 3 + [HealthVerdict.PASS]


def test_a_gpu_that_slows_in_one_kind_of_work_alone_is_a_finding(tmp_path: Path) -> None:
    """In an hour it is at that work four times or five."""
    slowing = {0: Workload.TRUTH, 2: Workload.REPLAY}
    burn_in_run = a_burn_in(
        tmp_path, lambda cell, gpu, hours: 0.7 if cell.workload is slowing.get(gpu) and hours > 0.5 else 1.0
    )
    for place, gpu in enumerate(burn_in_run):
        found, slow = pace(gpu, OVER_TIME), place in slowing
        assert (gpu.verdict is HealthVerdict.WARN, found.pace is Pace.SLOWER) == (slow, slow)
        assert not slow or (f"{slowing[place]} " in found.text and SIBLINGS in found.text)


def test_a_rate_that_goes_down_and_up_is_inconclusive(tmp_path: Path) -> None:
    """A quarter of an hour in the middle, thirty percent slower: no longer burn-in would settle it."""
    found = pace(a_burn_in(tmp_path, only(2, 0.7, lambda _, hours: 0.35 < hours < 0.6))[2], OVER_TIME)
    assert (found.pace, "too short" in found.text) == (Pace.INCONCLUSIVE, False)


Waits = Callable[[Cell, int], bool]
"""Whether a GPU, by its number, waited for the host in a cell."""


def waiting(monkeypatch: pytest.MonkeyPatch, waits: Waits, rounds: Collection[int] = range(99)) -> None:
    """Have launches of these rounds say that they did."""
    judged, numbers = rate_checks.paces, {gpu.uuid: place for place, gpu in enumerate(gpus(8))}

    def paces_with_waits(
        devices: Sequence[Device], good: Sequence[Launched], *others: Any
    ) -> dict[str, dict[str, RateVerdict]]:
        launches = [
            (attempt, cell, _waiting(evidence, waits(cell, numbers[attempt.start.device]) and late))
            for attempt, cell, evidence in good
            for late in [attempt.start.round in rounds]
        ]
        return judged(devices, launches, *others)

    monkeypatch.setattr(rate_checks, "paces", paces_with_waits)


def training(cell: Cell) -> bool:
    """Whether a cell is one."""
    return cell.workload is Workload.REPLAY


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (range(1, 4), Pace.SLOWER),  # the slow one keeps its host waiting, its siblings wait for theirs
        (range(1), Pace.INCONCLUSIVE),
    ],
)
def test_a_gpu_that_waits_for_the_host_is_not_called_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: range, expected: Pace
) -> None:
    """But siblings that wait are at least as fast as they look: a GPU that is slower still is slow.

    A GPU that waited in all of its work is not tested over time either: no longer burn-in would settle it.
    """
    waiting(monkeypatch, lambda _, gpu: gpu in waits)
    burn_in_run = a_burn_in(tmp_path, only(0, 0.8, lambda cell, _: training(cell)))
    kind = BESIDE[Workload.REPLAY]
    assert pace(burn_in_run[0], kind).pace is expected
    assert (kind in burn_in_run[0].not_tested) is (expected is Pace.INCONCLUSIVE)
    assert [place for place, gpu in enumerate(burn_in_run) if OVER_TIME in gpu.not_tested] == [*waits]


def test_waiting_in_one_model_excuses_nothing_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of work for itself: work that waited for the host is not judged, and named."""
    waiting(monkeypatch, lambda cell, _: training(cell) and cell.model != "bert-base")
    slow = {1: "bert-base", 2: "vae"}
    burn_in_run = a_burn_in(tmp_path, lambda cell, gpu, _hours: 0.8 if cell.model == slow.get(gpu) else 1.0)
    found = [pace(gpu, BESIDE[Workload.REPLAY]) for gpu in burn_in_run]
    assert [one.pace for one in found] == [Pace.STEADY, Pace.SLOWER, Pace.STEADY, Pace.STEADY]
    assert all(re.search("replay vae [^;]*not judged", one.text) for one in found)
    assert [verdict is HealthVerdict.WARN for verdict in verdicts(burn_in_run)] == [False, True, False, False]


def test_single_launches_that_waited_are_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took as long as the host did: the other launches show how fast the GPU is."""
    waiting(monkeypatch, lambda cell, gpu: training(cell) and gpu == 3, rounds=(2,))
    third_round = (0.5, 0.75)  # hours: of four
    burn_in_run = a_burn_in(
        tmp_path, only(3, 0.6, lambda cell, hours: training(cell) and third_round[0] < hours < third_round[1])
    )
    assert pace(burn_in_run[3], BESIDE[Workload.REPLAY]).pace is Pace.STEADY
    assert verdicts(burn_in_run) == [HealthVerdict.PASS] * 4


def test_work_that_all_others_waited_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is slow there may look fast beside them, and is no PASS without a word."""
    waiting(monkeypatch, lambda cell, gpu: cell.model == "vae" and gpu > 0)
    burn_in_run = a_burn_in(tmp_path, lambda cell, gpu, _hours: 0.85 if gpu > 0 and cell.model == "vae" else 1.0)
    found = pace(burn_in_run[0], BESIDE[Workload.REPLAY])
    assert found.pace is Pace.STEADY
    for said in (found.text, burn_in_run[0].not_tested[BESIDE[Workload.REPLAY]]):
        assert "replay vae" in said


def test_a_host_that_is_busier_in_the_evening_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that waits for it is slower then on all GPUs, which says nothing of them."""
    waiting(monkeypatch, lambda cell, _: cell.model == "vae")
    burn_in_run = a_burn_in(tmp_path, lambda cell, _gpu, hours: 0.85 if cell.model == "vae" and hours > 0.55 else 1.0)
    assert verdicts(burn_in_run) == [HealthVerdict.PASS] * 4
    for said in (pace(burn_in_run[0], OVER_TIME).text, burn_in_run[0].not_tested[OVER_TIME]):
        assert "replay vae" in said


def test_speed_without_siblings_is_not_tested(tmp_path: Path) -> None:
    """Of two GPUs, one may be at half its rate all the time: PASS names it. A room that hardly warms is no finding."""
    first, second = a_burn_in(tmp_path, lambda _cell, gpu, hours: (1 - 0.02 * hours) / (1 + gpu), count=2)
    for gpu in (first, second):
        assert (gpu.verdict, pace(gpu, OVER_TIME).pace) == (HealthVerdict.PASS, Pace.STEADY)
    assert second.not_tested.keys() >= set(BESIDE.values())


def test_the_reason_comes_from_a_kind_of_work_that_slows() -> None:
    """Another one, which is inconclusive, may have lost more by chance."""
    slow, unsteady = Interval(-5.0, -6.0, -4.0), Interval(-9.0, -30.0, 12.0)
    whole = Course(verdict=CourseVerdict.SLOWING, hours=1.0, change=slow)
    kinds = {"soak": whole, "replay": Course(verdict=CourseVerdict.TOO_SHORT, hours=1.0, change=unsteady)}
    one = Drift(gpu="GPU-0", raw=whole, relative=None, kinds={}, raw_kinds=kinds)
    rates = []
    for place in range(20):
        soak, replay = 1 - 0.0025 * place, 1 - 0.0045 * place
        hot = Reading(rate=soak, clock_mhz=1500 * soak, temperature_c=60 + place)
        rates += [
            (Window(place, "soak", soak), hot),
            (Window(100 + place, "replay", replay), Reading(rate=replay, clock_mhz=1500, temperature_c=60)),
        ]
    why = rate_checks._why_it_slowed(one, sorted(rates, key=lambda rate: rate[0].number))
    assert why.reason is Reason.HEAT


def test_only_work_whose_rate_is_the_gpus_own_has_windows(tmp_path: Path) -> None:
    """So that no course over time is made of any other."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(1))
    burn_in_run.work(last=12)
    burn_in_run.finish()
    keys = {window.key.split()[0] for one in gather(burn_in_run.archive()).launches.values() for window in one.rates}
    assert keys == {Workload.SOAK, Workload.TRUTH, Workload.REPLAY}


def test_an_inconclusive_loss_of_all_gpus_is_no_finding(tmp_path: Path) -> None:
    """All lose about the margin alike: against its siblings each is steady, and no more is claimed."""
    chance = random.Random(5)
    for gpu in a_burn_in(tmp_path, lambda _cell, _gpu, hours: 1 - 0.0525 * hours + chance.gauss(0, 0.006)):
        found = pace(gpu, OVER_TIME)
        assert (gpu.verdict, found.pace) == (HealthVerdict.PASS, Pace.INCONCLUSIVE), found
        courses = {one.against: one.verdict for one in found.courses}
        assert courses[SIBLINGS] is CourseVerdict.STEADY
        assert courses[ITSELF] is CourseVerdict.TOO_SHORT


def test_a_gpu_at_the_margin_whose_launches_scatter_is_inconclusive(tmp_path: Path) -> None:
    """Its launches differ by as much: neither within the margin nor beyond."""
    chance = random.Random(5)

    def rate(cell: Cell, gpu: int, _hours: float) -> float:
        return 0.96 + chance.gauss(0, 0.05) if gpu == 2 and cell.workload is Workload.SOAK else 1.0

    assert pace(a_burn_in(tmp_path, rate)[2], BESIDE[Workload.SOAK]).pace is Pace.INCONCLUSIVE


def test_a_boot_in_the_middle_begins_no_new_burn_in(tmp_path: Path) -> None:
    """The clock begins anew, with the numbers of the first half: what one GPU lost with it is found and dated."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(4))
    middle = len(burn_in_run.stored.plan.order[burn_in_run.stored.devices[0].uuid]) // 2
    begun_ns = burn_in_run.now_ns
    burn_in_run.work(last=middle)
    for place in range(4):
        burn_in_run.climate(place)
    burn_in_run.segment(boot_id="another", now_ns=begun_ns)
    burn_in_run.work(first=middle, rate=lambda gpu, _hours: 0.9 if gpu == 2 else 1.0)
    found = [pace(gpu, OVER_TIME) for gpu in burn_in_run.finished().gpus]
    assert [one.pace for one in found] == [Pace.STEADY, Pace.STEADY, Pace.SLOWER, Pace.STEADY]
    assert all(0.8 < course.hours < 1 for one in found for course in one.courses)
    slow = {one.against: one for one in found[2].courses}
    assert slow[SIBLINGS].change_percent == pytest.approx(-10, abs=1)
    assert slow[SIBLINGS].step_at_hours == pytest.approx(0.4, abs=0.1)


def launched(boot: str, wall: float, monotonic_s: int, *numbers: int) -> Launched:
    """A launch of a boot, with windows of these numbers. wall, monotonic_s: when its segment began."""
    segment = Segment(
        boot_id=boot, driver_version=None, tool_version="", pid=1, wall=wall, monotonic_ns=monotonic_s * SECOND_NS
    )
    start = Start(launch=1, cell="c", attempt=1, round=0, device="GPU-0", batch_size=1, at_ns=0)
    rates = tuple(Window(number, "soak", 1.0) for number in numbers)
    return Attempt(segment, start), cast("Cell", None), cast("LaunchEvidence", SimpleNamespace(rates=rates))


@pytest.mark.parametrize(
    ("wall", "moved"),
    [
        (20_000.0, 1009),  # by the calendar: its clock began 10,090 seconds after that of the first
        (10_204.0, 29),  # to the nearest window
        (10_000.0, 15),  # the calendar was set back: right behind the last window of the first boot
    ],
)
def test_windows_of_a_later_boot_come_behind_those_of_the_first(wall: float, moved: int) -> None:
    """A segment of the same boot has its clock, whatever the calendar says."""
    first = launched("first", 10_000.0, 100, 10, 11, 24)
    again = launched("first", 77.0, 150, 20)
    second = launched("second", wall, 10, 10, 12)
    assert rate_checks._shifts([first, again, second]) == {"first": 0, "second": moved}
    without_windows = [launched("a", 0.0, 0, 50), launched("b", 10.0, 0), launched("c", 20.0, 0, 3)]
    assert rate_checks._shifts(without_windows) == {"a": 0, "b": 1, "c": 48}  # the third is behind the first


def test_a_launch_that_was_suspended_is_not_compared_with_its_siblings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mean time would have the pause in it, and its scatter would hide a GPU that is slow."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(4))
    cell = burn_in_run.first(Workload.SOAK)
    uuid = cell.devices[0]
    place = burn_in_run.stored.plan.order[uuid].index((cell.id, 1))
    burn_in_run.work(last=place)
    burn_in_run.one(cell, 1, forward_ms=200.0, suspended_s=30.0)
    burn_in_run.work(first=place + 1)
    seen: list[SiblingCell] = []
    monkeypatch.setattr(rate_checks.stragglers, "judge", lambda cells, *_, **__: seen.extend(cells) or ())
    burn_in_run.finished()
    (judged,) = (one for one in seen if one.name == f"soak gemm {cell.precision}")
    rates = judged.rates[uuid]
    assert rates
    assert rates == [pytest.approx(0.01, rel=1e-3)] * len(rates)
