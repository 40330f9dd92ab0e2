"""Caveats about measured figures: as text, and as a mark behind the figure that a legend explains."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from orchestrator.config.naming import plural
from orchestrator.figures.cells import Computed, GenerationMetrics, Measured, PhaseMetrics, Status
from orchestrator.figures.parts import SHARE_IN_DOUBT, UNSTEADY
from orchestrator.figures.quality import Quality, is_clock_moved, is_power_unsettled, quality
from protocol.failure import Category
from protocol.intervals import BATCHES
from protocol.result import SteadyState

MARKS: Final = {
    Quality.CONTAMINATED: "#",
    Quality.THROTTLED: "!",
    Quality.IMPLAUSIBLE: "?",
    Quality.HOST_BOUND: "*",
    Quality.UNSETTLED: "~",
    Quality.UNSETTLED_POWER: "'",
    Quality.NOISY: "^",
    Quality.DEGRADED: "<",
}
"""Quality of a doubtful result → mark that stands behind its figure."""
HOST_MARK: Final = MARKS[Quality.HOST_BOUND]
HOST_LIMITED: Final = f"{HOST_MARK} limited by the host: the device waits for it"
"""Legend of HOST_MARK below a table of times on a device."""
OWN_CODE: Final = "by its own code"
"""Compile mode of a model that compiles itself."""
DOUBTS: Final = "Reasons to doubt these figures"
SHOWN_NAMES: Final = 3


class Remark(NamedTuple):
    """A caveat. words: its text, with "{}" in place of `percent` if that is set. signed: show the sign of `percent`."""

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
    """Return the caveats about a cell's figures, joined by "; ", or "". interval: mention a missing 95 % interval."""
    return "; ".join(map(str, _remarks(metric, interval=interval)))


def summaries(measurements: Iterable[tuple[str, Measured]]) -> Iterator[str]:
    """Yield a line for each kind of caveat: how many results have it. The most frequent one comes first.

    If at most SHOWN_NAMES results have it, the line names them. measurements: (name, figures) of each result.
    """
    total, kinds = 0, dict[str, list[tuple[str, Remark]]]()
    for name, metric in measurements:
        total += 1
        for one in _remarks(metric, interval=True):
            kinds.setdefault(one.words, []).append((name, one))
    for words, having in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        named = f" ({', '.join(name for name, _ in having)})" if len(having) <= SHOWN_NAMES else ""
        yield f"{len(having)} of {plural(total, 'result')}{named}: {_with_percents(words, [one for _, one in having])}"


def mark(metric: Measured) -> str:
    """Return the mark to put behind the figures of a cell, such as "*"; empty if they are not doubtful."""
    found = quality(metric.status, metric)
    return MARKS[found] if found.is_doubtful else ""


def legend(figures: Iterable[str]) -> Iterator[str]:
    """Yield the meaning of each mark that ends any of `figures` (texts such as "8.25*"): "*: host-bound"."""
    every = "".join(MARKS.values())
    used = {character for figure in figures for character in figure[len(figure.rstrip(every)) :]}
    return (f"{mark}: {of}" for of, mark in MARKS.items() if mark in used)


def _planned_and_made(metric: Measured) -> int:
    """Return how many planned launches have a result at the cell's batch size. Launches added later do not count."""
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
        yield Remark(f"only {made} of {metric.launches_planned} planned launches")
    if metric.steady_state == SteadyState.NONE:
        yield _unsteady(metric)
    if interval and metric.launches and metric.relative_half_width is None:
        yield Remark(f"fewer than {BATCHES} values in a launch: no interval within it")
    if metric.drifting and metric.drift_percent is not None:
        yield Remark("drifting by {}", metric.drift_percent, signed=True)
    if is_clock_moved(metric):
        yield Remark("the SM clock moved by {}", metric.sm_clock_drift_percent, signed=True)
    if is_power_unsettled(metric):
        yield Remark("at the power limit: this measurement cannot show whether the clock still falls")
    if metric.launch_bound:
        yield _host_bound(metric)
    if metric.contaminated:
        yield Remark(f"{Category.CONTAMINATED} on the GPU")
    if metric.throttled and metric.slowdown_percent is not None:
        yield Remark("throttled for {} of the time", metric.slowdown_percent)
    yield from _of_workload(metric)


def _of_workload(metric: Measured) -> Iterator[Remark]:
    if isinstance(metric, Computed):
        yield from map(_fixed, _of_computed(metric))
    if isinstance(metric, PhaseMetrics) and metric.inference_latency_values and metric.inference_latency_ms is None:
        yield Remark("no latency: it was shorter than the forward pass, a part of it, so the host's speed changed")
    if isinstance(metric, GenerationMetrics) and metric.tokens_complete is False:
        yield Remark(f"{metric.tokens_generated} tokens arrived, {metric.tokens_expected} were expected")


def _fixed(text: str) -> Remark:
    return Remark(text.replace("{", "{{").replace("}", "}}"))


def _unsteady(metric: Measured) -> Remark:
    if metric.unsettled_percent is None:
        return Remark(f"unsettled: {UNSTEADY}")
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
    Status.DOES_NOT_FIT: ("oom", "too large for the memory"),
    Status.UNSUPPORTED: ("n/s", "unsupported on this machine"),
    Status.FAILED: ("fail", "failed"),
    Status.DROPPED: ("drop", "dropped for lack of time"),
    Status.MISSING: ("miss", "not measured"),
}
"""Status of a cell without a value → short word for a table, and its meaning for the legend."""
