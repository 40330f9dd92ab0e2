"""Compute the readings (power, temperature, clocks, …) of one measurement from samples of a GPU. Pure.

Boards average power and utilisation over a second, so these need a load window (time of steady work) or a measurement
of 5 s (docs/method-reference.md, "Power, temperature, clocks"). Counters are interpolated. Other values are those of
the samples inside the measured windows. If none is inside, the nearest sample counts, at most 1 s away, but not for
slowdown_samples.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import reduce
from operator import or_
from statistics import fmean, linear_regression
from typing import Final, NamedTuple

import msgspec

from orchestrator.gpu.telemetry import clock_events
from protocol.messages import Sample

Window = tuple[int, int]
"""Part of a measurement: (start, end) in monotonic nanoseconds."""

MIN_MEASURED_S: Final = 5.0
MIN_COUNTED_NS: Final = 500_000_000
"""Least nanoseconds between first and last reading of the energy counter in a load window: it changes every 0.1 s."""
NEAR_NS: Final = 1_000_000_000  # largest distance from a window at which a sample counts
SHARED: Final = "power, temperature, clocks and utilisation are those of the whole GPU, which several slices share"
MIN_FOR_CLOCK_DRIFT: Final = 4


class Readings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Telemetry of one measurement. A value is None if it is unknown.

    note: why values are None; "" if none is. It does not mention slowdown_samples and sm_clock_drift_percent.

    Values are means, with exceptions: temperature_max_c and memory_used_bytes are maxima. energy_j is a total. reasons:
    all clock-event bits (of NVML) that any sample has. sm_clock_drift_percent: change from the first half of the
    samples to the second. thermal_violation, power_violation: fraction of the measured time with clocks lowered by heat
    or power, by NVML's counters. slowdown_samples: fraction of samples with clocks lowered by heat or a hardware brake.
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
        """Share of time slowed by heat or a power brake: the larger known one of thermal_violation, slowdown_samples.

        None if neither is known.
        """
        signs = (self.thermal_violation, self.slowdown_samples)
        return max((sign for sign in signs if sign is not None), default=None)


class Track:
    """Samples of one GPU during one boot, ordered by time, from which readings are computed quickly."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._times_ns = [sample.at_ns for sample in samples]

    def readings(self, windows: Sequence[Window], load: Window | None = None) -> Readings:
        """Return the readings over `windows`, the measured times, ordered by time.

        If no sample is inside a window or within 1 s of one, all values are None, and the note says so.
        load: load window, over which power and utilisation are averaged. Energy is then that power multiplied by the
        time from the start of the first window to the end of the last. Without a load window, power, utilisation and
        energy are those within the windows, but None if the windows together are shorter than MIN_MEASURED_S.
        """
        if not windows:
            return Readings(note="nothing was measured")
        if not self._samples:
            return Readings(note="no telemetry was recorded")
        around, times_ns = self._between(windows[0][0] - NEAR_NS, windows[-1][1] + NEAR_NS)
        if load is None:
            return _readings(around, times_ns, windows)
        during, _ = self._between(*load)
        return _readings(around, times_ns, windows, _under_load(during, windows[-1][1] - windows[0][0]))

    def _between(self, begin_ns: int, end_ns: int) -> tuple[Sequence[Sample], Sequence[int]]:
        first, behind = bisect_left(self._times_ns, begin_ns), bisect_right(self._times_ns, end_ns)
        return self._samples[first:behind], self._times_ns[first:behind]


def readings_over(samples: Sequence[Sample], windows: Sequence[Window], load: Window | None = None) -> Readings:
    """Return the readings over `windows`, the measured times, ordered by time.

    If no sample is inside a window or within 1 s of one, all values are None, and the note says so. samples: of one GPU
    in one boot, ordered by time. load: load window, over which power and utilisation are averaged. Without one, they
    are averaged over the windows, but None if the windows together are shorter than MIN_MEASURED_S.
    """
    return Track(samples).readings(windows, load)


_Averages = dict[str, float | None]


def _readings(
    around: Sequence[Sample], times_ns: Sequence[int], windows: Sequence[Window], load: _Averages | None = None
) -> Readings:
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
    is_long = measured_s >= MIN_MEASURED_S
    averaged = load or (_averaged(around, counters, inside) if is_long else {})
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
    note = _note(values, None if averaged else measured_s)
    return msgspec.convert({**values, **derived, "note": note}, Readings)


