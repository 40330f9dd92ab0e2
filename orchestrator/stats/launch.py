"""Figures of one launch from its raw times, and of a cell: medians over its launches."""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import fmean, median

import msgspec

from orchestrator.stats import percentiles
from protocol.intervals import BATCHES, relative_half_width
from protocol.result import Result


class LaunchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one launch. means_ms: series → mean. Rates are per second of wall time of the measured blocks.

    tokens, tokens_expected: None without generation. relative_half_width: of the 95 % interval of the mean iteration.
    quickest_block_ms: an iteration of the fastest measured block.
    """

    means_ms: dict[str, float]
    throughput: float | None
    tokens_per_second: float | None
    tokens: int | None
    tokens_expected: int | None
    items: int
    quickest_block_ms: float | None
    iterations: int
    measured_s: float
    relative_half_width: float | None
    drift_percent: float | None


class CellFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the launches of a cell; sums of iterations and tokens. pooled: shape of all times together."""

    launches: int
    means_ms: dict[str, float]
    throughput: float | None
    tokens_per_second: float | None
    tokens: int | None
    tokens_expected: int | None
    iterations: int
    measured_s: float
    relative_half_width: float | None
    launch_spread_percent: float | None
    drift_percent: float | None
    pooled: dict[str, percentiles.Summary]

    @property
    def drifting(self) -> bool | None:
        """Whether a launch's times drifted beyond the limit; None for too few."""
        return percentiles.drifting(self.drift_percent)


def of_launch(result: Result) -> LaunchFigures:
    """Figures of one result."""
    iterations = sum(block.iterations for block in result.blocks)
    measured_s = math.fsum(block.end_ns - block.start_ns for block in result.blocks) / 1e9
    items = iterations * result.items_per_iteration
    series_ms = {name: result.times_ms(name) for name in result.series}
    times_ms = series_ms.get("iteration", [])
    tokens, new_tokens = result.generated_tokens, result.cell.new_tokens
    return LaunchFigures(
        means_ms={name: fmean(times) for name, times in series_ms.items() if times},
        throughput=items / measured_s if measured_s > 0 else None,
        tokens_per_second=tokens / measured_s if tokens is not None and measured_s > 0 else None,
        tokens=tokens,
        tokens_expected=None if tokens is None or new_tokens is None else items * new_tokens,
        items=items,
        quickest_block_ms=min(
            ((block.end_ns - block.start_ns) / block.iterations / 1e6 for block in result.blocks if block.iterations),
            default=None,
        ),
        iterations=iterations,
        measured_s=measured_s,
        relative_half_width=relative_half_width(times_ms) if len(times_ms) >= BATCHES and any(times_ms) else None,
        drift_percent=percentiles.drift_percent(times_ms),
    )


def of_cell(results: Sequence[Result], launches: Sequence[LaunchFigures]) -> CellFigures:
    """Figures of a cell from its launches, all at one batch size, at least one. launches: of_launch of each."""
    names = [name for name in launches[0].means_ms if all(name in launch.means_ms for launch in launches)]
    throughputs = [launch.throughput for launch in launches if launch.throughput is not None]
    pooled = {
        name: percentiles.summarise(list(chain.from_iterable(result.times_ms(name) for result in results)))
        for name in names
    }
    return CellFigures(
        launches=len(launches),
        means_ms={name: median(launch.means_ms[name] for launch in launches) for name in names},
        throughput=median(throughputs) if throughputs else None,
        tokens_per_second=_middle(launches, lambda launch: launch.tokens_per_second),
        tokens=_sum(launches, lambda launch: launch.tokens),
        tokens_expected=_sum(launches, lambda launch: launch.tokens_expected),
        iterations=sum(launch.iterations for launch in launches),
        measured_s=median(launch.measured_s for launch in launches),
        relative_half_width=_middle(launches, lambda launch: launch.relative_half_width),
        launch_spread_percent=percentiles.spread_percent(throughputs),
        drift_percent=max(
            (launch.drift_percent for launch in launches if launch.drift_percent is not None), key=abs, default=None
        ),
        pooled={name: summary for name, summary in pooled.items() if summary is not None},
    )


def _middle(launches: Sequence[LaunchFigures], read: Callable[[LaunchFigures], float | None]) -> float | None:
    known = [value for launch in launches if (value := read(launch)) is not None]
    return median(known) if known else None


def _sum(launches: Sequence[LaunchFigures], read: Callable[[LaunchFigures], int | None]) -> int | None:
    """Over all launches, None where one of them has none."""
    known = [value for launch in launches if (value := read(launch)) is not None]
    return sum(known) if len(known) == len(launches) else None
