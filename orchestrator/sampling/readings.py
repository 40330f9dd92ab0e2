"""From samples of a GPU to what is said of one measurement. Pure.

Boards sample power and utilisation a part of the time and average them over a second, so below 5 s of measuring there
is no telling them apart from what came before (docs/method.md, "Power, temperature, clocks"). Counters are read between
samples by linear interpolation; everything else is taken from samples inside the measured windows or, where a
measurement was shorter than the time between two samples, from the nearest one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Final

import msgspec

from orchestrator.sampling import clock_events
from protocol.messages import Sample

Window = tuple[int, int]
"""Begin and end of something measured, monotonic nanoseconds."""

MIN_MEASURED_S: Final = 5.0
NEAR_NS: Final = 1_000_000_000
"""How far from a window a sample may lie and still speak for it."""


SHARED: Final = "power, temperature, clocks and utilisation are those of the whole GPU, which its slices share"

MIN_FOR_CLOCK_DRIFT: Final = 4
"""Samples within the blocks, below which halves of them are single readings."""


class Readings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What telemetry says of one measurement. None where it says nothing; `note` says why.

    Utilisation, power, temperature and clocks are means; temperature_max_c and memory_used_bytes are maxima.
    sm_clock_drift_percent: by which the mean SM clock of the second half of the samples exceeds that of the first.
    reasons: every clock event reason that was seen, as NVML's bit mask; look at it as a mask, never by equality.
    thermal_violation, power_violation: fraction of the measured time, 0 to 1, in which clocks were held down for
    temperature or for power, by NVML's counters. slowdown_samples: fraction of the samples within the measured time
    that give heat or a brake as the reason of a low clock (clock_events.SLOWDOWN).
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
        """Fraction of the measured time in which heat or a brake held clocks down, by whichever sign says more."""
        return max((part for part in (self.thermal_violation, self.slowdown_samples) if part is not None), default=None)


def over(samples: Sequence[Sample], windows: Sequence[Window]) -> Readings:
    """Readings over the measured windows (blocks), both ordered by time."""
    if not windows:
        return Readings(note="nothing was measured")
    if not samples:
        return Readings(note="no telemetry was recorded")
    around = samples[_from(samples, windows[0][0] - NEAR_NS) : _after(samples, windows[-1][1] + NEAR_NS)]
    inside = _inside(around, windows)
    near = inside or _nearest(around, windows)
    if not near:
        return Readings(note="no telemetry within 1 s of the measurement")
    measured_s = sum(end - begin for begin, end in windows) / 1e9
    averaged = _averaged(around, windows, inside) if measured_s >= MIN_MEASURED_S else {}
    temperatures = _known(sample.temperature_c for sample in near)
    reasons = _known(sample.reasons for sample in near)
    values: dict[str, float | None] = {
        **averaged,
        "temperature_c": _mean(temperatures),
        "temperature_max_c": max(temperatures, default=None),
        "sm_clock_mhz": _mean(_known(sample.sm_clock_mhz for sample in near)),
        "memory_clock_mhz": _mean(_known(sample.memory_clock_mhz for sample in near)),
        "memory_used_bytes": max(_known(sample.memory_used_bytes for sample in near), default=None),
        "reasons": _all_bits(reasons),
        "thermal_violation": _held(around, windows, lambda sample: sample.thermal_violation_ns),
        "power_violation": _held(around, windows, lambda sample: sample.power_violation_ns),
    }
    slowdown = _mean([bool(mask & clock_events.SLOWDOWN) for mask in _known(sample.reasons for sample in inside)])
    derived = {"slowdown_samples": slowdown, "sm_clock_drift_percent": _drift(inside)}
    return msgspec.convert({**values, **derived, "note": _note(values, measured_s)}, Readings)


def _drift(inside: Sequence[Sample]) -> float | None:
    """Percent by which the SM clock moved from one half to the other; None for too few samples to tell."""
    clocks = _known(sample.sm_clock_mhz for sample in inside)
    if len(clocks) < MIN_FOR_CLOCK_DRIFT:
        return None
    before, after = fmean(clocks[: len(clocks) // 2]), fmean(clocks[len(clocks) // 2 :])
    return (after / before - 1) * 100 if before > 0 else None


def _averaged(around: Sequence[Sample], windows: Sequence[Window], inside: Sequence[Sample]) -> dict[str, float | None]:
    """What boards average over a second: known only for long measurements. inside: the samples in the windows."""
    energy_mj = _increase(around, windows, lambda sample: sample.energy_mj)
    power_mw = _mean(_known(sample.power_mw for sample in inside))
    return {
        "gpu_utilization_percent": _mean(_known(sample.gpu_percent for sample in inside)),
        "memory_utilization_percent": _mean(_known(sample.memory_percent for sample in inside)),
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
    """Readings of a MIG slice, marked: all but the memory are its GPU's, of whose energy nobody knows its part."""
    note = "; ".join(filter(None, [readings.note, SHARED]))
    return msgspec.structs.replace(readings, energy_j=None, note=note)


