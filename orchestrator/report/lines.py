"""Every planned cell of a report with its figures, for formats with a row for each cell."""

from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.figures import keys
from orchestrator.figures.cells import GenerationMetrics, LoadMetrics, Measured, ModelResult, PhaseMetrics, ProbeMetrics
from orchestrator.figures.report import CellEntry, GpuInfo, Report
from orchestrator.figures.table import Figure, main_figure
from protocol.cell import Workload


class Line(NamedTuple):
    """A planned cell. metric: None without a measurement (a burn-in check). result: None for a probe."""

    entry: CellEntry
    gpu: GpuInfo
    metric: Measured | None
    result: ModelResult | None

    @property
    def mode(self) -> str | None:
        """Solo or loaded; None without figures."""
        if self.result is not None:
            return self.result.mode
        return self.metric.mode if isinstance(self.metric, ProbeMetrics) else None

    @property
    def figure(self) -> Figure | None:
        """The main figure of the cell; None for a check."""
        return None if self.metric is None else main_figure(Workload(self.entry.workload), self.entry.model_name)

    @property
    def value(self) -> float | None:
        """The value of the main figure."""
        return None if self.metric is None or self.figure is None else self.figure.number(self.metric)


def time_ms(metric: Measured) -> float | None:
    """The typical time: of a pass, a step, a text, a load, or a probe's iteration."""
    match metric:
        case LoadMetrics():
            return metric.model_load_time_ms
        case PhaseMetrics():
            return metric.forward_time_ms if metric.total_iteration_time_ms is None else metric.total_iteration_time_ms
        case GenerationMetrics():
            return metric.generation_time_ms
        case ProbeMetrics():
            return metric.total_iteration_time_ms
        case _:
            return None


def memory_mb(metric: Measured) -> float | None:
    """The peak memory; of a load the memory of the model."""
    return metric.memory_allocated_mb if isinstance(metric, LoadMetrics) else metric.peak_memory_mb


def lines(report: Report) -> Iterator[Line]:
    """All planned cells, in the order of the plan."""
    gpus = {gpu.gpu_uuid: gpu for gpu in report.gpu_info}
    found: dict[str, tuple[Measured, ModelResult | None]] = {
        metric.cell: (metric, result) for result in report.results for _, metric in keys.of_model(result)
    }
    found |= {probe.cell: (probe, None) for probe in report.probes}
    for entry in report.cells:
        metric, result = found.get(entry.cell, (None, None))
        yield Line(entry, gpus[entry.gpu_uuid], metric, result)
