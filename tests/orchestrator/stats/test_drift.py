"""Drift of GPUs over hours: simulated burn-ins, seeded."""

import math
import random
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config import margins
from orchestrator.stats import drift
from orchestrator.stats.drift import Course, Drift, DriftVerdict, Interval, judge
from orchestrator.stats.windows import Window
from tests.fakes.series import AN_HOUR, correlated

MARGIN = margins.load().drift.share
ALONE = margins.load().drift_alone.share
WHOLE_BURN_IN = 8 * AN_HOUR
FakeBurnIn = dict[str, list[Window]]
Shape = Callable[[float], float]
"""Hours since the beginning → share of the rate that is lost."""


def steady(_hours: float) -> float:
    """Nothing is lost."""
    return 0.0


def ramp(percent_per_hour: float) -> Shape:
    """Lost evenly."""
    return lambda hours: percent_per_hour / 100 * hours


def step(percent: float, at_h: float) -> Shape:
    """Lost at once."""
    return lambda hours: percent / 100 if hours >= at_h else 0.0


def node(
    seed: int,
    shapes: Sequence[Shape] = (steady,) * 4,
    *,
    windows: int = AN_HOUR,
    autocorrelation: float = 0.9,
    noise: float = 0.003,
    room: Shape = steady,
    kinds: Sequence[str] = ("gemm bf16",),
    rounds: int = 12,
) -> dict[str, list[Window]]:
    """A GPU for each shape. Kinds of work take turns, `rounds` windows each; each GPU has its own speed in each."""
    chance = random.Random(seed)
    rates: dict[str, list[Window]] = {}
    for gpu, shape in enumerate(shapes):
        speed = {key: 100 * (1 + place) * (1 + chance.uniform(-0.015, 0.015)) for place, key in enumerate(kinds)}
        rates[f"gpu{gpu}"] = []
        for number, value in enumerate(correlated(chance, windows, autocorrelation, noise)):
            hours, key = number / AN_HOUR, kinds[number // rounds % len(kinds)]
            rate = speed[key] * (1 - shape(hours)) * (1 - room(hours)) * math.exp(value)
            rates[f"gpu{gpu}"].append(Window(number, key, rate))
    return rates


def found(rates: dict[str, list[Window]]) -> dict[str, Drift]:
    """Verdicts by GPU."""
    return {one.gpu: one for one in judge(rates, MARGIN, ALONE)}


def change(course: Course | None) -> Interval:
    """The change of a course that has one."""
    assert course.change is not None
    return course.change


def slowed(burn_in_run: FakeBurnIn, gpus: Iterable[str], lost: Callable[[Window], float]) -> FakeBurnIn:
    """The same, in which some GPUs lose a share of their rate in each window."""
    return {
        gpu: [Window(one.number, one.key, one.rate * (1 - lost(one))) if gpu in gpus else one for one in own]
        for gpu, own in burn_in_run.items()
    }


def kept(burn_in_run: FakeBurnIn, keeps: Callable[[str, Window], bool]) -> FakeBurnIn:
    """Only some windows."""
    return {gpu: [one for one in own if keeps(gpu, one)] for gpu, own in burn_in_run.items()}


THREE_KINDS = ("gemm bf16", "gemm fp32", "copy")


@pytest.mark.parametrize("autocorrelation", [0.0, 0.9])
def test_a_healthy_node_is_steady(autocorrelation: float) -> None:
    """All GPUs of 16 nodes of eight over two hours, with two kinds of work, also relative to one another."""
    for seed in range(8):
        node_of_eight = node(
            seed, (steady,) * 8, windows=2 * AN_HOUR, autocorrelation=autocorrelation, kinds=("gemm bf16", "copy")
        )
        assert {one.verdict for one in found(node_of_eight).values()} == {DriftVerdict.STEADY}


def test_gpus_that_differ_from_the_start_are_steady() -> None:
    """A GPU that is 6 % slower all the time is a straggler, and does not drift."""
    rates = node(1, (lambda _: 0.06, *(steady,) * 7), windows=2 * AN_HOUR)
    assert {one.verdict for one in found(rates).values()} == {DriftVerdict.STEADY}


def slower(share: float) -> Shape:
    """Lost from the beginning to the end."""
    return lambda _hours: share


def until_half(burn_in_run: FakeBurnIn, *gone: str) -> FakeBurnIn:
    """Some GPUs are quarantined at half-time."""
    half = max(one.number for windows in burn_in_run.values() for one in windows) / 2
    return kept(burn_in_run, lambda gpu, one: one.number < half or gpu not in gone)


def test_quarantined_siblings_leave_no_step_behind() -> None:
    """The slowest of eight are the hottest and the first to go: the remaining ones are as steady as before."""
    levels = [slower(share) for share in (0.034, 0.08, 0.069, 0.057, 0.046, 0.023, 0.011, 0.0)]
    burn_in_run = node(3, levels, windows=4 * AN_HOUR, kinds=TWELVE, rounds=12)
    for one in found(until_half(burn_in_run, "gpu1", "gpu2")).values():
        assert one.verdict is DriftVerdict.STEADY
        assert abs(change(one.relative).value) < 0.4


def test_a_loss_is_compared_with_the_longest_siblings() -> None:
    """Three were there until half-time, three from then on: the first three count, for as long."""
    burn_in_run = node(5, (ramp(2.0), *(steady,) * 6), windows=4 * AN_HOUR)
    early = ("gpu1", "gpu2", "gpu3")
    slow = found(kept(burn_in_run, lambda gpu, one: gpu == "gpu0" or (one.number < 2 * AN_HOUR) == (gpu in early)))[
        "gpu0"
    ]
    assert slow.slows_against_siblings
    assert slow.relative.hours == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(("gpus", "gone"), [(4, 1), (6, 3)])
def test_few_siblings_are_used_while_they_last(gpus: int, gone: int) -> None:
    """A step of 2.8 % by then is found."""
    burn_in_run = node(6, (step(2.8, 2), *(steady,) * (gpus - 1)), windows=WHOLE_BURN_IN)
    ends = {f"gpu{gpu}" for gpu in range(1, 1 + gone)}
    judged = found(kept(burn_in_run, lambda gpu, one: gpu not in ends or one.number < 0.55 * WHOLE_BURN_IN))
    assert [gpu for gpu, one in judged.items() if one.verdict is DriftVerdict.SLOWING] == ["gpu0"]


def test_quarantined_siblings_do_not_hide_a_slow_gpu() -> None:
    """Not even behind the fastest, without whom its siblings look slower than before."""
    siblings = [slower(share) for share in (0.0, 0.0, -0.03, -0.06, -0.05)]
    burn_in_run = node(4, (ramp(1.2), *siblings), windows=4 * AN_HOUR)
    slow = found(until_half(burn_in_run, "gpu4", "gpu5"))["gpu0"]
    assert slow.slows_against_siblings
    assert -4.8 < change(slow.relative).value < -2.5


def test_four_percent_in_eight_hours_are_found() -> None:
    """In each of four burn-ins the GPU that loses 0.5 % an hour is slowing, with its trend, and no other."""
    for seed in range(4):
        burn_in_run = found(node(seed, (ramp(0.5), *(steady,) * 4), windows=WHOLE_BURN_IN))
        assert [gpu for gpu, one in burn_in_run.items() if one.verdict is not DriftVerdict.STEADY] == ["gpu0"]
        slow = burn_in_run["gpu0"]
        assert slow.verdict is DriftVerdict.SLOWING
        assert slow.relative.per_hour.low < slow.relative.per_hour.value < slow.relative.per_hour.high < 0
        assert slow.relative.per_hour.value == pytest.approx(-0.5, abs=0.1)
        assert change(slow.relative).value == pytest.approx(-3.2, abs=0.6)
        assert slow.relative.step_h is None


@pytest.mark.parametrize("at_h", [1.0, 2.0, 3.0])
def test_a_step_is_found_at_its_time(at_h: float) -> None:
    """4 % lost at once, at any time but in the first or last fifth, is a loss of 4 %."""
    slow = found(node(2, (step(4, at_h), *(steady,) * 4), windows=4 * AN_HOUR))["gpu0"]
    assert slow.verdict is DriftVerdict.SLOWING
    assert slow.relative.step_h == pytest.approx(at_h, abs=0.2)
    assert change(slow.relative).value == pytest.approx(-4, abs=0.5)


def breathing(hours: float) -> float:
    """A machine room: 2 % warmer and colder within three hours."""
    return 0.01 * (1 - math.cos(hours * math.tau / 3))


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("room", [ramp(0.25), ramp(0.3), step(2, 4), breathing])
def test_a_room_that_warms_a_little_slows_no_gpu(room: Shape, gpus: int) -> None:
    """No healthy GPU slows, alone or of eight, where the room costs 2 % or a little more."""
    for seed in range(8 // gpus):
        burn_in_run = found(node(seed, (steady,) * gpus, windows=WHOLE_BURN_IN, room=room))
        assert not [one for one in burn_in_run.values() if one.verdict is DriftVerdict.SLOWING]
        for one in burn_in_run.values():
            if one.relative is not None:
                assert one.relative.verdict is DriftVerdict.STEADY
                assert one.verdict is one.raw.verdict
                assert change(one.relative).low < 0.5
                assert change(one.relative).high > -0.5


@pytest.mark.parametrize("lost", [ramp(1.25), ramp(3), step(10, 4), step(10, 7)])
def test_eight_gpus_that_lose_alike_are_slowing(lost: Shape) -> None:
    """10 % of eight hours, 24 %, and a tenth at once: each slows by itself, and none against its siblings."""
    burn_in_run = found(node(3, (steady,) * 8, windows=WHOLE_BURN_IN, room=lost))
    for one in burn_in_run.values():
        assert one.verdict is DriftVerdict.SLOWING
        assert one.raw.verdict is DriftVerdict.SLOWING
        assert not one.slows_against_siblings
        assert one.relative.verdict is DriftVerdict.STEADY


def test_a_common_loss_at_the_margin_is_not_steady() -> None:
    """5.4 % in two hours, of which about the margin shows: steady against the siblings, and open."""
    open_ones = 0
    for seed in range(6):
        for one in found(node(seed, (steady,) * 5, windows=2 * AN_HOUR, noise=0.006, room=ramp(2.7))).values():
            assert one.relative.verdict is DriftVerdict.STEADY
            assert one.verdict is not DriftVerdict.STEADY
            open_ones += one.verdict is DriftVerdict.TOO_SHORT and one.open_course is one.raw
    assert open_ones


def test_a_kind_of_work_that_slows_on_all_gpus_is_found() -> None:
    """Memory that loses a tenth on every GPU, while two other kinds of work are steady."""
    burn_in_run = node(15, (steady,) * 5, windows=4 * AN_HOUR, kinds=THREE_KINDS)
    for one in found(
        slowed(burn_in_run, burn_in_run, lambda one: 0.025 * one.number / AN_HOUR * (one.key == "copy"))
    ).values():
        assert one.verdict is DriftVerdict.SLOWING
        assert one.raw.verdict is DriftVerdict.STEADY
        assert [key for key, kind in one.raw_kinds.items() if kind.verdict is DriftVerdict.SLOWING] == ["copy"]


@pytest.mark.parametrize("hours", [0.4, 0.6])
@pytest.mark.parametrize(("lost", "verdict"), [(0.0, DriftVerdict.STEADY), (0.25, DriftVerdict.SLOWING)])
def test_the_time_without_siblings_is_judged(lost: float, verdict: DriftVerdict, hours: float) -> None:
    """Siblings that were there for half an hour leave the rest to a GPU's own course."""
    burn_in_run = node(16, (ramp(100 * lost / 8), *(steady,) * 3), windows=WHOLE_BURN_IN)
    left = found(kept(burn_in_run, lambda gpu, one: gpu == "gpu0" or one.number < round(hours * AN_HOUR)))["gpu0"]
    assert (left.verdict, left.had_siblings) == (verdict, False)


def test_a_slow_gpu_is_found_in_a_breathing_room() -> None:
    """3 % of the room hide a loss of 4 % from the raw course, not from the one relative to siblings."""
    rates = node(4, (ramp(1), *(steady,) * 4), windows=4 * AN_HOUR, room=lambda h: 0.015 * math.sin(h * math.tau / 3))
    slow = found(rates)["gpu0"]
    assert slow.verdict is DriftVerdict.SLOWING
    assert change(slow.relative).high - change(slow.relative).low < (change(slow.raw).high - change(slow.raw).low) / 2


def test_short_and_noisy_courses_need_more_hours() -> None:
    """Ten minutes are too short; noise around the margin needs more; both have the hours that should do."""
    short = found({**node(6, windows=60), "gpu9": []})
    assert {one.verdict for one in short.values()} == {DriftVerdict.TOO_SHORT}
    assert short["gpu0"].raw.needed_h == drift.LEAST_HOURS
    assert (short["gpu9"].raw.hours, short["gpu9"].relative) == (0.0, None)
    doubtful = found(node(7, noise=0.03))["gpu0"]
    assert doubtful.verdict is DriftVerdict.TOO_SHORT
    assert 1.1 < doubtful.relative.needed_h < 50


TWELVE = tuple(f"kind {number}" for number in range(12))
"""As many as level `full` has, each in turn: sixteen or more visits in eight hours, four in two."""


@pytest.mark.parametrize(("hours", "lost"), [(2, 0.15), (8, 0.05)])
def test_a_kind_that_is_seldom_at_work_slows_alone(hours: int, lost: float) -> None:
    """One of twelve kinds from half-time on: the whole is not slow, and the kind is found on its GPU."""
    burn_in_run = node(17, (steady,) * 5, windows=hours * AN_HOUR, kinds=TWELVE, rounds=15)
    late = slowed(burn_in_run, ["gpu2"], lambda one: lost * (one.key == TWELVE[5] and one.number > hours * AN_HOUR / 2))
    for one in judge(late, MARGIN, ALONE):
        slow = [key for key, kind in one.kinds.items() if kind.verdict is DriftVerdict.SLOWING]
        assert slow == ([TWELVE[5]] if one.gpu == "gpu2" else [])
        assert one.relative.verdict is not DriftVerdict.SLOWING
        assert (one.verdict is DriftVerdict.SLOWING) == bool(slow)


@pytest.mark.parametrize("seed", range(10))
def test_twelve_kinds_of_healthy_gpus_raise_no_alarm(seed: int) -> None:
    """Neither relative to siblings nor alone."""
    for one in judge(node(seed, (steady,) * 8, windows=4 * AN_HOUR, kinds=TWELVE, rounds=15), MARGIN, ALONE):
        assert one.verdict is DriftVerdict.STEADY
        assert set(one.kinds) == set(one.raw_kinds) == set(TWELVE)


def test_kinds_of_work_are_never_mixed() -> None:
    """A kind that runs only in the second half, at a tenth of the rate and slower than the siblings', is no loss."""
    burn_in_run = node(9, windows=2 * AN_HOUR)
    late = {gpu: node(10 + place, (steady,), windows=AN_HOUR)["gpu0"] for place, gpu in enumerate(burn_in_run)}
    for gpu, own in late.items():
        factor = 0.07 if gpu == "gpu0" else 0.1
        burn_in_run[gpu] += [Window(one.number + AN_HOUR, "copy", one.rate * factor) for one in own]
    assert {one.verdict for one in found(burn_in_run).values()} == {DriftVerdict.STEADY}


def test_gpus_without_siblings_are_judged_by_their_own_course() -> None:
    """Two others are too few, and others with other work are no siblings."""
    burn_in_run = found(node(5, (ramp(2), steady, steady), windows=3 * AN_HOUR))
    assert {one.relative for one in burn_in_run.values()} == {None}
    assert [one.verdict for one in burn_in_run.values()] == [
        DriftVerdict.SLOWING,
        DriftVerdict.STEADY,
        DriftVerdict.STEADY,
    ]
    burn_in_run = node(11, windows=2 * AN_HOUR)
    burn_in_run["gpu0"] = [Window(one.number, "copy", one.rate) for one in burn_in_run["gpu0"]]
    alone = found(burn_in_run)["gpu0"]
    assert alone.relative is None
    assert alone.raw.verdict is DriftVerdict.STEADY


def test_a_kind_that_slows_alone_is_found() -> None:
    """Memory that loses 6 % in four hours is found, though two other kinds of work are steady."""
    burn_in_run = node(12, (steady,) * 5, windows=4 * AN_HOUR, kinds=THREE_KINDS)
    judged = found(slowed(burn_in_run, ["gpu2"], lambda one: 0.015 * one.number / AN_HOUR * (one.key == "copy")))
    assert [gpu for gpu, one in judged.items() if one.verdict is DriftVerdict.SLOWING] == ["gpu2"]
    slow = judged["gpu2"]
    assert [key for key, kind in slow.kinds.items() if kind.verdict is DriftVerdict.SLOWING] == ["copy"]
    assert slow.relative.verdict is DriftVerdict.STEADY


def test_gaps_and_uneven_kinds_leave_the_trend() -> None:
    """Two hours without windows, and kinds of work that ran mostly early or late."""
    burn_in_run = node(8, (ramp(1), *(steady,) * 4), windows=5 * AN_HOUR)
    torn = found(kept(burn_in_run, lambda _, one: not 500 < one.number < 1200))
    assert [one.verdict for one in torn.values()] == [DriftVerdict.SLOWING, *[DriftVerdict.STEADY] * 4]
    burn_in_run = node(13, (ramp(1), *(steady,) * 4), windows=4 * AN_HOUR, kinds=("gemm bf16", "copy"), rounds=6)
    uneven = kept(
        burn_in_run, lambda _, one: one.number < 2.6 * AN_HOUR if one.key == "copy" else one.number > 1.4 * AN_HOUR
    )
    assert change(found(uneven)["gpu0"].relative).value == pytest.approx(-3.2, abs=0.4)


def test_kinds_of_different_times_cannot_be_compared() -> None:
    """Without a kind over most of the time, there is no verdict on the time as a whole."""
    burn_in_run = {
        gpu: [Window(one.number, "copy" if one.number > AN_HOUR else one.key, one.rate) for one in own]
        for gpu, own in node(14, windows=2 * AN_HOUR).items()
    }
    assert {one.verdict for one in found(burn_in_run).values()} == {DriftVerdict.TOO_SHORT}


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_an_invalid_rate_is_refused(rate: float) -> None:
    """The error names the window and the GPU."""
    with pytest.raises(ValueError, match="window 7 of gpu0, copy"):
        judge({"gpu0": [Window(7, "copy", rate)]}, MARGIN, ALONE)


@settings(max_examples=10)
@given(st.permutations(range(5)), st.floats(min_value=1e-6, max_value=1e6), st.integers(0, 10**7), st.integers(0, 99))
def test_names_order_units_and_the_clock_change_nothing(order: list[int], unit: float, later: int, seed: int) -> None:
    """GPUs in another order, rates in another unit, another uptime: the same verdicts."""
    rates = node(seed, (ramp(3), *(steady,) * 4))
    turned = {
        f"gpu{i}": [Window(one.number + later, one.key, one.rate * unit) for one in reversed(rates[f"gpu{i}"])]
        for i in order
    }
    straight, other = found(rates), found(turned)
    assert list(straight) == list(other)
    for gpu, one in straight.items():
        assert one.verdict is other[gpu].verdict
        assert change(one.relative).value == pytest.approx(change(other[gpu].relative).value, abs=1e-6)
        assert change(one.raw).low == pytest.approx(change(other[gpu].raw).low, abs=1e-6)


# ── intervals of changes ──────────────────────────────────────────────────────────────────────────────────────────────


def series(
    chance: random.Random, count: int, *, gpus: int = 4, noise: float = 0.003, lost: float = 0.0
) -> dict[str, list[float]]:
    """So many visits of some GPUs; the first GPU loses a share of its rate from the middle on."""
    return {
        f"gpu{gpu}": [
            chance.gauss(0, noise) + (math.log1p(-lost) if gpu == 0 and at >= count / 2 else 0.0) for at in range(count)
        ]
        for gpu in range(gpus)
    }


@pytest.mark.parametrize(("hours", "autocorrelation"), [(0.5, 0.9), (1.0, 0.9), (2.0, 0.5), (4.0, 0.0)])
@pytest.mark.parametrize("lost", [0.0, 0.03])
def test_intervals_hold_the_truth_as_often_as_they_say(hours: float, autocorrelation: float, lost: float) -> None:
    """In 92 % or more of 200 GPUs with and without a ramp."""
    held = 0
    for seed in range(200):
        burn_in_run = node(
            seed, (ramp(100 * lost / hours),), windows=int(hours * AN_HOUR), autocorrelation=autocorrelation
        )
        moved = change(found(burn_in_run)["gpu0"].raw)
        held += moved.low <= 100 * ((1 - 0.9 * lost) / (1 - 0.1 * lost) - 1) <= moved.high
    assert held / 200 >= 0.92


@pytest.mark.parametrize(("count", "lost"), [(4, 0.15), (5, 0.15), (8, 0.05), (16, 0.05)])
def test_a_step_does_not_hide_behind_itself(count: int, lost: float) -> None:
    """Its own jump does not widen its interval; the other GPUs do not change."""
    moved = drift.changes(series(random.Random(count), count, lost=lost), 2, 0.9999)
    assert moved["gpu0"].high < math.log(0.98)
    assert all(moved[f"gpu{gpu}"].high > math.log(0.98) for gpu in (1, 2, 3))


@pytest.mark.parametrize("count", [4, 5, 7, 16])
@pytest.mark.parametrize("place", [0, -1])
def test_one_slow_visit_is_no_change(count: int, place: int) -> None:
    """Not even the first or the last one."""
    burn_in_run = series(random.Random(count), count)
    burn_in_run["gpu0"][place] = math.log(0.95)
    assert drift.changes(burn_in_run, 2, 0.99)["gpu0"].high > math.log(0.98)


@pytest.mark.parametrize("count", [5, 8, 16])
def test_a_gpu_that_varies_more_than_its_siblings_is_not_slow_by_chance(count: int) -> None:
    """Ten percent beside one percent: a false alarm in two of a hundred burn-ins at most."""
    alarms = 0
    for seed in range(200):
        burn_in_run = series(random.Random(seed), count, gpus=8, noise=0.01)
        chance = random.Random(-seed)
        burn_in_run["gpu0"] = [chance.gauss(0, 0.1) for _ in range(count)]
        alarms += any(one.high < math.log(0.98) for one in drift.changes(burn_in_run, 2, 1 - 0.025 / 96).values())
    assert alarms <= 4


def test_windows_are_parted_where_the_kind_paused() -> None:
    """A window that is missing in the middle of a launch parts nothing."""
    numbers = (0, 1, 2, 4, 100, 101, 102, 400)
    rates = (1.0, 1.0, 1.2, 1.0, 2.0, 3.0, 9.0, 5.0)
    windows = [Window(number, "soak", rate) for number, rate in zip(numbers, rates, strict=True)]
    assert drift.visits(windows) == [1.0, 3.0, 5.0]


def test_no_noise_and_no_series() -> None:
    """Equal visits have the least variance."""
    assert drift.changes({}, 2, 0.975) == {}
    (moved,) = set(drift.changes(series(random.Random(1), 4, noise=0.0), 2, 0.975).values())
    assert moved.value == 0
    assert 1e-4 < moved.high == -moved.low < 5e-4
