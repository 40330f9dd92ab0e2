"""GPUs that slow down over hours. Pure.

    windows of every GPU ─┬─ log rate ──────────────────────────────────────▶ raw course
                          └─ less the median of the OTHER GPUs' log rates in the
                             same window and kind of work, each less what it is
                             usually faster: without the effect of the room ▶ relative course
    course: at most 40 bins, a median of each kind of work in each ▶ each kind less its level ▶ median over the kinds
            ▶ trend.movement: slope, and change of the last fifth against the first ── beyond its margin? ──▶ verdict

Rates ten seconds apart are autocorrelated: bins average most of it out, trend.py widens the intervals for the rest
(docs/method.md, "Slowing over the hours"). The change is judged, not the slope: after a step in the middle half of all
slopes are zero. A kind of work counts only if it ran over most of the time; visits.py judges each kind alone. The
slowest GPUs are the first to be quarantined: without what each is usually faster, the others' median would jump. The
raw course has a wider margin for the room, and alone shows what all GPUs lose alike.
"""

import enum
import itertools
import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from orchestrator.stats import trend, visits
from orchestrator.stats.trend import Interval, Point
from orchestrator.stats.windows import WINDOW_NS, Window

LEAST_SIBLINGS: Final = 3
LEAST_HOURS: Final = 0.5
"""Within ten minutes, intervals held the truth 84 % of the time at autocorrelation 0.9; from here on 93 % [sim]."""
BINS: Final = 40
_LEAST_WINDOWS: Final = 3
_LEAST_SPAN: Final = 0.6
_LONGEST: Final = 50.0
_DOUBT: Final = 0.025
"""Chance that any kind of any GPU is called slow where nothing is, for each margin."""
_HOURS: Final = WINDOW_NS / 3.6e12


class DriftVerdict(enum.StrEnum):
    """SLOWING: the loss is shown to exceed the margin. STEADY: it is shown to be within."""

    SLOWING = "slowing"
    STEADY = "steady"
    TOO_SHORT = "too short to tell"


