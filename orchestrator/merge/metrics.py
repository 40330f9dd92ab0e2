"""The figures of one cell as the report writes them: names and units of the requirements, None for what is unknown."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from orchestrator.evidence import LaunchEvidence
from orchestrator.records import Left
from orchestrator.report.cells import LaunchLedger, Statistics
from orchestrator.stats.launch import CellFigures
from orchestrator.stats.series import Summary
from protocol.cell import Device, DeviceKind
from protocol.result import Ledger, Memory, SteadyState

MIB: Final = 1024 * 1024

THROTTLED_SHARE: Final = 0.01
"""Share of the measured time under thermal slowdown from which a result is not to be believed (docs/method.md)."""

CLOCK_EVENT_REASONS: Final = {
    0x001: "idle",
    0x002: "application clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
}
"""NVML's bits, in its own words."""

Fields = dict[str, object]


def mb(size: int | None) -> float | None:
    """Bytes as mebibytes."""
    return None if size is None else size / MIB


def load(cell: CellFigures | None, launches: Sequence[LaunchEvidence]) -> Fields:
    """The fields of LoadMetrics that were measured."""
    means = cell.means_ms if cell else {}
    return {
        "model_load_time_ms": means.get("iteration"),
        "instantiate_time_ms": means.get("instantiate"),
        "weights_time_ms": means.get("weights"),
        "to_device_time_ms": means.get("to_device"),
        "memory_allocated_mb": mb(_largest(launches, lambda one: _model_bytes(one.memory))),
        "statistics": statistics(cell, launches),
    }


def phase(cell: CellFigures | None, launches: Sequence[LaunchEvidence], device: Device) -> Fields:
    """The fields of PhaseMetrics that were measured."""
    means = cell.means_ms if cell else {}
    return {
        "forward_time_ms": means.get("forward"),
        "backward_time_ms": means.get("backward"),
        "optimize_step_time_ms": means.get("optimizer"),
        "total_iteration_time_ms": means.get("iteration"),
        "throughput_samples_per_sec": cell.throughput if cell else None,
        "iterations": cell.iterations if cell else None,
        "relative_half_width": cell.relative_half_width if cell else None,
        "launch_spread_percent": cell.launch_spread_percent if cell else None,
        "drift_percent": cell.drift_percent if cell else None,
        "drifting": cell.drifting if cell else None,
        "launch_bound": _any(launches, lambda one: one.launch_bound),
        "loss": launches[0].loss if launches else None,
        "statistics": statistics(cell, launches),
        **_memory(launches, device),
        **_warm_up(launches),
        **_telemetry(launches, device),
    }


def _memory(launches: Sequence[LaunchEvidence], device: Device) -> Fields:
    if device.kind is DeviceKind.CPU:
        resident = mb(_largest(launches, lambda one: one.memory.resident_bytes))
        return {
            "peak_memory_mb": resident,
            "peak_memory_reserved_mb": None,
            "steady_memory_mb": None,
            "memory_basis": "resident set" if launches else None,
        }
    return {
        "peak_memory_mb": mb(_largest(launches, lambda one: _peak(one.memory))),
        "peak_memory_reserved_mb": mb(_largest(launches, lambda one: _peak_reserved(one.memory))),
        "steady_memory_mb": mb(_largest(launches, lambda one: one.memory.warm_allocated_bytes)),
        "memory_basis": "allocated" if launches else None,
    }


def _warm_up(launches: Sequence[LaunchEvidence]) -> Fields:
    states = [launch.warm_up.steady_state for launch in launches]
    worst = SteadyState.NONE if SteadyState.NONE in states else next(iter(states), None)
    return {
        "steady_state": worst,
        "stop_reason": ", ".join(dict.fromkeys(launch.stop_reason for launch in launches)) or None,
        "warm_up_iterations": sum(launch.warm_up.iterations for launch in launches) if launches else None,
        "first_iteration_ms": _middle(launches, lambda one: one.warm_up.first_iteration_ms),
        "second_iteration_ms": _middle(launches, lambda one: one.warm_up.second_iteration_ms),
    }


