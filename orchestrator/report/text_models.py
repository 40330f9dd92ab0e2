"""The models of one GPU as text: a table for each phase and precision, a column for each batch size."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orchestrator.report import layout
from orchestrator.report.cells import LoadMetrics, ModelResult, PhaseMetrics
from orchestrator.report.numbers import NOT_AVAILABLE, count, number, share, unit
from protocol.intervals import BATCHES

COLUMNS: Final = 3
"""Batch sizes side by side: more do not fit into 80 columns with throughputs of six digits."""
_SECONDS: Final = re.compile(r", this took [0-9.]+ s")
"""What differs from note to note for the same reason."""


def models(results: Sequence[ModelResult]) -> Iterator[str]:
    """The results of one GPU, model by model."""
    for name in dict.fromkeys(result.model_name for result in results):
        of_model = [result for result in results if result.model_name == name]
        first = of_model[0]
        kind = first.model_type.upper() if len(first.model_type) <= 3 else first.model_type.capitalize()
        yield from layout.wrap(f"{first.model_title} ({kind}, {count(first.parameters_count)} params)")
        for result in of_model:
            if result.load_metrics:
                yield from _load(result, result.load_metrics)
            yield from _phase("Inference", result, result.inference_metrics)
            yield from _phase("Training", result, result.training_metrics)
        yield ""


def _load(result: ModelResult, metrics: LoadMetrics) -> Iterator[str]:
    if metrics.model_load_time_ms is None:
        yield from layout.wrap(f"Load ({result.precision}): {_words(metrics)}", "  ", "  ")
        return
    parts = {
        "instantiate": metrics.instantiate_time_ms,
        "weights": metrics.weights_time_ms,
        "to the device": metrics.to_device_time_ms,
    }
    detail = ", ".join(f"{name} {number(value)}" for name, value in parts.items() if value is not None)
    yield from layout.wrap(
        f"Load ({result.precision}): {unit(metrics.model_load_time_ms, 'ms')} ({detail}), "
        f"{unit(metrics.memory_allocated_mb, 'MB')}",
        "  ",
        "  ",
    )


def _phase(title: str, result: ModelResult, metrics: Mapping[str, PhaseMetrics]) -> Iterator[str]:
    size = "" if result.input_size is None else f", input {result.input_size}"
    batches = tuple(metrics.values())
    for begin in range(0, len(batches), COLUMNS):
        columns = batches[begin : begin + COLUMNS]
        if len(columns) == 1:
            header: tuple[str, ...] = ("Metric", "Value")
            yield f"  {title} (batch_size={columns[0].batch_size_requested}, {result.precision}{size}):"
        else:
            header = ("Metric", *(f"batch {metric.batch_size_requested}" for metric in columns))
            yield f"  {title} ({result.precision}{size}):"
        yield from layout.table(header, _rows(columns, training=title == "Training"), "    ", layout.LEAST)
        yield from _remarks(columns)


def _rows(columns: Sequence[PhaseMetrics], *, training: bool) -> list[tuple[str, ...]]:
    """The rows of a table. Those in which no column has a value are left out: the lines below it say why."""
    rows = [("Forward Time", *(unit(metric.forward_time_ms, "ms") for metric in columns))]
    if training:
        rows += [
            ("Backward Time", *(unit(metric.backward_time_ms, "ms") for metric in columns)),
            ("Optimize Step", *(unit(metric.optimize_step_time_ms, "ms") for metric in columns)),
            ("Total Iteration", *(unit(metric.total_iteration_time_ms, "ms") for metric in columns)),
        ]
    rows += [
        ("Throughput", *(unit(metric.throughput_samples_per_sec, "smp/s") for metric in columns)),
        ("95% Interval", *(_interval(metric) for metric in columns)),
        ("Launch Spread", *(share(metric.launch_spread_percent) for metric in columns)),
        ("Peak Memory", *(unit(metric.peak_memory_mb, "MB") for metric in columns)),
        ("GPU Utilization", *(share(metric.gpu_utilization_percent) for metric in columns)),
        ("Power Draw", *(unit(metric.power_draw_w, "W") for metric in columns)),
    ]
    known = [row for row in rows if set(row[1:]) != {NOT_AVAILABLE}]
    if any(metric.status != "ok" for metric in columns):
        known.append(("Status", *(metric.status.replace("_", " ") for metric in columns)))
    return known


def _interval(metric: PhaseMetrics) -> str:
    half_width = metric.relative_half_width
    return share(None) if half_width is None else f"+/- {half_width * 100:.2f}%"


def _remarks(columns: Sequence[PhaseMetrics]) -> Iterator[str]:
    """What is to be said of the columns, once for those of which the same is said."""
    sizes: dict[str, list[str]] = {}
    for metric in columns:
        if remark := _remark(metric):
            sizes.setdefault(remark, []).append(str(metric.batch_size_requested))
    for remark, of in sizes.items():
        yield from layout.wrap(f"batch {', '.join(of)}: {remark}", "    ", "  ")


def _remark(metric: PhaseMetrics) -> str:
    """What to know before believing a column, in words; empty where nothing is to be said."""
    remarks = [metric.reason] if metric.reason else []
    if 0 < metric.launches < metric.launches_planned:
        remarks.append(f"{metric.launches} of {metric.launches_planned} launches")
    if metric.steady_state == "none":
        remarks.append("not steady after warm-up")
    if metric.launches and metric.relative_half_width is None:
        remarks.append(f"fewer than {BATCHES} values: no interval")
    if metric.drifting and metric.drift_percent is not None:
        remarks.append(f"drifting by {metric.drift_percent:+.1f}%")
    if metric.launch_bound:
        remarks.append("launch-bound: the GPU waits for the host")
    if metric.contaminated:
        remarks.append("contaminated by another process on the GPU")
    if metric.throttled:
        remarks.append("throttled for temperature")
    return "; ".join(remarks)


def _words(metrics: LoadMetrics) -> str:
    status = metrics.status.replace("_", " ")
    return f"{status}: {metrics.reason}" if metrics.reason else status


def without_readings(results: Sequence[ModelResult]) -> Iterator[str]:
    """Why tables of a device lack readings, once for all of them: the notes of cells differ in little but seconds."""
    cells = [
        metric
        for result in results
        for metric in (*result.inference_metrics.values(), *result.training_metrics.values())
        if metric.gpu_utilization_percent is None or metric.power_draw_w is None
    ]
    reasons = dict.fromkeys(_SECONDS.sub("", metric.telemetry_note) for metric in cells if metric.telemetry_note)
    if reasons:
        yield from layout.wrap(f"Where GPU Utilization or Power Draw is not given: {'; '.join(reasons)}.")
        yield ""
