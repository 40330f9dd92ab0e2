"""From samples of a GPU to the readings of one measurement. Pure.

Boards average power and utilisation over a second: below 5 s they are not reported (docs/method.md, "Power,
temperature, clocks"). Counters are interpolated; other values are of samples inside the windows, else of the nearest
one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import reduce
from operator import or_
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from orchestrator.gpu.telemetry import clock_events
from protocol.messages import Sample

Window = tuple[int, int]
"""Begin and end of something measured, monotonic nanoseconds."""

MIN_MEASURED_S: Final = 5.0
NEAR_NS: Final = 1_000_000_000
"""How far from a window a sample may lie and still count."""
SHARED: Final = "power, temperature, clocks and utilisation are those of the whole GPU, which its slices share"
MIN_FOR_CLOCK_DRIFT: Final = 4
"""Samples within the blocks, below which halves of them are single readings."""


class Readings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Telemetry of one measurement. None where unknown; `note` has the reason.

    Means, but for temperature_max_c and memory_used_bytes (maxima) and reasons (NVML's bits of all samples).
    sm_clock_drift_percent: second half of the samples relative to the first. thermal_violation, power_violation:
    fraction of the measured time with lowered clocks, by NVML's counters. slowdown_samples: fraction of the samples.
    """

    gpu_utilization_percent: float | None = None
    memory_utilization_percent: float | None = None
    power_draw_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    temperature_max_c: int | None = None
    sm_clock_mhz: float | None = None
    sm_clock_drift_percent: float | None = None
    memory_clock_mhz: float | None = None
    memory_used_bytes: int | None = None
    reasons: int | None = None
    thermal_violation: float | None = None
    power_violation: float | None = None
    slowdown_samples: float | None = None
    note: str = ""

    @property
    def slowdown(self) -> float | None:
        """Fraction of the measured time in which heat or a brake held clocks down: the larger of both signs."""
        signs = (self.thermal_violation, self.slowdown_samples)
        return max((sign for sign in signs if sign is not None), default=None)


class Track:
    """Samples of one GPU during one boot, ordered by time, indexed for many measurements."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._times_ns = [sample.at_ns for sample in samples]

    def over(self, windows: Sequence[Window]) -> Readings:
        """Readings over the measured windows (blocks), ordered by time."""
        if not windows:
            return Readings(note="nothing was measured")
        if not self._samples:
            return Readings(note="no telemetry was recorded")
        first = bisect_left(self._times_ns, windows[0][0] - NEAR_NS)
        behind = bisect_right(self._times_ns, windows[-1][1] + NEAR_NS)
        return _readings(self._samples[first:behind], self._times_ns[first:behind], windows)


def over(samples: Sequence[Sample], windows: Sequence[Window]) -> Readings:
    """Readings over the measured windows (blocks), both ordered by time."""
    return Track(samples).over(windows)


def _readings(around: Sequence[Sample], times_ns: Sequence[int], windows: Sequence[Window]) -> Readings:
    inside = [
        sample
        for begin, end in windows
        for sample in around[bisect_left(times_ns, begin) : bisect_right(times_ns, end)]
    ]
    near = inside or _nearest(around, windows)
    if not near:
        return Readings(note="no telemetry within 1 s of the measurement")
    measured_ns = sum([end - begin for begin, end in windows])
    measured_s = measured_ns / 1e9
    counters = _Counters(times_ns, _moments(times_ns, windows), windows)
    averaged = _averaged(around, counters, inside) if measured_s >= MIN_MEASURED_S else {}
    temperatures = _without_none([sample.temperature_c for sample in near])
    values: dict[str, float | None] = {
        **averaged,
        "temperature_c": _mean(temperatures),
        "temperature_max_c": max(temperatures, default=None),
        "sm_clock_mhz": _mean(_without_none([sample.sm_clock_mhz for sample in near])),
        "memory_clock_mhz": _mean(_without_none([sample.memory_clock_mhz for sample in near])),
        "memory_used_bytes": max(_without_none([sample.memory_used_bytes for sample in near]), default=None),
        "reasons": _all_bits(_without_none([sample.reasons for sample in near])),
        "thermal_violation": counters.held([sample.thermal_violation_ns for sample in around], measured_ns),
        "power_violation": counters.held([sample.power_violation_ns for sample in around], measured_ns),
    }
    slowdown = _mean(
        [bool(mask & clock_events.SLOWDOWN) for mask in _without_none([sample.reasons for sample in inside])]
    )
    derived = {"slowdown_samples": slowdown, "sm_clock_drift_percent": _drift(inside)}
    return msgspec.convert({**values, **derived, "note": _note(values, measured_s)}, Readings)


def _drift(inside: Sequence[Sample]) -> float | None:
    """Percent by which the SM clock moved from one half to the other; None for too few samples."""
    clocks = _without_none([sample.sm_clock_mhz for sample in inside])
    if len(clocks) < MIN_FOR_CLOCK_DRIFT:
        return None
    before, after = fmean(clocks[: len(clocks) // 2]), fmean(clocks[len(clocks) // 2 :])
    return (after / before - 1) * 100 if before > 0 else None


def _averaged(around: Sequence[Sample], counters: "_Counters", inside: Sequence[Sample]) -> dict[str, float | None]:
    """What boards average over a second: only for long measurements."""
    energy_mj = counters.increase([sample.energy_mj for sample in around])
    power_mw = _mean(_without_none([sample.power_mw for sample in inside]))
    return {
        "gpu_utilization_percent": _mean(_without_none([sample.gpu_percent for sample in inside])),
        "memory_utilization_percent": _mean(_without_none([sample.memory_percent for sample in inside])),
        "power_draw_w": None if power_mw is None else power_mw / 1000,
        "energy_j": None if energy_mj is None else energy_mj / 1000,
    }


def _note(values: dict[str, float | None], measured_s: float) -> str:
    notes = []
    if measured_s < MIN_MEASURED_S:
        notes.append(
            f"utilisation, power and energy need {MIN_MEASURED_S:g} s of measuring, this took {measured_s:.1f} s"
        )
    missing = [name for name, value in values.items() if value is None]
    if missing:
        notes.append(f"no reading of {', '.join(missing)}")
    return "; ".join(notes)


def of_slice(readings: Readings) -> Readings:
    """Mark readings of a MIG slice: all but the memory are its GPU's. Without energy, whose part is unknown."""
    note = "; ".join(filter(None, [readings.note, SHARED]))
    return msgspec.structs.replace(readings, energy_j=None, note=note)


