"""The figures that every measured cell has, whatever it measured: trust, memory, telemetry, the shape of its times."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.figures.parts import Statistics
from orchestrator.gpu.telemetry import clock_events, validity
from orchestrator.stats.launch import CellFigures
from orchestrator.stats.series import Summary
from protocol.cell import Device, DeviceKind
from protocol.result import Memory, SteadyState

MIB: Final = 1024 * 1024

Fields = dict[str, object]
Launches = Sequence[LaunchEvidence]


def mb(size: int | None) -> float | None:
    """Bytes as mebibytes."""
    return None if size is None else size / MIB


def measured(cell: CellFigures | None, launches: Launches, device: Device) -> Fields:
    """The fields of Measured."""
    return {
        "iterations": cell.iterations if cell else None,
        "measured_seconds": cell.measured_s if cell else None,
        "relative_half_width": cell.relative_half_width if cell else None,
        "launch_spread_percent": cell.launch_spread_percent if cell else None,
        "drift_percent": cell.drift_percent if cell else None,
        "drifting": cell.drifting if cell else None,
        "launch_bound": any_of(launches, lambda one: one.launch_bound),
        "statistics": _statistics(cell, launches),
        **_warm_up(launches),
        **_memory(launches, device),
        **_telemetry(launches, device),
    }


def middle(launches: Launches, read: Callable[[LaunchEvidence], float | None]) -> float | None:
    """Median over the launches that say something."""
    known = [value for launch in launches if (value := read(launch)) is not None]
    return median(known) if known else None


def each(launches: Launches, read: Callable[[LaunchEvidence], float | None]) -> tuple[float, ...]:
    """The value of every launch that says something."""
    return tuple(value for launch in launches if (value := read(launch)) is not None)


def largest(launches: Launches, read: Callable[[LaunchEvidence], int | None]) -> int | None:
    """Maximum over the launches that say something."""
    return max((value for launch in launches if (value := read(launch)) is not None), default=None)


def any_of(launches: Launches, read: Callable[[LaunchEvidence], bool | None]) -> bool | None:
    """Whether it is true of any launch that says something."""
    known = [value for launch in launches if (value := read(launch)) is not None]
    return any(known) if known else None


def peak(memory: Memory) -> int | None:
    """The allocator's larger peak, in bytes; None on a CPU device."""
    return _greater(memory.cold_allocated_bytes, memory.warm_allocated_bytes)


def _warm_up(launches: Launches) -> Fields:
    states = [launch.warm_up.steady_state for launch in launches]
    worst = SteadyState.NONE if SteadyState.NONE in states else next(iter(states), None)
    return {
        "steady_state": worst,
        "stop_reason": ", ".join(dict.fromkeys(launch.stop_reason for launch in launches)) or None,
        "warm_up_iterations": sum(launch.warm_up.iterations for launch in launches) if launches else None,
        "first_iteration_ms": middle(launches, lambda one: one.warm_up.first_iteration_ms),
        "second_iteration_ms": middle(launches, lambda one: one.warm_up.second_iteration_ms),
    }


def _memory(launches: Launches, device: Device) -> Fields:
    """On a CPU device the allocator says nothing, and the resident set of the process is what counts."""
    on_cpu = device.kind is DeviceKind.CPU
    basis = "resident set" if on_cpu else "allocated"
    return {
        "peak_memory_mb": mb(largest(launches, lambda one: one.memory.resident_bytes if on_cpu else peak(one.memory))),
        "peak_memory_reserved_mb": mb(largest(launches, lambda one: _peak_reserved(one.memory))),
        "cold_memory_allocated_mb": mb(largest(launches, lambda one: one.memory.cold_allocated_bytes)),
        "cold_memory_reserved_mb": mb(largest(launches, lambda one: one.memory.cold_reserved_bytes)),
        "warm_memory_allocated_mb": mb(largest(launches, lambda one: one.memory.warm_allocated_bytes)),
        "warm_memory_reserved_mb": mb(largest(launches, lambda one: one.memory.warm_reserved_bytes)),
        "memory_basis": basis if launches else None,
        "gpu_memory_used_mb": mb(largest(launches, lambda one: one.readings.memory_used_bytes)),
    }


def _telemetry(launches: Launches, device: Device) -> Fields:
    energy_j = middle(launches, _energy_per_sample)
    notes = dict.fromkeys(one.readings.note for one in launches if one.readings.note)
    return {
        "gpu_utilization_percent": middle(launches, lambda one: one.readings.gpu_utilization_percent),
        "memory_utilization_percent": middle(launches, lambda one: one.readings.memory_utilization_percent),
        "power_draw_w": middle(launches, lambda one: one.readings.power_draw_w),
        "energy_per_sample_j": energy_j,
        "samples_per_sec_per_watt": 1 / energy_j if energy_j else None,
        "temperature_c": middle(launches, lambda one: one.readings.temperature_c),
        "temperature_max_c": largest(launches, lambda one: one.readings.temperature_max_c),
        "sm_clock_drift_percent": max(
            (drift for one in launches if (drift := one.readings.sm_clock_drift_percent) is not None),
            key=abs,
            default=None,
        ),
        "sm_clock_mhz": middle(launches, lambda one: one.readings.sm_clock_mhz),
        "memory_clock_mhz": middle(launches, lambda one: one.readings.memory_clock_mhz),
        "clock_event_reasons": clock_events.words(one.readings.reasons for one in launches),
        "power_capped_percent": _percent(launches, lambda one: one.readings.power_violation),
        "slowdown_percent": _percent(launches, lambda one: one.readings.slowdown),
        "throttled": _throttled(launches),
        "contaminated": device.busy_with is not None or any(one.beside for one in launches),
        "telemetry_note": "a CPU device has no NVML" if device.kind is DeviceKind.CPU else "; ".join(notes),
    }


def _throttled(launches: Launches) -> bool | None:
    """Whether any launch was. None where none is known to have been, and some were not watched."""
    states = [validity.throttled(one.readings) for one in launches]
    if True in states:
        return True
    return None if None in states or not states else False


def _percent(launches: Launches, read: Callable[[LaunchEvidence], float | None]) -> float | None:
    """The largest fraction of any launch, in percent: one that was held down is not made good by two that were not."""
    return max((value * 100 for launch in launches if (value := read(launch)) is not None), default=None)


def _energy_per_sample(launch: LaunchEvidence) -> float | None:
    energy_j, items = launch.readings.energy_j, launch.figures.items
    return energy_j / items if energy_j is not None and items else None


def _statistics(cell: CellFigures | None, launches: Launches) -> Statistics | None:
    """All launches of the cell thrown together, for the eye."""
    iteration = cell.pooled.get("iteration") if cell else None
    if cell is None or iteration is None:
        return None
    return Statistics(
        pooled_launches=cell.launches,
        values=iteration.count,
        values_cover=launches[0].group,
        outliers=iteration.outliers,
        **_shape("forward", cell.pooled.get("forward")),
        **_shape("iteration", iteration),
    )


def _shape(name: str, summary: Summary | None) -> dict[str, float | None]:
    points = ("mean", "std", "min", "max", "p50", "p95", "p99", "p99_9")
    return {f"{name}_time_{point}_ms": getattr(summary, f"{point}_ms") if summary else None for point in points}


def _peak_reserved(memory: Memory) -> int | None:
    return _greater(memory.cold_reserved_bytes, memory.warm_reserved_bytes)


def _greater(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
