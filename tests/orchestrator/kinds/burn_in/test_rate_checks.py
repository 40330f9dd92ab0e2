"""kinds/burn_in/rate_checks.py and rate_courses.py: what a night's rates say of each GPU, by itself and beside its
siblings.
"""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.analysis.evidence import LaunchEvidence, gather
from orchestrator.figures.burn_in import GpuBurnIn, PaceReport
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in import rate_checks
from orchestrator.kinds.burn_in.findings import Pace, RateVerdict
from orchestrator.kinds.burn_in.rate_checks import BESIDE, OVER_TIME, Launched
from orchestrator.kinds.burn_in.rate_courses import ITSELF, SIBLINGS
from orchestrator.state.archive import Attempt
from orchestrator.stats.drift import Course, Drift
from orchestrator.stats.drift import DriftVerdict as CourseVerdict
from orchestrator.stats.siblings import SiblingCell
from orchestrator.stats.slowdown_reasons import Reading, Reason
from orchestrator.stats.trend import Interval
from orchestrator.stats.windows import Window
from orchestrator.store.records import Segment, Start
from protocol.cell import Cell, Device, Workload
from tests.fakes.nights import Night, sound
from tests.fakes.runs import SECOND_NS, gpus

pytestmark = pytest.mark.usefixtures("unsynced")


def a_night(folder: Path, rate: Callable[[Cell, int, float], float], count: int = 4) -> tuple[GpuBurnIn, ...]:
    """An hour of some GPUs, all of them well; rate: of a GPU in a cell, at so many hours."""
    night = Night(folder, gpus(count))
    night.work(rate_in=rate)
    for place in range(count):
        night.climate(place)
    night.well()
    night.finish()
    found = night.report().burn_in
    assert found is not None
    return found.gpus


def pace(gpu: GpuBurnIn, kind: str) -> PaceReport:
    """What one kind of its rates says."""
    return next(one for one in gpu.paces if one.kind == kind)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (4, "over the night: all slow alike, the room perhaps: -"),
        (2, "nothing shows whether it is the GPU or the room"),
    ],
)
def test_what_all_gpus_lose_alike_is_a_finding(tmp_path: Path, count: int, words: str) -> None:
    """WARN for each, with both courses where there are both, when it began, and the room named before the GPU."""
    for gpu in a_night(tmp_path, lambda _cell, _gpu, hours: 1 - 0.1 * hours, count):
        found = pace(gpu, OVER_TIME)
        assert (gpu.verdict, found.pace) == (HealthVerdict.WARN, Pace.SLOWER)
        courses = {one.against: one for one in found.courses}
        assert set(courses) == ({SIBLINGS, ITSELF} if count == 4 else {ITSELF})
        assert courses[ITSELF].verdict is CourseVerdict.SLOWING
        assert courses[ITSELF].change_percent is not None
        assert courses[ITSELF].change_percent < -4
        if count == 4:
            assert courses[SIBLINGS].verdict is CourseVerdict.STEADY
        (reason,) = gpu.reasons
        assert words in reason.text
        assert "look at the room's temperature over the night first, then measure again" in reason.text
        assert ", over 0.9 h from 20" in reason.text


def test_a_room_that_warms_a_little_is_no_finding(tmp_path: Path) -> None:
    """Two percent of an hour, on GPUs that have no siblings to take it out."""
    for gpu in a_night(tmp_path, lambda _cell, _gpu, hours: 1 - 0.02 * hours, 2):
        assert (gpu.verdict, pace(gpu, OVER_TIME).pace) == (HealthVerdict.PASS, Pace.STEADY)


def test_both_courses_are_in_the_report_of_a_steady_gpu(tmp_path: Path) -> None:
    """Against its siblings and by itself, with the change of each."""
    for gpu in a_night(tmp_path, lambda _cell, _gpu, _hours: 1.0):
        found = pace(gpu, OVER_TIME)
        assert (found.pace, gpu.verdict) == (Pace.STEADY, HealthVerdict.PASS)
        assert {one.against: one.change_percent for one in found.courses} == pytest.approx(
            {SIBLINGS: 0, ITSELF: 0}, abs=0.01
        )


def test_a_gpu_that_is_slow_in_one_kind_of_work_alone_is_a_finding(tmp_path: Path) -> None:
    """The others hide it in the mean over all of them; the cell is named, and no sibling."""

    def rate(cell: Cell, gpu: int, _hours: float) -> float:
        return 0.92 if gpu == 2 and cell.precision == "fp16" else 1.0

    night = a_night(tmp_path, rate)
    found = pace(night[2], BESIDE)
    assert found.pace is Pace.SLOWER
    assert "fp16 at 92.0% of theirs" in found.text
    assert [gpu.verdict for gpu in night] == [
        HealthVerdict.PASS,
        HealthVerdict.PASS,
        HealthVerdict.WARN,
        HealthVerdict.PASS,
    ]


