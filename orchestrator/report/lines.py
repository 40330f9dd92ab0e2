"""Every planned cell (a model in one configuration on one device) with its result, for formats with a row for each."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from orchestrator.figures import keys
from orchestrator.figures.cells import GenerationMetrics, Measured, ModelResult, PhaseMetrics, ProbeMetrics
from orchestrator.figures.parts import Statistics
from orchestrator.figures.quality import Quality, quality
from orchestrator.figures.report import CellEntry, GpuInfo, Report
from orchestrator.figures.table import BY_FIELD, Figure, main_figure
from protocol.cell import CompileMode, Workload

_TIMES: Final = tuple(
    BY_FIELD[field]
    for field in ("model_load_time_ms", "generation_time_ms", "total_iteration_time_ms", "forward_time_ms")
)


def precision_and_mode(precision: str, compile_mode: str) -> str:
    """Return the precision, with the compile mode unless that is eager: "bf16", "bf16 reduce-overhead"."""
    return precision if compile_mode == CompileMode.EAGER else f"{precision} {compile_mode}"


class Line(NamedTuple):
    """A planned cell. metric: its entry with figures, also if it failed. result: entry of its model, None for a probe.

    Both are None for a check, an operator, or a batch size scan that found nothing.
    """

    entry: CellEntry
    gpu: GpuInfo
    metric: Measured | None
    result: ModelResult | None

    @property
    def mode(self) -> str | None:
        """Mode of the cell: "solo" if other GPUs were idle, "loaded" if all worked; None without `metric`."""
        if self.result is not None:
            return self.result.mode
        return self.metric.mode if isinstance(self.metric, ProbeMetrics) else None

    @property
    def cell(self) -> tuple[object, ...]:
        """Key of the cell without its device: equal for the same cell on several devices."""
        one = self.entry
        which = (one.model_name, one.workload, one.precision, self.mode, one.batch_size_requested)
        compiled = CompileMode.EAGER if self.result is None else self.result.compile_mode
        size = one.input_size if one.input_size is not None or self.result is None else self.result.input_size
        memory_format = None if one.workload == Workload.PROBE else one.memory_format or None
        return (*which, size, memory_format, one.new_tokens, compiled)

    @property
    def format(self) -> str:
        """Precision of the cell, with its compile mode unless that is eager."""
        return precision_and_mode(self.entry.precision, self.entry.compile_mode)

    @property
    def quality(self) -> Quality:
        """The quality of the cell's result: ok, why it is doubtful, or why there is none."""
        wrong = self.entry.quality is Quality.WRONG  # of an operator, which has no metric
        return Quality.WRONG if wrong else quality(self.entry.status, self.metric)

    @property
    def figure(self) -> Figure | None:
        """The main figure of the cell, such as throughput, also if it failed; None without `metric`."""
        return None if self.metric is None else main_figure(Workload(self.entry.workload), self.entry.model_name)

    @property
    def value(self) -> float | None:
        """The value of the main figure, in the unit of `figure`; None if unknown."""
        return None if self.metric is None or self.figure is None else self.figure.number(self.metric)


def time_ms(metric: Measured) -> float | None:
    """Return the time of one iteration in milliseconds; None if unknown.

    An iteration is a load of the weights, a forward pass, a training step, a generated batch of texts, or one operation
    of a probe.
    """
    return next((value for time in _TIMES if (value := time.number(metric)) is not None), None)


def per_joule(metric: Measured) -> float | None:
    """Return samples per joule (of generation: generated tokens per joule); None if the energy is unknown."""
    energy_j = metric.energy_per_token_j if isinstance(metric, GenerationMetrics) else metric.energy_per_sample_j
    return 1 / energy_j if energy_j else None


def percentiles_ms(metric: Measured) -> tuple[float | None, float | None, float | None]:
    """Return (p50, p95, p99) of an iteration time in ms; each None if unknown or for other workloads.

    The time is the latency for inference, the step for training, and the time between tokens for generation. The
    times of all launches are pooled.
    """
    match metric:
        case PhaseMetrics() if metric.inference_latency_p50_ms is not None:
            return (
                metric.inference_latency_p50_ms,
                metric.inference_latency_p95_ms,
                metric.inference_latency_p99_ms,
            )
        case GenerationMetrics():
            return metric.inter_token_p50_ms, metric.inter_token_p95_ms, metric.inter_token_p99_ms
        case PhaseMetrics(statistics=Statistics() as shape) if metric.backward_time_ms is not None:
            return shape.iteration_time_p50_ms, shape.iteration_time_p95_ms, shape.iteration_time_p99_ms
        case _:
            return None, None, None


def lines(report: Report) -> Iterator[Line]:
    """Yield all planned cells of a report with their results, in the order of the plan."""
    gpus = {gpu.gpu_uuid: gpu for gpu in report.gpu_info}
    found: dict[str, tuple[Measured, ModelResult | None]] = {
        metric.cell: (metric, result) for result in report.results for _, metric in keys.of_model(result)
    }
    found |= {probe.cell: (probe, None) for probe in report.probes}
    for entry in report.cells:
        metric, result = found.get(entry.cell, (None, None))
        yield Line(entry, gpus[entry.gpu_uuid], metric, result)
