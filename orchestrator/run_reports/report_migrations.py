"""Migrate reports of earlier schema versions, one step for each version. Pure: on decoded JSON that is not checked yet.

Values that a version did not record become null, empty or a default, or follow from others. Versions 2, 3 and 6 also
rename or move keys, and version 6 changes texts.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from orchestrator.figures.table import main_figure
from protocol.cell import JAX, CompileMode, MemoryFormat, Mode, Workload

Json = dict[str, Any]

_MEASURED: Final = (
    *("steady_state", "stop_reason", "warm_up_iterations", "first_iteration_ms", "second_iteration_ms", "iterations"),
    *("measured_seconds", "relative_half_width", "launch_spread_percent", "drift_percent", "drifting", "launch_bound"),
    *("peak_memory_mb", "peak_memory_reserved_mb", "cold_memory_allocated_mb", "cold_memory_reserved_mb"),
    *("warm_memory_allocated_mb", "warm_memory_reserved_mb", "memory_basis", "gpu_memory_used_mb"),
    *("gpu_utilization_percent", "memory_utilization_percent", "power_draw_w", "energy_per_sample_j"),
    *("samples_per_sec_per_watt", "temperature_c", "temperature_max_c", "sm_clock_mhz", "sm_clock_drift_percent"),
    *("memory_clock_mhz", "power_capped_percent", "slowdown_percent", "throttled"),
)
"""Names of the figures that every measurement has since version 2."""
_PLAUSIBILITY: Final = ("achieved_tflops", "gemm_tflops", "gemm_percent", "least_iteration_ms")
_RENAMED: Final = (
    ((), "left_out", "excluded"),
    (("gpu_info", "*"), "taken_out", "quarantined"),
    (("metadata", "segments", "*"), "stood_still_seconds", "suspended_seconds"),
    (("burn_in", "gpus", "*"), "asked_seconds", "requested_seconds"),
    (("burn_in", "gpus", "*", "heat_soak"), "left_out_seconds", "excluded_seconds"),
)
"""Keys renamed in version 6: (path of the objects, old key, new key). "*" in a path: see _parts."""
_REWORDED: Final = {
    "cannot be told": "inconclusive",
    "it had taken as long as it may": "its time limit was reached",
    "keep an eye on it": "watch for a repeat",
}
"""Texts changed in version 6: old text → new text."""
_WITH_ACTION: Final[tuple[tuple[str, ...], ...]] = (
    ("burn_in", "gpus", "*"),
    ("burn_in", "gpus", "*", "reasons", "*"),
    ("health", "gpus", "*"),
    ("health", "gpus", "*", "signals", "*"),
    ("health", "node"),
    ("health", "node", "signals", "*"),
)
_PHASES: Final = {
    "inference_metrics": Workload.INFERENCE,
    "training_metrics": Workload.TRAINING,
    "generation_metrics": Workload.GENERATION,
}


def migrated(document: Json, version: int) -> Json:
    """Change a report (decoded JSON) in place to the newest schema version, and return it. version: its present one."""
    for number in range(version, max(STEPS) + 1):
        STEPS[number](document)
        document["schema_version"] = number + 1
    return document


def _to_2(document: Json) -> None:
    missing = "schema version 1 did not record it"
    _add(document, probes=[], batch_scans=[], left_out=[])
    for gpu in _parts(document, "gpu_info", "*"):
        _add(gpu, busy_with=None, taken_out=None)
    _count_launches(document)
    for configuration in _parts(document, "test_configuration"):
        _add(configuration, generation_batch_sizes=[], sequence_lengths=[], input_sizes=[], memory_format=None)
        _add(configuration, preset=None, time_limit_seconds=None)
    for counts in _parts(document, "summary", "cells"):
        _add(counts, dropped=0, throttled=0)
    for cell in _parts(document, "cells", "*"):
        _add(cell, input_size=None, memory_format=MemoryFormat.CONTIGUOUS, new_tokens=None)
    for spread in _parts(document, "cross_gpu", "*"):
        _add(spread, memory_format=MemoryFormat.CONTIGUOUS, new_tokens=None)
    for result in _parts(document, "results", "*"):
        _add(result, memory_format=MemoryFormat.CONTIGUOUS, new_tokens=None, generation_metrics={})
        for load in _parts(result, "load_metrics"):
            _add(load, cold_load_time_ms=None, telemetry_note=missing)
        for name in ("inference_metrics", "training_metrics"):
            for metric in _parts(result, name, "*"):
                metric["warm_memory_allocated_mb"] = metric.pop("steady_memory_mb", None)
                _add(metric, inference_latency_ms=None, inference_latency_values=None)
                _add(metric, plausibility=dict.fromkeys(_PLAUSIBILITY) | {"flags": [], "note": missing})
        for metric, _ in _measured(result):
            _add(metric, clock_event_reasons=[], contaminated=False, **dict.fromkeys(_MEASURED))
        for part in (result, *(metric for metric, _ in _measured(result))):
            for statistics in _parts(part, "statistics"):
                _add(statistics, forward_time_p99_9_ms=None, iteration_time_p99_9_ms=None)


def _count_launches(document: Json) -> None:
    segments = list(_parts(document, "metadata", "segments", "*"))
    if len(segments) == 1:
        attempts = (cell.get("attempts") for cell in _parts(document, "cells", "*"))
        _add(segments[0], launches=sum(number for number in attempts if isinstance(number, int)))


def _to_3(document: Json) -> None:
    note = document.pop("health_note", "")
    unjudged = {"verdict": "NOT APPLICABLE", "action": "", "applicable": 0, "readable": 0, "signals": []}
    unwatched = {"note": note, "lacking": [], "looks": 0, "watched_seconds": 0.0, "xids": []}
    gpus = [
        {"gpu_uuid": gpu.get("gpu_uuid"), "gpu_id": gpu.get("gpu_id"), **unjudged, **unwatched}
        for gpu in _parts(document, "gpu_info", "*")
    ]
    document["health"] = {"level": "benchmark", "verdict": "NOT APPLICABLE", "gpus": gpus, "node": unjudged}


def _to_4(document: Json) -> None:
    _add(document, thresholds=[], costs=[], burn_in=None)
    for metadata in _parts(document, "metadata"):
        _add(metadata, running=False, settings=[])
    for configuration in _parts(document, "test_configuration"):
        _add(configuration, required_signals=[])
    for gpu in _parts(document, "gpu_info", "*"):
        _add(gpu, slice_of=None, slice_index=None, shared_gpu=False)
    for burn_in in _parts(document, "burn_in"):
        _add(burn_in, links=[])
        for gpu in _parts(burn_in, "gpus", "*"):
            _add(gpu, heat_soak=None, paces=[])
    types = {str(result.get("model_name")): result.get("model_type") for result in _parts(document, "results", "*")}
    for scan in _parts(document, "batch_scans", "*"):
        _add(scan, model_type=types.get(str(scan.get("model_name")), "other"))
        for point in _parts(scan, "points", "*"):
            _add(point, launches=int(point.get("works") is True), steady_state=None, stop_reason=None)
            _add(point, relative_half_width=None, drift_percent=None, drifting=None)
    for part in (*_parts(document, "results", "*"), *_parts(document, "probes", "*")):
        for metric, workload in _measured(part):
            _add(metric, launch_values=_median_as_launch(metric, workload))
            for ledger in _parts(metric, "ledger"):
                _add(ledger, count_ms=0.0, record_ms=None)  # included in the other time of a launch before


def _median_as_launch(metric: Json, workload: Workload) -> list[Any]:
    """Return [the main figure's median over launches], or [] without one. Old reports lack figures of each launch."""
    value = metric.get(main_figure(workload, str(metric.get("model_name"))).field)
    return [] if value is None else [value]


def _to_5(document: Json) -> None:
    _add(document, stragglers=[], full_node=[])
    for burn_in in _parts(document, "burn_in"):
        _add(burn_in, injected=[])
        for gpu in _parts(burn_in, "gpus", "*"):
            for check in _parts(gpu, "checks", "*"):
                _add(check, error_bound_per_hour=None)
            for pace in _parts(gpu, "paces", "*"):
                _add(pace, courses=[])


def _to_6(document: Json) -> None:
    for path, old, new in _RENAMED:
        for part in _parts(document, *path):
            if old in part:
                part[new] = part.pop(old)
    for gpu in _parts(document, "burn_in", "gpus", "*"):
        for pace in _parts(gpu, "paces", "*"):
            pace["pace"] = _REWORDED.get(str(pace.get("pace")), pace.get("pace"))
        for soak in _parts(gpu, "heat_soak"):
            if isinstance(endings := soak.get("ended_because"), list):
                soak["ended_because"] = [_REWORDED.get(str(ending), ending) for ending in endings]
    for owner in _WITH_ACTION:
        for part in _parts(document, *owner):
            part["action"] = _REWORDED.get(str(part.get("action")), part.get("action"))
    for row in _parts(document, "study", "rows", "*"):
        named = str(row.get("implementation"))
        compiled = CompileMode.DEFAULT if named.endswith("compiled") else CompileMode.EAGER
        _add(row, cell="", mode=Mode.LOADED, compile_mode=JAX if named == JAX else compiled)


STEPS: Final[Mapping[int, Callable[[Json], None]]] = {1: _to_2, 2: _to_3, 3: _to_4, 4: _to_5, 5: _to_6}


def _measured(part: Json) -> Iterator[tuple[Json, Workload]]:
    if "load_metrics" not in part:
        yield part, Workload.PROBE
        return
    yield from ((metric, Workload.LOAD) for metric in _parts(part, "load_metrics"))
    for name, workload in _PHASES.items():
        yield from ((metric, workload) for metric in _parts(part, name, "*"))


def _parts(value: object, *path: str) -> Iterator[Json]:
    """Yield the objects in `value` at a path of keys. "*" means each item of a list, or each value of an object."""
    if not path:
        if isinstance(value, dict):
            yield value
        return
    first, *rest = path
    if first == "*":
        within = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        for item in within:
            yield from _parts(item, *rest)
    elif isinstance(value, dict):
        yield from _parts(value.get(first), *rest)


def _add(part: Json, **values: Any) -> None:  # noqa: ANN401 - values of decoded JSON
    for name, value in values.items():
        part.setdefault(name, value)
