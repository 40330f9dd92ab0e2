"""Cost and energy of a million samples or tokens at a price per device hour. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from orchestrator.figures.cells import Measured, ModelResult
from orchestrator.figures.comparisons import Cost
from orchestrator.figures.report import Report

_MILLION: Final = 1_000_000
_SECONDS: Final = 3600
_JOULES: Final = 3_600_000


class _Million(NamedTuple):
    """A unit of which a million is priced. of: its name, such as "tokens".

    per_second: throughput in this unit. energy_j: joules of one. None: unknown.
    """

    of: str
    per_second: float | None
    energy_j: float | None


def costs(report: Report, price_per_hour: float) -> Iterator[Cost]:
    """Yield the cost of a million samples or tokens for each cell with a throughput. price_per_hour: of one device."""
    for result in report.results:
        phases = {"inference": result.inference_metrics, "training": result.training_metrics}
        for phase, metrics in phases.items():
            for metric in metrics.values():
                samples = _Million(metric.sample_unit, metric.throughput_samples_per_sec, metric.energy_per_sample_j)
                yield from _cost(result, phase, metric, samples, price_per_hour)
        for text in result.generation_metrics.values():
            tokens = _Million("tokens", text.tokens_per_second, text.energy_per_token_j)
            yield from _cost(result, "generation", text, tokens, price_per_hour)


def _cost(
    result: ModelResult, phase: str, metric: Measured, million: _Million, price_per_hour: float
) -> Iterator[Cost]:
    if not million.per_second or metric.batch_size is None:
        return
    yield Cost(
        gpu_uuid=result.gpu_uuid,
        gpu_id=result.gpu_id,
        model_name=result.model_name,
        phase=phase,
        precision=result.precision,
        batch_size=metric.batch_size,
        unit=million.of,
        price_per_hour=price_per_hour,
        price_per_million=price_per_hour / _SECONDS / million.per_second * _MILLION,
        cell=metric.cell,
        energy_kwh_per_million=None if million.energy_j is None else million.energy_j * _MILLION / _JOULES,
    )