def _inside(samples: Sequence[Sample], windows: Sequence[Window]) -> list[Sample]:
    times_ns = [sample.at_ns for sample in samples]
    return [
        sample
        for begin, end in windows
        for sample in samples[bisect_left(times_ns, begin) : bisect_right(times_ns, end)]
    ]


def _nearest(around: Sequence[Sample], windows: Sequence[Window]) -> list[Sample]:
    """The sample nearest to a window, if any is near."""

    def distance_ns(sample: Sample) -> int:
        return min(max(begin - sample.at_ns, sample.at_ns - end, 0) for begin, end in windows)

    nearest = min(around, key=distance_ns, default=None)
    return [] if nearest is None or distance_ns(nearest) > NEAR_NS else [nearest]


def _increase(
    around: Sequence[Sample], windows: Sequence[Window], counter: Callable[[Sample], int | None]
) -> float | None:
    """By how much a cumulative counter rose within the windows. None where samples are missing or it fell."""
    known = [(sample.at_ns, value) for sample in around if (value := counter(sample)) is not None]
    times_ns, values = [at_ns for at_ns, _ in known], [value for _, value in known]
    if values != sorted(values):
        return None
    total = 0.0
    for begin, end in windows:
        at_begin, at_end = _interpolated(times_ns, values, begin), _interpolated(times_ns, values, end)
        if at_begin is None or at_end is None:
            return None
        total += at_end - at_begin
    return total


def _held(around: Sequence[Sample], windows: Sequence[Window], counter: Callable[[Sample], int | None]) -> float | None:
    """Fraction of the measured time by which a counter of nanoseconds rose; None where it says nothing."""
    held_ns, measured_ns = _increase(around, windows, counter), sum(end - begin for begin, end in windows)
    return None if held_ns is None or not measured_ns else min(1.0, held_ns / measured_ns)


def _interpolated(times_ns: Sequence[int], values: Sequence[int], at_ns: int) -> float | None:
    """Value of a counter at a moment between two samples that are not further apart than NEAR_NS."""
    index = bisect_right(times_ns, at_ns)
    if index == 0 or (index == len(times_ns) and times_ns[-1] < at_ns):
        return None
    later = min(index, len(times_ns) - 1)
    before_ns, before, after_ns, after = times_ns[index - 1], values[index - 1], times_ns[later], values[later]
    if after_ns - before_ns > NEAR_NS:
        return None
    if after_ns == before_ns:
        return float(before)
    return before + (after - before) * (at_ns - before_ns) / (after_ns - before_ns)


def _from(samples: Sequence[Sample], at_ns: int) -> int:
    return bisect_left(samples, at_ns, key=lambda sample: sample.at_ns)


def _after(samples: Sequence[Sample], at_ns: int) -> int:
    return bisect_right(samples, at_ns, key=lambda sample: sample.at_ns)


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[int]) -> float | None:
    return fmean(values) if values else None


def _all_bits(masks: Sequence[int]) -> int | None:
    if not masks:
        return None
    seen = 0
    for mask in masks:
        seen |= mask
    return seen
