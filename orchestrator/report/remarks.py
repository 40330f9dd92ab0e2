"""Caveats about a figure, as text and as a mark. For many figures: one line for each kind of caveat."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.figures.cells import Computed, GenerationMetrics, Measured, Status
from orchestrator.figures.parts import SHARE_IN_DOUBT
from orchestrator.figures.quality import Quality, is_clock_moved, quality
from protocol.intervals import BATCHES
from protocol.result import SteadyState

MARKS: Final = {
    Quality.CONTAMINATED: "+",
    Quality.THROTTLED: "!",
    Quality.IMPLAUSIBLE: "?",
    Quality.HOST_BOUND: "*",
    Quality.UNSETTLED: "~",
    Quality.NOISY: "^",
    Quality.DEGRADED: "<",
}
"""The doubtful qualities, each with a mark of its own behind a figure."""
DOUBTS: Final = "Reasons to doubt these figures"
SHOWN_NAMES: Final = 3


class Remark(NamedTuple):
    """A caveat. words: text, with a placeholder if there is a value in percent."""

    words: str
    percent: float | None = None
    signed: bool = False

    def __str__(self) -> str:
        return _with_percents(self.words, (self,))


def _with_percents(words: str, alike: Sequence[Remark]) -> str:
    known = sorted(one.percent for one in alike if one.percent is not None)
    written = "{:+.1f}%" if alike[0].signed else "{:.0f}%"
    return words.format(" to ".join(dict.fromkeys(written.format(one) for one in (*known[:1], *known[-1:]))))


def remark(metric: Measured, *, interval: bool = True) -> str:
    """The caveats, empty without one. interval: whether to explain a missing confidence interval."""
    return "; ".join(map(str, _remarks(metric, interval=interval)))


def counted(measurements: Iterable[tuple[str, Measured]]) -> Iterator[str]:
    """A line for each kind of caveat, the most frequent first: how many results have it, and the names of a few."""
    total, kinds = 0, dict[str, list[tuple[str, Remark]]]()
    for name, metric in measurements:
        total += 1
        for one in _remarks(metric, interval=True):
            kinds.setdefault(one.words, []).append((name, one))
    for words, having in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        named = f" ({', '.join(name for name, _ in having)})" if len(having) <= SHOWN_NAMES else ""
        yield f"{len(having)} of {plural(total, 'result')}{named}: {_with_percents(words, [one for _, one in having])}"


def mark(metric: Measured) -> str:
    """The mark of a figure in doubt, else empty."""
    found = quality(metric.status, metric)
    return MARKS[found] if found.is_doubtful else ""


def legend(figures: Iterable[str]) -> Iterator[str]:
    """The meaning of each mark behind these figures: "*: host-bound"."""
    every = "".join(MARKS.values())
    used = {character for figure in figures for character in figure[len(figure.rstrip(every)) :]}
    return (f"{mark}: {of}" for of, mark in MARKS.items() if mark in used)


def _planned_and_made(metric: Measured) -> int:
    """Number of planned launches with a result, without added launches."""
    good = {
        attempt.round
        for attempt in metric.attempts
        if attempt.outcome == "result" and attempt.batch_size == metric.batch_size
    }
    return sum(number < metric.launches_planned for number in good)


def _remarks(metric: Measured, *, interval: bool) -> Iterator[Remark]:
    if metric.reason:
        yield _fixed(metric.reason)
    if metric.launches and (made := _planned_and_made(metric)) < metric.launches_planned:
        yield Remark(f"{made} of {metric.launches_planned} launches")
    if metric.steady_state == SteadyState.NONE:
        yield _unsteady(metric)
    if interval and metric.launches and metric.relative_half_width is None:
        yield Remark(f"fewer than {BATCHES} values: no interval")
    if metric.drifting and metric.drift_percent is not None:
        yield Remark("drifting by {}", metric.drift_percent, signed=True)
    if is_clock_moved(metric):
        yield Remark("the SM clock moved by {}", metric.sm_clock_drift_percent, signed=True)
    if metric.launch_bound:
        yield _host_bound(metric)
    if metric.contaminated:
        yield Remark("contaminated by another process on the GPU")
    if metric.throttled and metric.slowdown_percent is not None:
        yield Remark("throttled for {} of the time", metric.slowdown_percent)
    if isinstance(metric, Computed):
        yield from map(_fixed, _of_computed(metric))
    if isinstance(metric, GenerationMetrics) and metric.tokens_complete is False:
        yield Remark(f"{metric.tokens_generated} tokens arrived, {metric.tokens_expected} were expected")


def _fixed(text: str) -> Remark:
    """Build a remark from a text whose braces are not placeholders."""
    return Remark(text.replace("{", "{{").replace("}", "}}"))


def _unsteady(metric: Measured) -> Remark:
    if metric.unsettled_percent is None:
        return Remark("not steady after warm-up")
    words = "unsettled: times changed by {} from the warm-up to the end"
    return Remark(words, metric.unsettled_percent, signed=True)


def _host_bound(metric: Measured) -> Remark:
    if metric.host_percent is None:
        return Remark("host-bound: the GPU waits for the host")
    return Remark("host-bound: the host needs {} of the time to enqueue the work", metric.host_percent)


def _of_computed(metric: Computed) -> Iterator[str]:
    yield from metric.plausibility.flags
    if metric.plausibility.note.startswith(SHARE_IN_DOUBT):
        yield metric.plausibility.note.partition("; ")[0]


SHORT: Final = {
    Status.REFERRED: ("ref", "measured as another planned batch size"),
    Status.DOES_NOT_FIT: ("oom", "does not fit into memory"),
    Status.UNSUPPORTED: ("n/s", "unsupported on this machine"),
    Status.FAILED: ("fail", "failed"),
    Status.DROPPED: ("drop", "dropped for want of time"),
    Status.MISSING: ("miss", "not measured"),
}
"""Reasons for a missing value: short for a table, long for its legend."""