@pytest.mark.parametrize(
    ("workload", "kind"), [(Workload.TRUTH, f"{BESIDE} in checks of truth"), (Workload.REPLAY, f"{BESIDE} in training")]
)
def test_a_gpu_that_is_slow_all_night_in_what_is_no_load_is_a_finding(
    tmp_path: Path, workload: Workload, kind: str
) -> None:
    """Beside its siblings, by itself: in the load, of which there is more, it is as fast as they are."""
    night = a_night(tmp_path, lambda cell, gpu, _hours: 0.7 if gpu == 2 and cell.workload is workload else 1.0)
    found = pace(night[2], kind)
    assert found.pace is Pace.SLOWER
    assert found.text.startswith("70.0% of its siblings' rate")
    assert pace(night[2], BESIDE).pace is Pace.STEADY
    assert [gpu.verdict for gpu in night] == [
        HealthVerdict.PASS,
        HealthVerdict.PASS,
        HealthVerdict.WARN,
        HealthVerdict.PASS,
    ]


@pytest.mark.parametrize("workload", [Workload.TRUTH, Workload.REPLAY])
def test_a_gpu_that_slows_in_one_kind_of_work_alone_is_a_finding(tmp_path: Path, workload: Workload) -> None:
    """In an hour it is at that work four times or five."""
    night = a_night(
        tmp_path, lambda cell, gpu, hours: 0.7 if gpu == 2 and cell.workload is workload and hours > 0.5 else 1.0
    )
    found = pace(night[2], OVER_TIME)
    assert (night[2].verdict, found.pace) == (HealthVerdict.WARN, Pace.SLOWER)
    assert f"{workload} " in found.text
    assert "against its siblings" in found.text
    assert {pace(gpu, OVER_TIME).pace for place, gpu in enumerate(night) if place != 2} == {Pace.STEADY}


def test_what_went_up_and_down_is_not_called_too_short(tmp_path: Path) -> None:
    """A quarter of an hour in the middle, thirty percent slower: no longer night would tell."""
    night = a_night(tmp_path, lambda _cell, gpu, hours: 0.7 if gpu == 2 and 0.35 < hours < 0.6 else 1.0)
    found = pace(night[2], OVER_TIME)
    assert (found.pace, found.text) == (Pace.UNTOLD, "too unsteady to tell whether it slows")


Waits = Callable[[Cell, int], bool]
"""Whether a GPU, by its number, waited for the host in a cell."""


def waiting(monkeypatch: pytest.MonkeyPatch, waits: Waits, rounds: Collection[int] = range(99)) -> None:
    """Have launches of these rounds say that they did."""
    judged, numbers = rate_checks.paces, {gpu.uuid: place for place, gpu in enumerate(gpus(8))}

    def said(devices: Sequence[Device], good: Sequence[Launched], *others: Any) -> dict[str, dict[str, RateVerdict]]:
        launches = [
            (attempt, cell, replace(evidence, launch_bound=waits(cell, numbers[attempt.start.device]) and late))
            for attempt, cell, evidence in good
            for late in [attempt.start.round in rounds]
        ]
        return judged(devices, launches, *others)

    monkeypatch.setattr(rate_checks, "paces", said)


def training(cell: Cell) -> bool:
    """Whether a cell is one."""
    return cell.workload is Workload.REPLAY


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (range(1, 4), Pace.SLOWER),  # the slow one keeps its host waiting, its siblings wait for theirs
        (range(1), Pace.UNTOLD),
    ],
)
def test_who_waits_for_the_host_is_not_called_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: range, expected: Pace
) -> None:
    """But siblings that do are as fast as they look, at the least: one that is slower than they are is slow."""
    waiting(monkeypatch, lambda _, gpu: gpu in waits)
    night = a_night(tmp_path, lambda cell, gpu, _hours: 0.8 if gpu == 0 and training(cell) else 1.0)
    found = pace(night[0], f"{BESIDE} in training")
    assert found.pace is expected
    assert ("waited for the host" in found.text) == (expected is Pace.UNTOLD)
    assert (f"speed {BESIDE} in training" in night[0].not_tested) == (expected is Pace.UNTOLD)