def _drift(inside: Sequence[Sample]) -> float | None:
    clocks = _without_none([sample.sm_clock_mhz for sample in inside])
    if len(clocks) < MIN_FOR_CLOCK_DRIFT:
        return None
    before, after = fmean(clocks[: len(clocks) // 2]), fmean(clocks[len(clocks) // 2 :])
    return (after / before - 1) * 100 if before > 0 else None


def _averaged(around: Sequence[Sample], counters: "_Counters", inside: Sequence[Sample]) -> _Averages:
    energy_mj = counters.increase([sample.energy_mj for sample in around])
    return {**_means(inside), "energy_j": None if energy_mj is None else energy_mj / 1000}


def _means(inside: Sequence[Sample]) -> _Averages:
    power_mw = _mean(_without_none([sample.power_mw for sample in inside]))
    return {
        "gpu_utilization_percent": _mean(_without_none([sample.gpu_percent for sample in inside])),
        "memory_utilization_percent": _mean(_without_none([sample.memory_percent for sample in inside])),
        "power_draw_w": None if power_mw is None else power_mw / 1000,
    }


def _under_load(inside: Sequence[Sample], work_ns: int) -> _Averages:
    """Return averages over a load window. inside: its samples. work_ns: duration for which to compute the energy.

    Power is the slope of the energy counter, because the board's mean over a second includes the time before the load.
    Without a counter, or if its readings span less than MIN_COUNTED_NS, power is the samples' mean, and energy None.
    """
    counted = [sample for sample in inside if sample.energy_mj is not None]
    energy_mj = _without_none([sample.energy_mj for sample in inside])
    rises = energy_mj == sorted(energy_mj) and len({*energy_mj}) > 1
    if not rises or counted[-1].at_ns - counted[0].at_ns < MIN_COUNTED_NS:
        return {**_means(inside), "energy_j": None}
    times_s = [(sample.at_ns - counted[0].at_ns) / 1e9 for sample in counted]
    power_w = linear_regression(times_s, energy_mj).slope / 1e3
    return {**_means(inside), "power_draw_w": power_w, "energy_j": power_w * work_ns / 1e9}


def _note(values: dict[str, float | None], measured_s: float | None) -> str:
    notes = []
    if measured_s is not None:
        notes.append(
            f"utilisation, power and energy need a load window or {MIN_MEASURED_S:g} s of measurement, "
            f"and the measurement took {measured_s:.1f} s"
        )
    missing = [name for name, value in values.items() if value is None]
    if missing:
        notes.append(f"no readings of {', '.join(missing)}")
    return "; ".join(notes)


def of_slice(readings: Readings) -> Readings:
    """Return a copy for a slice: without energy, with a note that all values but memory are those of the whole GPU."""
    note = "; ".join(filter(None, [readings.note, SHARED]))
    return msgspec.structs.replace(readings, energy_j=None, note=note)


def _nearest(around: Sequence[Sample], windows: Sequence[Window]) -> list[Sample]:
    def distance_ns(sample: Sample) -> int:
        return min(max(begin - sample.at_ns, sample.at_ns - end, 0) for begin, end in windows)

    nearest = min(around, key=distance_ns, default=None)
    return [] if nearest is None or distance_ns(nearest) > NEAR_NS else [nearest]


class _Moment(NamedTuple):
    """A time between samples of indices `before` and `after`, apart_ns apart. since_ns: time since the earlier one."""

    before: int
    after: int
    since_ns: int
    apart_ns: int


def _moments(times_ns: Sequence[int], windows: Sequence[Window]) -> list[_Moment] | None:
    """Return a _Moment for each start and end of the windows, in order; None if samples are missing around any of them.

    They are missing before the first sample, after the last one, and between two samples more than 1 s apart. times_ns:
    times of the samples, ascending.
    """
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
    """Interpolates counters at the starts and ends of the windows.

    times_ns: times of the samples, ascending. moments: places of start, end, start, end, … of the windows among the
    samples; None if samples are missing around any of them.
    """

    times_ns: Sequence[int]
    moments: list[_Moment] | None
    windows: Sequence[Window]

    def increase(self, values: Sequence[int | None]) -> float | None:
        """Return by how much a counter rose within the windows. values: at each sample, in order; None: unreadable.

        None if it fell, or if the start or end of a window is not between readable values at most 1 s apart.
        """
        readable, moments = _without_none(values), self.moments
        if len(readable) < len(values):
            kept = [at_ns for at_ns, value in zip(self.times_ns, values, strict=True) if value is not None]
            moments = _moments(kept, self.windows)
        if moments is None or readable != sorted(readable):
            return None
        if readable[0] == readable[-1]:
            return 0.0  # most counters do not rise: no interpolation needed
        at = [_between(readable[moment.before], readable[moment.after], moment) for moment in moments]
        total = 0.0
        for begin, end in zip(at[::2], at[1::2], strict=True):
            total += end - begin
        return total

    def held(self, values: Sequence[int | None], measured_ns: int) -> float | None:
        """Return the rise of a counter of nanoseconds as a fraction (0 to 1) of `measured_ns`; None if unknown.

        values: value at each sample, in order; None: unreadable. measured_ns: total length of the windows.
        """
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
