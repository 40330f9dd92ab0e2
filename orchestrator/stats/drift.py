"""GPUs that slow down over hours. Pure.

    windows of every GPU ─┬─ log rate ─────────────────────────────────────────▶ raw course
                          └─ minus the median log rate of the OTHER GPUs in the
                             same window and kind of work, each corrected for its
                             usual lead: free of the effect of the room ───────▶ relative course
    course: each kind of work minus its level ▶ medians of twenty blocks of the time ─┐
    kind of work: medians of its visits ──────────────────────────────────────────────┴▶ last fifth minus first fifth,
            a t-interval from the residuals of a line or a step, pooled over the GPUs as far as they agree, and widened
            for the autocorrelation of neighbouring blocks ──▶ verdict

A window is ten seconds. A visit is a series of windows of one kind of work without a pause. The level of a kind is its
median. The lead of another GPU is by how much it is usually faster than the judged GPU. Without this correction the
median of the others would jump when a slow GPU is quarantined. A kind is judged only if it ran over most of the time.

The raw course includes the effect of the room temperature, so its margin is wider. Only the raw course shows that all
GPUs become slower together. See docs/method-reference.md, "Slowing over the hours".
"""

import enum
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, mul
from statistics import fmean, linear_regression, median
from typing import Final, NamedTuple

from orchestrator.stats import pooled, student
from orchestrator.stats.pooled import LEAST_VARIANCE, Variance
from orchestrator.stats.windows import WINDOW_NS, Window

LEAST_SIBLINGS: Final = 3
LEAST_HOURS: Final = 0.5
ENDS: Final = 0.2
"""Share of the time that is compared at either end: the first and the last fifth."""
BLOCKS: Final = 20
_LEAST_BLOCKS: Final = 3
"""Fewest blocks in the first and in the last fifth. A block is a twentieth of the time."""
_LEAST_AT_AN_END: Final = 2
"""Fewest visits at either end: one slow visit, first or last, is no change."""
_FOR_AUTOCORRELATION: Final = 8
"""Fewest values of a series for an estimate of its lag-1 autocorrelation."""
_MOST_AUTOCORRELATION: Final = 0.95
_FITTED: Final = 3
"""Degrees of freedom that fitting a step takes: two levels and the place of the step."""
_PAUSE: Final = 3
"""Fewest missing windows between two visits. A single one may be missing because of a pause, or between launches."""
_LEAST_SPAN: Final = 0.6
_LONGEST: Final = 10.0
_TAIL: Final = 0.025
_DOUBT: Final = 0.025
"""Probability, for each margin, that any kind of work on any GPU is found slow by chance."""
_HOURS: Final = WINDOW_NS / 3.6e12


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its confidence interval, 95 % unless stated. The ends may be infinite."""

    value: float
    low: float
    high: float


class _Rest(NamedTuple):
    values: Sequence[float]
    step: int | None


class _Block(NamedTuple):
    number: int
    value: float


class DriftVerdict(enum.StrEnum):
    """Verdict on the change of a rate over time.

    SLOWING: the loss is significantly larger than the margin. STEADY: it is significantly smaller. TOO_SHORT: neither.
    """

    SLOWING = "slowing"
    STEADY = "steady"
    TOO_SHORT = "too short to tell"


@dataclass(frozen=True, kw_only=True)
class Course:
    """Change of a rate over time, in percent. Negative is slower.

    hours: from the first window to the last. change: of the rate, from the first fifth of the time to the last; None if
    it cannot be computed (too short, or too few windows at an end). It has a 95 % interval; for a single kind of work a
    wider one, so that all kinds together have 95 %. per_hour: the same per hour; None for a single kind. step_h: hours
    from the start until the rate changed in one step; None without a step. needed_h: total hours that should give a
    verdict; None if there is one, or if unknown.
    """

    verdict: DriftVerdict
    hours: float
    per_hour: Interval | None = None
    change: Interval | None = None
    step_h: float | None = None
    needed_h: float | None = None


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How the rates of one GPU changed over time.

    raw: course of its own rates. relative: course of its rates compared with at least three siblings; None without so
    many. kinds, raw_kinds: kind of work → course of this kind alone, relative and raw.
    """

    gpu: str
    raw: Course
    relative: Course | None
    kinds: Mapping[str, Course]
    raw_kinds: Mapping[str, Course]

    @property
    def verdict(self) -> DriftVerdict:
        """Verdict on the GPU: SLOWING if any of its courses is SLOWING.

        STEADY: the raw course is STEADY, and so is the relative course if the GPU had siblings. Else TOO_SHORT.
        """
        if self.slows_against_siblings or _slowing(self.raw, self.raw_kinds):
            return DriftVerdict.SLOWING
        return DriftVerdict.STEADY if self.open_course is None else DriftVerdict.TOO_SHORT

    @property
    def open_course(self) -> Course | None:
        """The course that has no verdict yet (TOO_SHORT): the relative or else the raw one, None if both have one.

        The relative course is ignored unless it covers most of the GPU's time (`had_siblings`).
        """
        courses = [self.relative] if self.relative is not None and self.had_siblings else []
        return next((one for one in (*courses, self.raw) if one.verdict is DriftVerdict.TOO_SHORT), None)

    @property
    def slows_against_siblings(self) -> bool:
        """Whether the relative course of the GPU, or that of any kind of work, is SLOWING."""
        return _slowing(self.relative, self.kinds)

    @property
    def had_siblings(self) -> bool:
        """Whether the GPU was compared with at least three siblings for most of its time."""
        return self.relative is not None and self.relative.hours >= _LEAST_SPAN * self.raw.hours


