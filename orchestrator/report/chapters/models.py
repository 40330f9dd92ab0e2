"""The chapter of models' results on one GPU of each kind: tables by workload and precision, columns by batch size."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.figures import keys
from orchestrator.figures.cells import RESIDENT, Computed, LoadMetrics, Measured, ModelResult
from orchestrator.figures.quality import Quality, quality
from orchestrator.figures.report import Report
from orchestrator.figures.table import FIGURES, Figure, memory_mb
from orchestrator.report.chapters.model_overview import overview
from orchestrator.report.chapters.probes import probes
from orchestrator.report.device_labels import Group, groups, label, labels
from orchestrator.report.numbers import NOT_AVAILABLE, count, interval_percent, number, share, unit
from orchestrator.report.remarks import DOUBTS, remark, summaries
from orchestrator.report.sections import Column, Section, Table
from protocol.cell import CompileMode, Workload

COLUMNS: Final = 3
"""Number of batch sizes side by side: more do not fit into 80 characters with throughputs of six digits."""
LEAST: Final = (16, 11)
"""Smallest width, in characters, of the first column and of the others, from the requirements document."""
_SECONDS: Final = re.compile(r", (and the measurement|this) took [0-9.]+ s")  # "this": of earlier versions
"""Pattern of the part that differs between notes on telemetry with the same reason."""
_MODES: Final = {"solo": "Alone at work on the node", "loaded": "With all devices at work"}
_FORMATS: Final[Mapping[str, Callable[[float | None], str]]] = {
    "relative_half_width": interval_percent,
    "launch_interval_percent": interval_percent,
    "energy_per_token_j": lambda value: unit(None if value is None else value * 1000, "mJ"),
    "temperature_c": lambda value: unit(value, "C", digits=0),
    "sm_clock_mhz": lambda value: unit(value, "MHz", digits=0),
    "samples_per_sec_per_watt": number,
}
"""Formats of figures that are not shown as a number and its unit."""


def models(report: Report) -> Section | None:
    """Return the chapter, with one device of each kind; None if the report has neither results of models nor probes."""
    if not report.results and not report.probes:
        return None
    parts = [part for group in groups(report) for part in _group(report, group)]
    return Section("models", "Model Performance Summary", parts=tuple(parts))


def _group(report: Report, group: Group) -> Iterator[Section]:
    results = [result for result in report.results if result.gpu_uuid == group.shown.gpu_uuid]
    own_probes = [probe for probe in report.probes if probe.gpu_uuid == group.shown.gpu_uuid]
    if len(report.gpu_info) > 1:
        alike = f"Of the same type: {labels(group.others)}. The spread below shows where they differ."
        yield Section("device", f"{label(group.shown)}: {group.shown.gpu_name}", (alike,) if group.others else ())
    modes = dict.fromkeys([*(one.mode for one in own_probes), *(one.mode for one in results)])
    for mode in modes:
        if len(modes) > 1:
            yield Section("mode", f"{_MODES[mode]}:")
        of_mode = [result for result in results if result.mode == mode]
        glance = (probes([probe for probe in own_probes if probe.mode == mode]), overview(of_mode))
        yield from (Section("glance", "", tables=(one,)) for one in glance if one.rows)
        for name in dict.fromkeys(result.model_name for result in of_mode):
            yield _model([result for result in of_mode if result.model_name == name])
    if remarks := tuple(summaries(_with_names(results))):
        of = f" of {label(group.shown)}" if len(report.gpu_info) > 1 else ""
        without = " (those about loading are above)" if any(one.load_metrics for one in results) else ""
        yield Section("remarks", f"{DOUBTS}{of}{without}", remarks)
    if found := reasons(_lacking(results)):
        yield Section(
            "readings", "", (f"Where GPU Utilization or Power Draw is N/A or absent, the reasons are: {found}.",)
        )


def _model(results: Sequence[ModelResult]) -> Section:
    first = results[0]
    kind = first.model_type.upper() if len(first.model_type) <= 3 else first.model_type.capitalize()
    parameters = "" if first.parameters_count is None else f", {count(first.parameters_count)} params"
    loads = [words for one in results if one.load_metrics for words in _load(one, one.load_metrics)]
    tables = (
        table
        for result in results
        for table in (
            *_phase(Workload.INFERENCE, result, result.inference_metrics),
            *_phase(Workload.TRAINING, result, result.training_metrics),
            *_phase(Workload.GENERATION, result, result.generation_metrics),
        )
    )
    return Section("model", f"{first.model_title} ({kind}{parameters})", tuple(loads), tables=tuple(tables))


def _lacking(results: Sequence[ModelResult]) -> Iterator[Measured]:
    """Yield each cell that lacks a reading of utilisation or power, failed cells included, except load cells."""
    for result in results:
        phases = (result.inference_metrics, result.training_metrics, result.generation_metrics)
        for metric in (metric for of_phase in phases for metric in of_phase.values()):
            if metric.gpu_utilization_percent is None or metric.power_draw_w is None:
                yield metric


def reasons(lacking: Iterable[Measured]) -> str:
    """Return why cells lack readings of telemetry, each reason once; "" if unknown. lacking: figures of these cells."""
    notes = [_SECONDS.sub("", metric.telemetry_note) for metric in lacking if metric.telemetry_note]
    return "; ".join(dict.fromkeys(reason for note in notes for reason in note.split("; ")))


def _load(result: ModelResult, metrics: LoadMetrics) -> Iterator[str]:
    if metrics.model_load_time_ms is None:
        status = metrics.status.replace("_", " ")
        yield f"Load ({result.precision}): {': '.join(filter(None, (status, metrics.reason)))}"
        return
    parts = {
        "instantiate": metrics.instantiate_time_ms,
        "weights": metrics.weights_time_ms,
        "to the device": metrics.to_device_time_ms,
    }
    detail = ", ".join(f"{name} {number(value)}" for name, value in parts.items() if value is not None)
    words = remark(metrics, interval=False)
    yield (
        f"Load ({result.precision}): {unit(metrics.model_load_time_ms, 'ms')} ({detail}), "
        f"cold {unit(metrics.cold_load_time_ms, 'ms')}, memory {unit(memory_mb(metrics), 'MB')}"
        + (f". {words}" if words else "")
    )


def _phase(phase: Workload, result: ModelResult, metrics: Mapping[str, Measured]) -> Iterator[Table]:
    batches, title = tuple(metrics.values()), phase.capitalize()
    for begin in range(0, len(batches), COLUMNS):
        columns = batches[begin : begin + COLUMNS]
        if len(columns) == 1:
            header = ["Metric", "Value"]
            caption = f"{title} (batch_size={columns[0].batch_size_requested}, {_shape(result)})"
        else:
            header = ["Metric", *(f"batch {metric.batch_size_requested}" for metric in columns)]
            caption = f"{title} ({_shape(result)})"
        made = tuple(Column(name, number=place > 0, least=LEAST[min(place, 1)]) for place, name in enumerate(header))
        yield Table(caption, made, tuple(_rows(columns, phase)), remarks=tuple(_without_rates(columns)))


def _shape(result: ModelResult) -> str:
    """Return precision, compile mode, sizes and memory format: "bf16, compiled: default, input 224, channels_last"."""
    words = [result.precision]
    if result.compile_mode != CompileMode.EAGER:
        words.append(f"compiled: {result.compile_mode}")
    if result.new_tokens is not None:
        words.append(f"{result.new_tokens} tokens after {result.input_size}")
    elif result.input_size is not None:
        words.append(f"input {result.input_size}")
    if result.memory_format != "contiguous":
        words.append(result.memory_format)
    return ", ".join(words)


def _rows(columns: Sequence[Measured], phase: Workload) -> list[tuple[str, ...]]:
    figures = (figure for figure in FIGURES if figure.title and phase in figure.workloads)
    if phase is Workload.INFERENCE:  # whose iteration is its forward pass
        figures = (figure for figure in figures if figure.field != "total_iteration_time_ms")
    rows = [(figure.title, *(_text(figure, metric) for metric in columns)) for figure in figures]
    known = [row for row in rows if set(row[1:]) != {NOT_AVAILABLE}]
    qualities = [quality(metric.status, metric) for metric in columns]
    if {*qualities} != {Quality.OK}:
        known.append(("Status", *qualities))
    return known


def _text(figure: Figure, metric: Measured) -> str:
    value = figure.number(metric)
    if figure.field == "host_memory_mb" and metric.memory_basis == RESIDENT:
        return NOT_AVAILABLE  # it is the peak memory
    if figure.field in _FORMATS:
        return _FORMATS[figure.field](value)
    return share(value) if figure.unit == "%" else unit(value, figure.unit)


def _with_names(results: Sequence[ModelResult]) -> Iterator[tuple[str, Measured]]:
    """Yield (name, figures) of each cell of one device except model loading, whose remarks _load shows."""
    found = {key: metric for result in results for key, metric in keys.of_model(result) if key.phase != Workload.LOAD}
    names = keys.names(found)
    return ((names[key], metric) for key, metric in found.items())


def _without_rates(columns: Sequence[Measured]) -> Iterator[str]:
    sizes: dict[str, list[str]] = {}
    for metric in columns:
        if words := _without_rate(metric, columns):
            sizes.setdefault(words, []).append(str(metric.batch_size_requested))
    for words, of in sizes.items():
        yield f"batch {', '.join(of)}: {words}"


def _without_rate(metric: Measured, columns: Sequence[Measured]) -> str:
    known = [column.plausibility.achieved_tflops for column in columns if isinstance(column, Computed)]
    if not isinstance(metric, Computed) or metric.plausibility.achieved_tflops is not None or {*known} == {None}:
        return ""
    reason = metric.plausibility.note.partition("; ")[0]
    return f"Achieved is not known: {reason}" if reason else ""