@pytest.mark.parametrize(("slow", "expected"), [("bert-base", Pace.SLOWER), ("vae", Pace.STEADY)])
def test_waiting_in_one_model_excuses_nothing_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str, expected: Pace
) -> None:
    """Each kind of work for itself: what waited for the host is left out of both, and named."""
    waiting(monkeypatch, lambda cell, _: training(cell) and cell.model != "bert-base")
    night = a_night(tmp_path, lambda cell, gpu, _hours: 0.8 if gpu == 1 and cell.model == slow else 1.0)
    found = pace(night[1], f"{BESIDE} in training")
    assert found.pace is expected
    assert "nothing is said of replay" in found.text
    assert "vae" in found.text.partition("nothing is said of")[2]
    assert [gpu.verdict for gpu in night[:1] + night[2:]] == [HealthVerdict.PASS] * 3
    assert night[1].verdict is (HealthVerdict.WARN if expected is Pace.SLOWER else HealthVerdict.PASS)


def test_launches_that_waited_are_left_out_where_most_did_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They took as long as the host did: the others say how fast the GPU is."""
    waiting(monkeypatch, lambda cell, gpu: training(cell) and gpu == 3, rounds=(2,))
    quarter = 0.5  # hours after which the third round of four begins
    night = a_night(
        tmp_path, lambda cell, gpu, hours: 0.6 if gpu == 3 and training(cell) and quarter < hours < 0.75 else 1.0
    )
    assert pace(night[3], f"{BESIDE} in training").pace is Pace.STEADY
    assert [gpu.verdict for gpu in night] == [HealthVerdict.PASS] * 4


def test_work_that_all_others_waited_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is slow there may look fast beside them, and is no PASS without a word."""
    waiting(monkeypatch, lambda cell, gpu: cell.model == "vae" and gpu > 0)
    night = a_night(tmp_path, lambda cell, gpu, _hours: 0.85 if gpu > 0 and cell.model == "vae" else 1.0)
    found = pace(night[0], f"{BESIDE} in training")
    assert found.pace is Pace.STEADY
    assert "nothing is said of replay vae" in found.text
    assert "too few others did that more than once without waiting for the host" in found.text
    assert night[0].not_tested[f"speed {BESIDE} in training"].startswith("nothing is said of replay vae")


def test_who_waited_in_all_of_its_work_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No longer night would tell."""
    waiting(monkeypatch, lambda _cell, gpu: gpu == 2)
    night = a_night(tmp_path, lambda *_: 1.0)
    assert night[2].not_tested[f"speed {OVER_TIME}"] == "it waited for the host in all of its work"
    assert f"speed {OVER_TIME}" not in night[0].not_tested


def test_a_host_that_is_busier_in_the_evening_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that waits for it is slower then on all GPUs, which says nothing of them."""
    waiting(monkeypatch, lambda cell, _: cell.model == "vae")
    night = a_night(tmp_path, lambda cell, _gpu, hours: 0.85 if cell.model == "vae" and hours > 0.55 else 1.0)
    assert [gpu.verdict for gpu in night] == [HealthVerdict.PASS] * 4
    assert "; nothing is said of replay vae" in pace(night[0], OVER_TIME).text
    assert night[0].not_tested[f"speed {OVER_TIME}"].startswith("nothing is said of replay vae")


def test_speed_that_nothing_was_held_against_is_named_as_not_tested(tmp_path: Path) -> None:
    """Of two GPUs, one may be at half its rate all night: PASS says so."""
    first, second = a_night(tmp_path, lambda _cell, gpu, _hours: 0.5 if gpu == 1 else 1.0, count=2)
    assert first.verdict is second.verdict is HealthVerdict.PASS
    for kind in (BESIDE, f"{BESIDE} in checks of truth", f"{BESIDE} in training"):
        assert second.not_tested[f"speed {kind}"] == "three GPUs or fewer: only against a baseline"


def test_the_reason_comes_from_a_kind_of_work_that_slows() -> None:
    """Another one, which is too unsteady to tell, may have lost more by chance."""
    slow, unsteady = Interval(-5.0, -6.0, -4.0), Interval(-9.0, -30.0, 12.0)
    kinds = {
        "soak": Course(verdict=CourseVerdict.SLOWING, hours=1.0, change=slow),
        "replay": Course(verdict=CourseVerdict.TOO_SHORT, hours=1.0, change=unsteady),
    }
    whole = Course(verdict=CourseVerdict.SLOWING, hours=1.0, change=slow)
    one = Drift(gpu="GPU-0", raw=whole, relative=None, kinds={}, raw_kinds=kinds)
    rates = [
        (Window(place, "soak", rate), Reading(rate=rate, clock_mhz=1500 * rate, temperature_c=60 + place))
        for place in range(20)
        for rate in [1 - 0.0025 * place]
    ]
    rates += [
        (Window(100 + place, "replay", rate), Reading(rate=rate, clock_mhz=1500, temperature_c=60))
        for place in range(20)
        for rate in [1 - 0.0045 * place]
    ]
    why = rate_checks._why_it_slowed(one, rates)
    assert why is not None
    assert why.reason is Reason.HEAT


