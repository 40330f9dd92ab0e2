"""Figures of one launch from its raw times, and medians over the launches of a cell."""

import math
from collections.abc import Callable, Sequence
from itertools import chain, islice
from statistics import fmean, median, stdev
from typing import Final

import msgspec

from orchestrator.stats import percentiles, student
from protocol import settling
from protocol.intervals import BATCHES, MIN_BATCHES, relative_half_width
from protocol.result import Block, Result

LEAST_FOR_INTERVAL: Final = 3
_MOST_REACH: Final = 10.0


HOST_BOUND_FROM: Final = 0.8
"""Smallest host_share of a host-bound launch. swin-t at 0.96 was 8 % slower in one of three runs [H200]."""
_LEAD_MS: Final = 50.0
"""Lead of the host with which a launch is not host-bound at any host_share, because a full queue of CUDA slows
enqueuing. Starting value: launches with leads of 58 ms (stylegan2) differed by 0.3 %, of 19 ms by 8 % [H200]."""


class LaunchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one launch. None: too few times, or no tokens.

    means_ms: name of a series → mean time, {"iteration": 4.2}. throughput: samples per second of measured time. tokens,
    tokens_per_second: tokens generated in the measurement, in all and per second of measured time. items: number of
    measured samples. measured_s: time of all measured blocks. quickest_block_ms: mean time of an iteration in the
    fastest block. tokens_expected: number of tokens if all texts have the requested length. relative_half_width: half
    of the 95 % interval of the mean iteration time, divided by this mean. drift_percent: from
    percentiles.drift_percent. lasting_change: relative change of the times from the end of warm-up to the end of the
    measurement (0.02 is 2 % longer); None if unclear or host-bound. covered: sum of iteration times / measured time.
    host_bound: whether the device waited for the host, or nearly did; None on a CPU device and where that is unknown.
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
    lasting_change: float | None = None
    covered: float | None = None
    host_bound: bool | None = None


class CellFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a cell: medians over its launches, but numbers of iterations and tokens are sums.

    launches: their number. means_ms: name of a series → mean time of a launch. pooled: name of a series → summary of
    the times of all launches together. Both have the series that all launches have. throughput: samples per second of
    measured time. tokens, tokens_per_second: generated in the measurement, in all and per second. tokens_expected:
    number of tokens if all texts have the requested length. measured_s: time of all measured blocks of a launch.
    relative_half_width: half of the 95 % interval of a launch's mean iteration time, divided by this mean.
    launch_spread_percent: (largest - smallest) / median throughput, None for one launch. drift_percent: change of the
    times from the first half of a launch to the second, the one that is largest in size. A figure is None if no launch
    has it, `tokens` and `tokens_expected` if any launch lacks it.
    """

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
        """Whether the times of any launch drifted by more than DRIFT_LIMIT_PERCENT.

        None if no launch has enough times to compute its drift.
        """
        return percentiles.drifting(self.drift_percent)


def of_launch(result: Result) -> LaunchFigures:
    """Return the figures of one launch from its result."""
    iterations = sum(block.iterations for block in result.blocks)
    measured_s = math.fsum(block.end_ns - block.start_ns for block in result.blocks) / 1e9
    items = iterations * result.items_per_iteration
    series_ms = {name: result.times_ms(name) for name in result.series}
    times_ms = series_ms.get("iteration", [])
    tokens, new_tokens = result.generated_tokens, result.cell.new_tokens
    bound = _host_bound(result, 1e3 * measured_s / iterations if iterations else 0.0)
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
        relative_half_width=half_width(times_ms, MIN_BATCHES),
        drift_percent=percentiles.drift_percent(times_ms),
        lasting_change=None if bound else _lasting_change(result, times_ms),
        covered=math.fsum(times_ms) * result.group / 1e3 / measured_s if measured_s > 0 and times_ms else None,
        host_bound=bound,
    )


def _host_bound(result: Result, iteration_ms: float) -> bool | None:
    if result.launch_bound is None or result.host_share is None:
        return result.launch_bound
    near = result.host_share >= HOST_BOUND_FROM and (1 - result.host_share) * iteration_ms < _LEAD_MS
    return result.launch_bound or near


def _lasting_change(result: Result, times_ms: Sequence[float]) -> float | None:
    """Return LaunchFigures.lasting_change of a launch that is not host-bound; None if unclear.

    None also without a recorded warm-up, and if it is unknown whether the device waits for the host, as on a CPU.
    times_ms: the measured iteration times.
    """
    warm_up = result.warm_up
    if not warm_up.course or result.launch_bound is None:
        return None
    measured_ms = block_medians(result.blocks, times_ms, result.group)
    return settling.lasting_change(result.warm_up_ms, warm_up.settled_blocks, measured_ms)


def block_medians(blocks: Sequence[Block], times_ms: Sequence[float], group: int) -> list[float]:
    """Return the median iteration time in ms of each block that has times.

    times_ms: times of all blocks, in order. group: number of iterations that each time is the mean of.
    """
    values = iter(times_ms)
    parts = [list(islice(values, block.iterations // group)) for block in blocks]
    return [median(part) for part in parts if part]


def of_cell(results: Sequence[Result], launches: Sequence[LaunchFigures]) -> CellFigures:
    """Return the figures of a cell from its launches, which all have the same batch size.

    launches: the figures of each result, from `of_launch`.
    """
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


def half_width(times_ms: Sequence[float], fewest: int = BATCHES) -> float | None:
    """Return half of the 95 % interval of the mean time, divided by the mean.

    The interval is computed from the means of up to BATCHES batches of consecutive times. None for fewer than `fewest`
    times (from MIN_BATCHES to BATCHES), or if all are zero.
    """
    batches = min(BATCHES, len(times_ms))
    return relative_half_width(times_ms, batches) if batches >= fewest and any(times_ms) else None


def launch_interval(values: Sequence[float]) -> float | None:
    """Return x: the 95 % interval of the geometric mean over launches is from mean / (1 + x) to mean * (1 + x).

    values: one figure for each launch. None for fewer than three launches, or for a value that is not above zero. x is
    at most about 22,000.
    """
    if len(values) < LEAST_FOR_INTERVAL or min(values) <= 0:
        return None
    reach = student.quantile(0.975, len(values) - 1) * stdev(map(math.log, values)) / math.sqrt(len(values))
    return math.expm1(min(reach, _MOST_REACH))


def _middle(launches: Sequence[LaunchFigures], read: Callable[[LaunchFigures], float | None]) -> float | None:
    known = [value for launch in launches if (value := read(launch)) is not None]
    return median(known) if known else None


def _sum(launches: Sequence[LaunchFigures], read: Callable[[LaunchFigures], int | None]) -> int | None:
    known = [value for launch in launches if (value := read(launch)) is not None]
    return sum(known) if len(known) == len(launches) else None