def judge(rates: Mapping[str, Sequence[Window]], margin: float, alone: float) -> tuple[Drift, ...]:
    """Return how the rates of each GPU changed over time, sorted by GPU.

    rates: GPU → its windows after the heat soak (warm-up), in any order. margin: tolerated loss relative to the
    siblings, as a share (0.02). alone: tolerated loss of a GPU's own rates, which includes the effect of the room
    (0.04). Raises ValueError for a rate that is not above zero or is infinite.
    """
    raw, relative = _logs(rates)
    own_courses, courses = _courses(raw, alone), _courses(relative, margin)
    own_kinds, kinds = _of_kinds(raw, alone), _of_kinds(relative, margin)
    return tuple(
        Drift(
            gpu=gpu,
            raw=own_courses[gpu],
            relative=courses[gpu] if relative[gpu] else None,
            kinds=kinds[gpu],
            raw_kinds=own_kinds[gpu],
        )
        for gpu in sorted(rates)
    )


def changes(series: Mapping[str, Sequence[float]], least: int, confidence: float) -> dict[str, Interval]:
    """Return GPU → mean of the last fifth of its values minus mean of the first fifth, with a confidence interval.

    series: GPU → values in order of time, at least 2 x `least` of them. If a fifth of them is fewer than `least`
    values, the first and last `least` are compared. confidence: one-sided, 0.975 for a 95 % interval.
    """
    rests = {gpu: _rest(values, least) for gpu, values in series.items()}
    variances = pooled.shrunk([_variance(one.values) for one in rests.values()])
    widening = _widening([one.values for one in rests.values() if len(one.values) >= _FOR_AUTOCORRELATION])
    found = {}
    for (gpu, values), variance in zip(series.items(), variances, strict=True):
        count = max(least, round(ENDS * len(values)))
        change = fmean(values[-count:]) - fmean(values[:count])
        reach = student.quantile(confidence, variance.degrees) * math.sqrt(variance.value * widening * 2 / count)
        found[gpu] = Interval(change, change - reach, change + reach)
    return found