def _telemetry(launches: Sequence[LaunchEvidence], device: Device) -> Fields:
    shares = [one.readings.thermal_violation for one in launches if one.readings.thermal_violation is not None]
    notes = dict.fromkeys(one.readings.note for one in launches if one.readings.note)
    return {
        "gpu_utilization_percent": _middle(launches, lambda one: one.readings.gpu_utilization_percent),
        "memory_utilization_percent": _middle(launches, lambda one: one.readings.memory_utilization_percent),
        "power_draw_w": _middle(launches, lambda one: one.readings.power_draw_w),
        "energy_per_sample_j": _middle(launches, _energy_per_sample),
        "temperature_c": _middle(launches, lambda one: one.readings.temperature_c),
        "temperature_max_c": max(
            (one.readings.temperature_max_c for one in launches if one.readings.temperature_max_c is not None),
            default=None,
        ),
        "sm_clock_mhz": _middle(launches, lambda one: one.readings.sm_clock_mhz),
        "clock_event_reasons": reason_words([one.readings.reasons for one in launches]),
        "contaminated": device.busy_with is not None,
        "throttled": max(shares) > THROTTLED_SHARE if shares else None,
        "telemetry_note": "a CPU device has no NVML" if device.kind is DeviceKind.CPU else "; ".join(notes),
    }


def statistics(cell: CellFigures | None, launches: Sequence[LaunchEvidence]) -> Statistics | None:
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


def ledger(launches: Sequence[tuple[Ledger, Left | None]]) -> LaunchLedger | None:
    """Medians of what the launches spent, None where there is none. A launch that nobody saw leave has no teardown."""
    if not launches:
        return None
    entries = {name: median(getattr(spent, name) for spent, _ in launches) for name in Ledger.__struct_fields__}
    teardowns = [left.teardown_ms for _, left in launches if left is not None]
    return LaunchLedger(
        **entries,
        teardown_ms=median(teardowns) if teardowns else None,
        overhead_ms=median(overhead_ms(spent, left) for spent, left in launches),
    )


def overhead_ms(spent: Ledger, left: Left | None) -> float:
    """What a launch cost beyond loading, warm-up and measuring, as far as it was seen."""
    seen = spent.start_ms + spent.import_ms + spent.context_ms + spent.build_ms
    return seen + (left.teardown_ms if left else 0.0)


def reason_words(masks: Sequence[int | None]) -> tuple[str, ...]:
    """The clock event reasons that were seen in any of the masks; a bit without a name is given as a number."""
    seen = 0
    for mask in masks:
        seen |= mask or 0
    named = tuple(words for bit, words in CLOCK_EVENT_REASONS.items() if seen & bit)
    rest = seen & ~sum(CLOCK_EVENT_REASONS)
    return (*named, f"unknown ({rest:#x})") if rest else named


def _shape(name: str, summary: Summary | None) -> dict[str, float | None]:
    points = ("mean", "std", "min", "max", "p50", "p95", "p99")
    return {f"{name}_time_{point}_ms": getattr(summary, f"{point}_ms") if summary else None for point in points}


def _peak(memory: Memory) -> int | None:
    return _greater(memory.cold_allocated_bytes, memory.warm_allocated_bytes)


def _peak_reserved(memory: Memory) -> int | None:
    return _greater(memory.cold_reserved_bytes, memory.warm_reserved_bytes)


def _greater(one: int | None, other: int | None) -> int | None:
    return max((size for size in (one, other) if size is not None), default=None)


def _model_bytes(memory: Memory) -> int:
    """What the allocator holds for the model; on a CPU device, where it does not say, parameters and buffers."""
    peak = _peak(memory)
    return memory.model_bytes if peak is None else peak


def _energy_per_sample(launch: LaunchEvidence) -> float | None:
    energy_j, items = launch.readings.energy_j, launch.figures.items
    return energy_j / items if energy_j is not None and items else None


def _middle(launches: Sequence[LaunchEvidence], read: Callable[[LaunchEvidence], float | None]) -> float | None:
    known = [value for launch in launches if (value := read(launch)) is not None]
    return median(known) if known else None


def _largest(launches: Sequence[LaunchEvidence], read: Callable[[LaunchEvidence], int | None]) -> int | None:
    return max((value for launch in launches if (value := read(launch)) is not None), default=None)


def _any(launches: Sequence[LaunchEvidence], read: Callable[[LaunchEvidence], bool | None]) -> bool | None:
    known = [value for launch in launches if (value := read(launch)) is not None]
    return any(known) if known else None
