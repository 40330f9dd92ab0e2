"""Samples of a GPU over a whole run, reduced to the hundreds of points that a chart needs. Pure.

samples ──▶ stretches of time of equal length ──▶ of each: lowest, mean and highest value
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import Final

from protocol.messages import Sample

MOST_POINTS: Final = 400  # of one GPU: about as many as a screen has pixels for
ALL_POINTS: Final = 3200  # of all GPUs of a run together
LEAST_POINTS: Final = 40

READINGS: Final[Mapping[str, Callable[[Sample], float | None]]] = {
    "utilization_percent": attrgetter("gpu_percent"),
    "power_w": lambda sample: None if sample.power_mw is None else sample.power_mw / 1000,
    "temperature_c": attrgetter("temperature_c"),
    "sm_clock_mhz": attrgetter("sm_clock_mhz"),
    "memory_clock_mhz": attrgetter("memory_clock_mhz"),
}


@dataclass(frozen=True)
class Curve:
    """Lowest, mean and highest value of one reading in each stretch of time. None if it was not read there."""

    low: tuple[float | None, ...]
    mean: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class Trace:
    """Curves of a GPU in one boot: name in READINGS → Curve. at_ns: monotonic time of each stretch's first sample."""

    at_ns: tuple[int, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)


def points(devices: int) -> int:
    """Return the largest number of points in the trace of each device, for a run on `devices` devices."""
    return max(LEAST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, devices)))


def trace(samples: Sequence[Sample], most: int) -> Trace:
    """Reduce the samples of one boot, ordered by time, to a trace of at most `most` points.

    With more samples, their time is divided into `most` equal stretches. A stretch without samples has no point.
    """
    stretches = _stretches(samples, most)
    return Trace(
        at_ns=tuple(inside[0].at_ns for inside in stretches),
        curves={name: _curve(stretches, read) for name, read in READINGS.items()} if stretches else {},
    )


def _stretches(samples: Sequence[Sample], most: int) -> list[Sequence[Sample]]:
    if len(samples) <= most:
        return [[sample] for sample in samples]
    first_ns = samples[0].at_ns
    length_ns = (samples[-1].at_ns - first_ns) // most + 1
    found: list[Sequence[Sample]] = []
    begin = 0
    while begin < len(samples):
        number = (samples[begin].at_ns - first_ns) // length_ns
        end = bisect_left(samples, first_ns + (number + 1) * length_ns, lo=begin, key=attrgetter("at_ns"))
        found.append(samples[begin:end])
        begin = end
    return found


def _curve(stretches: Sequence[Sequence[Sample]], read: Callable[[Sample], float | None]) -> Curve:
    readable = [[value for value in map(read, inside) if value is not None] for inside in stretches]
    return Curve(
        low=tuple(min(values, default=None) for values in readable),
        mean=tuple(fmean(values) if values else None for values in readable),
        high=tuple(max(values, default=None) for values in readable),
    )