def test_the_test_of_memory_has_no_rate(tmp_path: Path) -> None:
    """A launch that happens to end within a slow pattern is no slower: neither beside siblings nor over the night."""

    def rate(cell: Cell, gpu: int, hours: float) -> float:
        return 0.9 - 0.5 * hours if gpu == 2 and cell.workload is Workload.MEMORY else 1.0

    for gpu in a_night(tmp_path, rate):
        assert (gpu.verdict, {one.pace for one in gpu.paces}) == (HealthVerdict.PASS, {Pace.STEADY}), gpu.reasons


def test_only_work_whose_rate_is_the_gpus_own_has_windows(tmp_path: Path) -> None:
    """So that no course over the night is made of any other."""
    night = Night(tmp_path, gpus(1))
    night.work(last=25)
    night.finish()
    keys = {window.key.split()[0] for one in gather(night.archive()).launches.values() for window in one.rates}
    assert keys == {Workload.SOAK, Workload.TRUTH, Workload.REPLAY}


def test_what_cannot_be_told_names_the_course(tmp_path: Path) -> None:
    """All GPUs lose about the margin alike: as their siblings, and no more is claimed."""
    chance = random.Random(5)

    def rate(_cell: Cell, _gpu: int, hours: float) -> float:
        return 1 - 0.0525 * hours + chance.gauss(0, 0.006)

    for gpu in a_night(tmp_path, rate):
        found = pace(gpu, OVER_TIME)
        assert (gpu.verdict, found.pace) == (HealthVerdict.PASS, Pace.UNTOLD), found
        assert found.text.startswith("as its siblings; too short to tell whether all of them slow")


def test_what_is_not_settled_beside_siblings_is_not_called_steady(tmp_path: Path) -> None:
    """A GPU at the margin whose launches differ by as much: neither within it nor beyond."""
    chance = random.Random(5)

    def rate(cell: Cell, gpu: int, _hours: float) -> float:
        return 0.96 + chance.gauss(0, 0.05) if gpu == 2 and cell.workload is Workload.SOAK else 1.0

    assert pace(a_night(tmp_path, rate)[2], BESIDE).pace is Pace.UNTOLD


def test_a_boot_in_the_middle_begins_no_new_night(tmp_path: Path) -> None:
    """The clock begins anew, with the numbers of the first half: what one GPU lost with it is found and dated."""
    night = Night(tmp_path, gpus(4))
    middle = len(night.stored.plan.order[night.stored.devices[0].uuid]) // 2
    begun_ns = night.now_ns
    night.work(last=middle)
    for place in range(4):
        night.climate(place)
    night.segment(boot_id="another", now_ns=begun_ns)
    night.work(first=middle, rate=lambda gpu, _hours: 0.9 if gpu == 2 else 1.0)
    night.finish()
    found = night.report().burn_in
    assert found is not None
    for place, gpu in enumerate(found.gpus):
        told = pace(gpu, OVER_TIME)
        assert told.pace is (Pace.SLOWER if place == 2 else Pace.STEADY), told.text
        assert all(0.8 < one.hours < 1 for one in told.courses), told.courses
    slow = {one.against: one for one in pace(found.gpus[2], OVER_TIME).courses}
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


def test_boots_without_a_window_do_not_move_what_follows() -> None:
    """The third comes behind the first."""
    found = rate_checks._shifts([launched("a", 0.0, 0, 50), launched("b", 10.0, 0), launched("c", 20.0, 0, 3)])
    assert found == {"a": 0, "b": 1, "c": 48}


def test_a_launch_that_stood_still_is_not_held_against_its_siblings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mean time would have the pause in it, and its scatter would hide a GPU that is slow."""
    night = Night(tmp_path, gpus(4))
    cell = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    uuid = cell.devices[0]
    place = next(at for at, slot in enumerate(night.stored.plan.order[uuid]) if slot[0] == cell.id and slot[1] > 0)
    night.work(last=place)
    night.measured(
        cell, number=1, verification=sound(cell), forward_ms=200.0, blocks=3, iterations=10, stood_still_s=30.0
    )
    night.work(first=place + 1)
    night.finish()
    seen: list[SiblingCell] = []
    monkeypatch.setattr(rate_checks.siblings, "judge", lambda cells, *_, **__: seen.extend(cells) or ())
    night.report()
    (judged,) = (one for one in seen if one.name == f"soak gemm {cell.precision}")
    rates = judged.rates
    assert rates[uuid] == [pytest.approx(0.01, rel=1e-3)] * len(rates[uuid])
    assert rates[uuid]