def _rest(values: Sequence[float], least: int) -> _Rest:
    """Return the residuals of the values from a straight line, or from a step if that halves the sum of squares.

    A step is two constant levels. `step` of the result: index of the first value after the step; None for a line.
    least: fewest values on each side of a step.
    """
    line = linear_regression(range(len(values)), values)
    by_line = _deviations([value - line.slope * number for number, value in enumerate(values)])
    by_step, at = min(
        (([*_deviations(values[:at]), *_deviations(values[at:])], at) for at in range(least, len(values) - least + 1)),
        key=lambda split: _squares(split[0]),
    )
    return _Rest(by_step, at) if _squares(by_step) < _squares(by_line) / 2 else _Rest(by_line, None)


def _variance(rest: Sequence[float]) -> Variance:
    degrees = len(rest) - _FITTED
    return Variance(max(_squares(rest) / degrees, LEAST_VARIANCE), degrees)


def _widening(rests: Sequence[Sequence[float]]) -> float:
    """Return the factor (1 + r) / (1 - r) that widens a variance, at least 1. rests: residuals, a series for each GPU.

    r: lag-1 autocorrelation of the residuals, corrected for the fit.
    """
    squares = math.fsum(map(_squares, rests))
    if squares == 0:
        return 1.0
    number = fmean(map(len, rests))
    seen = math.fsum(a * b for rest in rests for a, b in itertools.pairwise(rest)) / squares
    r = min(max((seen + 2 / number) / (1 - 4 / number), 0.0), _MOST_AUTOCORRELATION)
    return (1 + r) / (1 - r)


def _deviations(values: Sequence[float]) -> list[float]:
    middle = fmean(values)
    return [value - middle for value in values]


def _squares(values: Sequence[float]) -> float:
    return math.fsum(map(mul, values, values))


def _logs(rates: Mapping[str, Sequence[Window]]) -> tuple[dict[str, list[Window]], dict[str, list[Window]]]:
    """Return two dicts GPU → windows with log rates: raw ones, and those relative to siblings.

    Relative: minus the median of the other GPUs in the same window, each corrected for its usual lead over this GPU.
    Windows with fewer than three other GPUs have no relative rate. Each dict has all GPUs.
    """
    raw: dict[str, list[Window]] = {gpu: [] for gpu in rates}
    relative: dict[str, list[Window]] = {gpu: [] for gpu in rates}
    for key, of_kind in _levels(rates).items():
        faster = _usually_faster(of_kind)
        for gpu, own in of_kind.items():
            raw[gpu] += [Window(number, key, level) for number, level in own.items()]
            beside = [(of_kind[name], lead) for name, lead in faster[gpu].items()]
            if len(beside) < LEAST_SIBLINGS:
                continue
            for number, level in own.items():
                others = [levels[number] - lead for levels, lead in beside if number in levels]
                if len(others) >= LEAST_SIBLINGS:
                    relative[gpu].append(Window(number, key, level - median(others)))
    return _in_order(raw), _in_order(relative)


def _in_order(logs: Mapping[str, Sequence[Window]]) -> dict[str, list[Window]]:
    return {gpu: sorted(windows, key=attrgetter("number", "key")) for gpu, windows in logs.items()}


def _levels(rates: Mapping[str, Sequence[Window]]) -> dict[str, dict[str, dict[int, float]]]:
    """Return kind of work → GPU → number of the window → log rate, in order of time."""
    levels: dict[str, dict[str, dict[int, float]]] = defaultdict(dict)
    for gpu, windows in rates.items():
        for key, own in _by_key(windows).items():
            logs: dict[int, list[float]] = defaultdict(list)
            for window in own:
                if not 0 < window.rate < math.inf:
                    raise ValueError(
                        f"a rate must be above zero and finite: window {window.number} of {gpu}, {window.key}"
                    )
                logs[window.number].append(math.log(window.rate))
            levels[key][gpu] = {
                number: values[0] if len(values) == 1 else median(values) for number, values in sorted(logs.items())
            }
    return levels