def _nearest(around: Sequence[Sample], windows: Sequence[Window]) -> list[Sample]:
    def distance_ns(sample: Sample) -> int:
        return min(max(begin - sample.at_ns, sample.at_ns - end, 0) for begin, end in windows)

    nearest = min(around, key=distance_ns, default=None)
    return [] if nearest is None or distance_ns(nearest) > NEAR_NS else [nearest]


class _Moment(NamedTuple):
    """A moment between two samples: their indices, the time since the first, and the time between them."""

    before: int
    after: int
    since_ns: int
    apart_ns: int


def _moments(times_ns: Sequence[int], windows: Sequence[Window]) -> list[_Moment] | None:
    """Begin and end of each window. None where one of them is not between two samples, or these are far apart."""
    found: list[_Moment] = []
    last = len(times_ns) - 1
    for window in windows:
        for at_ns in window:
            after = bisect_right(times_ns, at_ns)
            if after == 0 or (after > last and times_ns[-1] < at_ns):
                return None
            before, after = after - 1, min(after, last)
            apart_ns = times_ns[after] - times_ns[before]
            if apart_ns > NEAR_NS:
                return None
            found.append(_Moment(before, after, at_ns - times_ns[before], apart_ns))
    return found


class _Counters(NamedTuple):
    """Reads cumulative counters between samples. moments: begins and ends of the windows."""

    times_ns: Sequence[int]
    moments: list[_Moment] | None
    windows: Sequence[Window]

    def increase(self, values: Sequence[int | None]) -> float | None:
        """Rise of a counter within the windows; None where samples are missing or it fell."""
        known, moments = _without_none(values), self.moments
        if len(known) < len(values):
            kept = [at_ns for at_ns, value in zip(self.times_ns, values, strict=True) if value is not None]
            moments = _moments(kept, self.windows)
        if moments is None or known != sorted(known):
            return None
        if known[0] == known[-1]:
            return 0.0  # most counters stand still: saves the interpolation
        at = [_between(known[moment.before], known[moment.after], moment) for moment in moments]
        total = 0.0
        for begin, end in zip(at[::2], at[1::2], strict=True):
            total += end - begin
        return total

    def held(self, values: Sequence[int | None], measured_ns: int) -> float | None:
        """Fraction of the measured time by which a counter of nanoseconds rose; None where unknown."""
        held_ns = self.increase(values)
        return None if held_ns is None or not measured_ns else min(1.0, held_ns / measured_ns)


def _between(before: int, after: int, moment: _Moment) -> float:
    if moment.apart_ns == 0:
        return float(before)
    return before + (after - before) * moment.since_ns / moment.apart_ns


def _without_none(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[int]) -> float | None:
    return fmean(values) if values else None


def _all_bits(masks: Sequence[int]) -> int | None:
    return reduce(or_, masks) if masks else None
