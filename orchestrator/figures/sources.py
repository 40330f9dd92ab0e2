"""Sources of figures: how each figure of a cell is computed from the results of its launches.

figures/table.py names the source of each figure, and analysis/cell_figures.py computes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from protocol.result import Result, SeriesName

MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Percentile:
    """Percentile of a series over the times of all launches. name: field of stats.percentiles.Summary ("p95_ms")."""

    series: SeriesName
    name: str


@dataclass(frozen=True)
class OfResults:
    """A figure from the results of a cell's launches. read: value of a launch. pool: combines those not None."""

    read: Callable[[Result], float | None]
    pool: Callable[[Iterable[float]], float] = median


Source = SeriesName | Percentile | OfResults
"""Source of a figure. SeriesName: the median over launches of the mean time of this series."""


def largest_mb(read: Callable[[Result], int | None]) -> OfResults:
    """Return the source of a memory figure in MiB: the largest of the launches. read: bytes of a result, or None."""
    return OfResults(lambda result: mb(read(result)), max)


def mb(size: int | None) -> float | None:
    """Convert bytes to mebibytes; None stays None."""
    return None if size is None else size / MIB


def percent(share: float | None) -> float | None:
    """Convert a share (0.5) to percent (50); None stays None."""
    return None if share is None else share * 100


def greater(*sizes: int | None) -> int | None:
    """Return the largest of the known sizes; None if all are unknown."""
    return max((size for size in sizes if size is not None), default=None)