def _usually_faster(levels: Mapping[str, Mapping[int, float]]) -> dict[str, dict[str, float]]:
    """Return GPU → sibling → usual lead: median over common windows of log(rate of the sibling / rate of the GPU).

    levels: GPU → number of the window → log rate, for one kind of work. Siblings of a GPU are all GPUs that did this
    work during most of the GPU's time. If fewer than three did, they are the three that did it longest.
    """
    ahead: dict[str, dict[str, float]] = {gpu: {} for gpu in levels}
    lasted: dict[str, dict[str, int]] = {gpu: {} for gpu in levels}
    for (gpu, own), (name, others) in itertools.combinations(levels.items(), 2):
        if windows := [number for number in own if number in others]:
            lead = median([others[number] - own[number] for number in windows])
            ahead[gpu][name], ahead[name][gpu] = lead, -lead
            lasted[gpu][name] = lasted[name][gpu] = windows[-1] - windows[0] + 1
    faster = {}
    for gpu, own in levels.items():
        beside = sorted(ahead[gpu], key=lambda name: (-lasted[gpu][name], name))
        least = _LEAST_SPAN * (max(own) - min(own) + 1)
        lasting = sum(span >= least for span in lasted[gpu].values())
        faster[gpu] = {name: ahead[gpu][name] for name in beside[: max(lasting, LEAST_SIBLINGS)]}
    return faster


def _slowing(whole: Course | None, kinds: Mapping[str, Course]) -> bool:
    courses = [*kinds.values(), *([whole] if whole is not None else [])]
    return any(course.verdict is DriftVerdict.SLOWING for course in courses)


def _of_kinds(logs: Mapping[str, Sequence[Window]], margin: float) -> dict[str, dict[str, Course]]:
    """Return GPU → kind of work → course. A kind that did not run for most of the time is TOO_SHORT.

    logs: GPU → its windows with logarithms of rates, in order of time. margin: tolerated loss as a share (0.02).
    """
    series: dict[str, dict[str, list[float]]] = defaultdict(dict)
    kinds: dict[str, dict[str, Course]] = {gpu: {} for gpu in logs}
    for gpu, windows in logs.items():
        for key, own in sorted(_by_key(windows).items()):
            kinds[gpu][key] = Course(verdict=DriftVerdict.TOO_SHORT, hours=_hours(own))
            parted = visits(own)
            if _hours(windows) >= LEAST_HOURS and _lasts(own, windows) and len(parted) >= 2 * _LEAST_AT_AN_END:
                series[key][gpu] = parted
    kinds_judged = sum(map(len, series.values()))
    for key, by_gpu in series.items():
        for gpu, change in changes(by_gpu, _LEAST_AT_AN_END, 1 - _DOUBT / kinds_judged).items():
            verdict = _judged(change, math.log1p(-margin))
            kinds[gpu][key] = replace(kinds[gpu][key], verdict=verdict, change=_percent(change))
    return kinds


def visits(windows: Sequence[Window]) -> list[float]:
    """Return the median rate of each visit, in order of time. Between visits, _PAUSE or more windows are missing.

    windows: of one kind of work on one GPU, in order of time.
    """
    parted: list[list[Window]] = []
    for window in windows:
        if not parted or window.number - parted[-1][-1].number > _PAUSE:
            parted.append([])
        parted[-1].append(window)
    return [median(one.rate for one in own) for own in parted]


def _by_key(windows: Sequence[Window]) -> dict[str, list[Window]]:
    of_kind: dict[str, list[Window]] = defaultdict(list)
    for window in windows:
        of_kind[window.key].append(window)
    return of_kind


def _lasts(own: Sequence[Window], windows: Sequence[Window]) -> bool:
    return _hours(own) >= _LEAST_SPAN * _hours(windows)


def _hours(windows: Sequence[Window]) -> float:
    return (windows[-1].number - windows[0].number + 1) * _HOURS if windows else 0.0


def _judged(change: Interval, floor: float) -> DriftVerdict:
    if change.high < floor:
        return DriftVerdict.SLOWING
    return DriftVerdict.STEADY if change.low > floor else DriftVerdict.TOO_SHORT