@dataclass(frozen=True, kw_only=True)
class Course:
    """Course of a rate from the first window to the last. Percent, with 95 % intervals; negative is slower.

    change: of the last fifth of the time relative to the first. step_h: hours of a step, None without one. needed_h:
    total hours that should settle it; None where settled or unforeseeable.
    """

    verdict: DriftVerdict
    hours: float
    per_hour: Interval | None = None
    change: Interval | None = None
    step_h: float | None = None
    needed_h: float | None = None


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Courses of one GPU. relative: to its siblings, None without three; kinds, raw_kinds: by kind of work."""

    gpu: str
    raw: Course
    relative: Course | None
    kinds: Mapping[str, Course]
    raw_kinds: Mapping[str, Course]

    @property
    def verdict(self) -> DriftVerdict:
        """SLOWING where any course is; STEADY where both are. An open raw course stays open: a common loss is in it."""
        if self.slows_against_siblings or _slowing(self.raw, self.raw_kinds):
            return DriftVerdict.SLOWING
        return DriftVerdict.STEADY if self.open_course is None else DriftVerdict.TOO_SHORT

    @property
    def open_course(self) -> Course | None:
        """First course that must be steady and is inconclusive; the relative one first."""
        courses = [self.relative] if self.relative is not None and self.had_siblings else []
        return next((one for one in (*courses, self.raw) if one.verdict is DriftVerdict.TOO_SHORT), None)

    @property
    def slows_against_siblings(self) -> bool:
        """Whether it loses what its siblings keep."""
        return _slowing(self.relative, self.kinds)

    @property
    def had_siblings(self) -> bool:
        """Whether three siblings were there for most of the time."""
        return self.relative is not None and self.relative.hours >= _LEAST_SPAN * self.raw.hours


def judge(rates: Mapping[str, Sequence[Window]], margin: float, alone: float) -> tuple[Drift, ...]:
    """A verdict for each GPU, in order of name.

    rates: by GPU, after the heat soak. margin: allowed loss relative to the siblings (0.02); alone: of a GPU's own
    rates, with the effect of the room (0.04). Raises ValueError for a rate that is not above zero.
    """
    raw, relative = _logs(rates)
    own_kinds, kinds = _of_kinds(raw, alone), _of_kinds(relative, margin)
    return tuple(
        Drift(
            gpu=gpu,
            raw=_course(raw[gpu], alone),
            relative=_course(relative[gpu], margin) if relative[gpu] else None,
            kinds=kinds[gpu],
            raw_kinds=own_kinds[gpu],
        )
        for gpu in sorted(rates)
    )


def _logs(rates: Mapping[str, Sequence[Window]]) -> tuple[dict[str, list[Window]], dict[str, list[Window]]]:
    """Windows of each GPU with log rates: its own, and relative to the median of at least three others."""
    table: dict[tuple[int, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for gpu, windows in rates.items():
        for window in windows:
            if not window.rate > 0 or math.isinf(window.rate):
                raise ValueError(f"a rate must be above zero and finite: window {window.number} of {gpu}, {window.key}")
            table[window.number, window.key][gpu].append(math.log(window.rate))
    levels = {at: {gpu: median(values) for gpu, values in logs.items()} for at, logs in sorted(table.items())}
    faster = {key: _usually_faster(of_kind) for key, of_kind in _by_kind(levels).items()}
    raw: dict[str, list[Window]] = {gpu: [] for gpu in rates}
    relative: dict[str, list[Window]] = {gpu: [] for gpu in rates}
    for (number, key), logs in levels.items():
        usual = faster[key]
        for gpu, level in logs.items():
            raw[gpu].append(Window(number, key, level))
            others = [other - usual[gpu, name] for name, other in logs.items() if (gpu, name) in usual]
            if len(others) >= LEAST_SIBLINGS:
                relative[gpu].append(Window(number, key, level - median(others)))
    return raw, relative


def _by_kind(levels: Mapping[tuple[int, str], Mapping[str, float]]) -> dict[str, dict[int, Mapping[str, float]]]:
    """Windows of each kind of work by number, in order."""
    found: dict[str, dict[int, Mapping[str, float]]] = defaultdict(dict)
    for (number, key), logs in levels.items():
        found[key][number] = logs
    return found


def _usually_faster(windows: Mapping[int, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    """By GPU and other: how much faster the other is in one kind of work, the median over common windows.

    Of others that were there for most of the GPU's time, at least the three longest.
    """
    ahead: dict[str, dict[str, array[float]]] = defaultdict(lambda: defaultdict(lambda: array("d")))
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for number, logs in windows.items():
        for (gpu, level), (name, other) in itertools.product(logs.items(), repeat=2):
            ahead[gpu][name].append(other - level)
            spans[gpu, name] = spans.get((gpu, name), (number, number))[0], number
    faster: dict[tuple[str, str], float] = {}
    for gpu, by_name in ahead.items():
        lasted = {name: spans[gpu, name][1] - spans[gpu, name][0] + 1 for name in by_name}
        beside = sorted((name for name in by_name if name != gpu), key=lambda name: (-lasted[name], name))
        lasting = sum(lasted[name] >= _LEAST_SPAN * lasted[gpu] for name in beside)
        faster |= {(gpu, name): median(by_name[name]) for name in beside[: max(lasting, LEAST_SIBLINGS)]}
    return faster


def _slowing(whole: Course | None, kinds: Mapping[str, Course]) -> bool:
    courses = [*kinds.values(), *([whole] if whole is not None else [])]
    return any(course.verdict is DriftVerdict.SLOWING for course in courses)


def _of_kinds(logs: Mapping[str, Sequence[Window]], margin: float) -> dict[str, dict[str, Course]]:
    """By GPU, each kind of work alone; too short where it did not run over most of the time. logs: as of `_course`."""
    series: dict[str, dict[str, list[Point]]] = defaultdict(dict)
    kinds: dict[str, dict[str, Course]] = {gpu: {} for gpu in logs}
    for gpu, windows in logs.items():
        of_kind: dict[str, list[Window]] = defaultdict(list)
        for window in windows:
            of_kind[window.key].append(window)
        for key, own in sorted(of_kind.items()):
            points = visits.visits(own)
            kinds[gpu][key] = Course(verdict=DriftVerdict.TOO_SHORT, hours=points[-1].at_h - points[0].at_h)
            if _hours(windows) >= LEAST_HOURS and points[-1].at_h - points[0].at_h >= _LEAST_SPAN * _hours(windows):
                series[key][gpu] = points
    asked = sum(map(len, series.values()))
    for key, by_gpu in series.items():
        for gpu, change in visits.changes(by_gpu, 1 - _DOUBT / asked).items():
            verdict, hours = _judged(change, math.log1p(-margin)), by_gpu[gpu][-1].at_h - by_gpu[gpu][0].at_h
            kinds[gpu][key] = Course(verdict=verdict, hours=hours, change=_percent(change))
    return kinds


def _hours(windows: Sequence[Window]) -> float:
    return (windows[-1].number - windows[0].number + 1) * _HOURS if windows else 0.0


def _judged(change: Interval, floor: float) -> DriftVerdict:
    if change.high < floor:
        return DriftVerdict.SLOWING
    return DriftVerdict.STEADY if change.low > floor else DriftVerdict.TOO_SHORT


def _course(logs: Sequence[Window], margin: float) -> Course:
    """Course of windows in order of number whose rates are logarithms."""
    hours = _hours(logs)
    if hours < LEAST_HOURS:
        return Course(verdict=DriftVerdict.TOO_SHORT, hours=hours, needed_h=LEAST_HOURS)
    moved = trend.movement(_over_kinds(_binned(logs), hours), hours)
    if moved is None:
        return Course(verdict=DriftVerdict.TOO_SHORT, hours=hours)
    floor = math.log1p(-margin)
    verdict = _judged(moved.change, floor)
    return Course(
        verdict=verdict,
        hours=hours,
        per_hour=_percent(moved.slope),
        change=_percent(moved.change),
        step_h=moved.step_h,
        needed_h=_needed(moved.change, floor, hours) if verdict is DriftVerdict.TOO_SHORT else None,
    )


def _binned(logs: Sequence[Window]) -> dict[str, list[Point]]:
    """Medians of each kind of work in each of its bins, at the bin's middle."""
    first = logs[0].number
    width = max(_LEAST_WINDOWS, math.ceil((logs[-1].number - first + 1) / BINS))
    bins: dict[tuple[str, int], list[float]] = defaultdict(list)
    for window in logs:
        bins[window.key, (window.number - first) // width].append(window.rate)
    kinds: dict[str, list[Point]] = defaultdict(list)
    for (key, place), values in sorted(bins.items()):
        kinds[key].append(Point((place + 0.5) * width * _HOURS, median(values)))
    return kinds


def _over_kinds(kinds: Mapping[str, Sequence[Point]], hours: float) -> list[Point]:
    """For each bin the median over the kinds that ran most of the time, each less its level above the common trend."""
    lasting = [points for points in kinds.values() if points[-1].at_h - points[0].at_h >= _LEAST_SPAN * hours]
    slopes = [slope for points in lasting for slope in trend.slopes_of(points)]
    slope = median(slopes) if slopes else 0.0
    at: dict[float, list[float]] = defaultdict(list)
    for points in lasting:
        level = median(point.value - slope * point.at_h for point in points)
        for point in points:
            at[point.at_h].append(point.value - level)
    return [Point(at_h, median(values)) for at_h, values in sorted(at.items())]


def _percent(logs: Interval) -> Interval:
    return Interval(*(_expm1(log) * 100 for log in (logs.value, logs.low, logs.high)))


def _expm1(log: float) -> float:
    return math.inf if log > 700 else math.expm1(log)


def _needed(change: Interval, floor: float, hours: float) -> float | None:
    """Hours after which the interval should leave `floor` on one side: it narrows by the root of time, a loss grows."""
    reach = change.high - change.value
    longer = 1.0
    while longer < _LONGEST:
        longer *= 1.1
        if abs(min(change.value, 0.0) * longer - floor) > reach / math.sqrt(longer):
            return hours * longer
    return None
