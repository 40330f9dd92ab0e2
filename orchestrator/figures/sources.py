"""Sources of the figures that workers measure: named in figures/table.py, read in analysis/cell_figures.py."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from protocol.result import Result, SeriesName

MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Percentile:
    """Percentile of a series over the times of all launches. name: field of stats.percentiles.Summary."""

    series: SeriesName
    name: str


@dataclass(frozen=True)
class OfResults:
    """Value of the results of a cell's launches. read: gets that of one launch. pool: makes one value of all."""

    read: Callable[[Result], float | None]
    pool: Callable[[Iterable[float]], float] = median


Source = SeriesName | Percentile | OfResults
"""Where a figure comes from. SeriesName: the median over launches of the mean time of this series."""


def largest_mb(read: Callable[[Result], int | None]) -> OfResults:
    """Return the source of a memory figure: the largest of the launches. read: gets bytes."""
    return OfResults(lambda result: mb(read(result)), max)


def mb(size: int | None) -> float | None:
    """Convert bytes to mebibytes; None stays None."""
    return None if size is None else size / MIB


def percent(share: float | None) -> float | None:
    """Convert a share to percent; None stays None."""
    return None if share is None else share * 100


def greater(*sizes: int | None) -> int | None:
    """Return the largest of the known sizes; None if all are unknown."""
    return max((size for size in sizes if size is not None), default=None)