def _courses(logs: Mapping[str, Sequence[Window]], margin: float) -> dict[str, Course]:
    blocks = {gpu: _blocks(windows) for gpu, windows in logs.items() if _hours(windows) >= LEAST_HOURS}
    series = {gpu: [block.value for block in own] for gpu, own in blocks.items() if _has_ends(own)}
    found = changes(series, _LEAST_BLOCKS, 1 - _TAIL)
    courses = {}
    for gpu, windows in logs.items():
        hours = _hours(windows)
        if gpu in found:
            courses[gpu] = _course(found[gpu], blocks[gpu], hours, math.log1p(-margin))
        else:
            needed_h = LEAST_HOURS if hours < LEAST_HOURS else None
            courses[gpu] = Course(verdict=DriftVerdict.TOO_SHORT, hours=hours, needed_h=needed_h)
    return courses


def _blocks(logs: Sequence[Window]) -> list[_Block]:
    """Return the log rate of a GPU, relative to its level, in each of BLOCKS equal parts of its time.

    logs: windows of the GPU with log rates, raw or relative to siblings, in order of time. Parts without windows are
    omitted. The value of a part is the median over the kinds of work, after the level of each kind is subtracted. This
    level is the median of the kind's parts, from which the slope that all kinds share was removed. Kinds that did not
    run for most of the time are excluded.
    """
    first, span = logs[0].number, logs[-1].number - logs[0].number + 1
    kinds = [_by_block(own, first, span) for own in _by_key(logs).values() if _lasts(own, logs)]
    pairs = (itertools.combinations(own, 2) for own in kinds)
    slopes = [(b.value - a.value) / (b.number - a.number) for a, b in itertools.chain.from_iterable(pairs)]
    slope = median(slopes) if slopes else 0.0
    at: dict[int, list[float]] = defaultdict(list)
    for own in kinds:
        level = median(block.value - slope * block.number for block in own)
        for block in own:
            at[block.number].append(block.value - level)
    return [_Block(number, median(values)) for number, values in sorted(at.items())]


def _by_block(own: Sequence[Window], first: int, span: int) -> list[_Block]:
    at: dict[int, list[float]] = defaultdict(list)
    for one in own:
        at[(one.number - first) * BLOCKS // span].append(one.rate)
    return [_Block(number, median(values)) for number, values in sorted(at.items())]


def _has_ends(blocks: Sequence[_Block]) -> bool:
    first = sum(block.number < ENDS * BLOCKS for block in blocks)
    last = sum(block.number >= (1 - ENDS) * BLOCKS for block in blocks)
    return min(first, last) >= _LEAST_BLOCKS


def _course(change: Interval, blocks: Sequence[_Block], hours: float, floor: float) -> Course:
    verdict = _judged(change, floor)
    per_hour = 1 / ((1 - ENDS) * hours)
    return Course(
        verdict=verdict,
        hours=hours,
        per_hour=_percent(Interval(change.value * per_hour, change.low * per_hour, change.high * per_hour)),
        change=_percent(change),
        step_h=_step_h(blocks, hours),
        needed_h=_needed(change, floor, hours) if verdict is DriftVerdict.TOO_SHORT else None,
    )


def _step_h(blocks: Sequence[_Block], hours: float) -> float | None:
    at = _rest([block.value for block in blocks], _LEAST_BLOCKS).step
    return None if at is None else (blocks[at - 1].number + blocks[at].number + 1) / 2 / BLOCKS * hours


def _percent(logs: Interval) -> Interval:
    return Interval(*(_expm1(log) * 100 for log in (logs.value, logs.low, logs.high)))


def _expm1(log: float) -> float:
    return math.inf if log > 700 else math.expm1(log)


def _needed(change: Interval, floor: float, hours: float) -> float | None:
    """Return the total hours after which the interval of `change` should exclude `floor`.

    floor: tolerated change as a logarithm, below zero. hours: the hours so far. None if beyond _LONGEST x hours.
    """
    reach = change.high - change.value
    longer = 1.0
    while longer < _LONGEST:
        longer *= 1.1
        if abs(min(change.value, 0.0) * longer - floor) > reach / math.sqrt(longer):
            return hours * longer
    return None
