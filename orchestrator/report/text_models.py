"""The models of one GPU as text: a table for each phase, precision and input size, a column for each batch size."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.figures.cells import Computed, LoadMetrics, Measured, ModelResult
from orchestrator.report import layout
from orchestrator.report.lines import memory_mb
from orchestrator.report.numbers import NOT_AVAILABLE, count, number, unit
from orchestrator.report.text_remarks import remark
from orchestrator.report.text_rows import GENERATION, INFERENCE, SHARED, TRAINING, M, Row

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
        parameters = "" if first.parameters_count is None else f", {count(first.parameters_count)} params"
        yield from layout.wrap(f"{first.model_title} ({kind}{parameters})")
        for result in of_model:
            if result.load_metrics:
                yield from _load(result, result.load_metrics)
            yield from _phase("Inference", result, result.inference_metrics, INFERENCE)
            yield from _phase("Training", result, result.training_metrics, TRAINING)
            yield from _phase("Generation", result, result.generation_metrics, GENERATION)
        yield ""


def without_readings(results: Sequence[ModelResult]) -> Iterator[str]:
    """Why tables of a device lack readings, once for all of them: the notes of cells differ in little but seconds."""
    cells: list[Measured] = []
    for result in results:
        cells += [*result.inference_metrics.values(), *result.training_metrics.values()]
        cells += result.generation_metrics.values()
    lacking = [metric for metric in cells if metric.gpu_utilization_percent is None or metric.power_draw_w is None]
    if found := reasons(lacking):
        yield from layout.wrap(f"Where GPU Utilization or Power Draw is not given: {found}.")
        yield ""


def reasons(lacking: Iterable[Measured]) -> str:
    """Why these have no readings, each reason once; empty where nobody said why."""
    notes = [_SECONDS.sub("", metric.telemetry_note) for metric in lacking if metric.telemetry_note]
    return "; ".join(dict.fromkeys(reason for note in notes for reason in note.split("; ")))


def _load(result: ModelResult, metrics: LoadMetrics) -> Iterator[str]:
    if metrics.model_load_time_ms is None:
        status = metrics.status.replace("_", " ")
        words = f"{status}: {metrics.reason}" if metrics.reason else status
        yield from layout.wrap(f"Load ({result.precision}): {words}", "  ", "  ")
        return
    parts = {
        "instantiate": metrics.instantiate_time_ms,
        "weights": metrics.weights_time_ms,
        "to the device": metrics.to_device_time_ms,
    }
    detail = ", ".join(f"{name} {number(value)}" for name, value in parts.items() if value is not None)
    yield from layout.wrap(
        f"Load ({result.precision}): {unit(metrics.model_load_time_ms, 'ms')} ({detail}), "
        f"cold {unit(metrics.cold_load_time_ms, 'ms')}, memory {unit(memory_mb(metrics), 'MB')}",
        "  ",
        "  ",
    )
    if words := remark(metrics, interval=False):
        yield from layout.wrap(words, "    ", "  ")


def _phase(title: str, result: ModelResult, metrics: Mapping[str, M], own: Sequence[Row[M]]) -> Iterator[str]:
    batches = tuple(metrics.values())
    for begin in range(0, len(batches), COLUMNS):
        columns = batches[begin : begin + COLUMNS]
        if len(columns) == 1:
            header: tuple[str, ...] = ("Metric", "Value")
            yield f"  {title} (batch_size={columns[0].batch_size_requested}, {_shape(result)}):"
        else:
            header = ("Metric", *(f"batch {metric.batch_size_requested}" for metric in columns))
            yield f"  {title} ({_shape(result)}):"
        yield from layout.table(header, _rows(columns, own), "    ", layout.LEAST)
        yield from _remarks(columns)


def _shape(result: ModelResult) -> str:
    """Precision, sizes, and how images lie in memory where that is not torch's default."""
    words = [result.precision]
    if result.new_tokens is not None:
        words.append(f"{result.new_tokens} tokens after {result.input_size}")
    elif result.input_size is not None:
        words.append(f"input {result.input_size}")
    if result.memory_format != "contiguous":
        words.append(result.memory_format)
    return ", ".join(words)


def _rows(columns: Sequence[M], own: Sequence[Row[M]]) -> list[tuple[str, ...]]:
    """The rows of a table. Those in which no column has a value are left out: the lines below it say why."""
    rows = [(words, *(say(metric) for metric in columns)) for words, say in (*own, *SHARED)]
    known = [row for row in rows if set(row[1:]) != {NOT_AVAILABLE}]
    if any(metric.status != "ok" for metric in columns):
        known.append(("Status", *(metric.status.replace("_", " ") for metric in columns)))
    return known


def _remarks(columns: Sequence[Measured]) -> Iterator[str]:
    """What is to be said of the columns, once for those of which the same is said."""
    sizes: dict[str, list[str]] = {}
    for metric in columns:
        if words := "; ".join(filter(None, (remark(metric), _without_rate(metric, columns)))):
            sizes.setdefault(words, []).append(str(metric.batch_size_requested))
    for words, of in sizes.items():
        yield from layout.wrap(f"batch {', '.join(of)}: {words}", "    ", "  ")


def _without_rate(metric: Measured, columns: Sequence[Measured]) -> str:
    """Why its operations were not counted, where they were of another column; where of none, there is no such row."""
    known = [one.plausibility.achieved_tflops for one in columns if isinstance(one, Computed)]
    if not isinstance(metric, Computed) or metric.plausibility.achieved_tflops is not None or {*known} == {None}:
        return ""
    reason = metric.plausibility.note.partition("; ")[0]
    return f"Achieved is not known: {reason}" if reason else ""
