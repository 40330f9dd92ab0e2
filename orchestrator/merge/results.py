"""The results of the report: planned cells, in one entry for each (GPU, model, precision, mode, input size)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from orchestrator.archive import Archive, Attempt
from orchestrator.evidence import Evidence
from orchestrator.merge import metrics
from orchestrator.merge.times import iso
from orchestrator.outcomes import CellOutcome, Status
from orchestrator.report.cells import AttemptReport, LoadMetrics, ModelResult, PhaseMetrics, Statistics
from orchestrator.report.model import CellEntry
from protocol.cell import Cell, Device, ModelSpec, Workload
from protocol.paths import RunPaths

MEASURED: Final = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
"""Workloads that have figures. The other one injects faults."""


class _Entry(NamedTuple):
    """What the cells of one result share."""

    device: str
    model: str
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None


def results(archive: Archive, evidence: Evidence) -> tuple[ModelResult, ...]:
    """Every planned cell that measures a model, in its entry; entries in the order of the plan."""
    devices = {device.uuid: device for device in archive.stored.devices}
    models = {model.name: model for model in archive.stored.configuration.models}
    entries: dict[_Entry, list[Cell]] = {}
    for cell in archive.stored.plan.cells:
        if cell.workload not in MEASURED:
            continue
        entries.setdefault(_entry(cell), []).append(cell)
    reporter = _Reporter(archive, evidence)
    return tuple(
        reporter.model_result(entry, cells, devices[entry.device], models[entry.model])
        for entry, cells in entries.items()
    )


def cells(archive: Archive, evidence: Evidence) -> Iterator[CellEntry]:
    """Every planned cell in a line, in the order of the plan."""
    numbers = {device.uuid: device.gpu_id for device in archive.stored.devices}
    planned = Counter(cell for queue in archive.stored.plan.order.values() for cell, _ in queue)
    tried = Counter(attempt.start.cell for attempt in archive.attempts)
    for cell in archive.stored.plan.cells:
        outcome = evidence.outcomes[cell.id]
        yield CellEntry(
            cell=cell.id,
            gpu_uuid=cell.devices[0],
            gpu_id=numbers[cell.devices[0]],
            model_name=cell.model,
            workload=cell.workload,
            precision=cell.precision,
            batch_size_requested=cell.batch_size,
            batch_size=outcome.batch_size,
            status=outcome.status,
            refers_to=outcome.refers_to,
            reason=outcome.reason,
            launches=len(outcome.counted),
            launches_planned=planned[cell.id],
            attempts=tried[cell.id],
        )


def _entry(cell: Cell) -> _Entry:
    return _Entry(cell.devices[0], cell.model, cell.precision, cell.mode, cell.compile_mode, cell.input_size)


class _Reporter:
    """Turns cells into metrics, with the run's attempts and evidence at hand."""

    def __init__(self, archive: Archive, evidence: Evidence) -> None:
        self._archive = archive
        self._evidence = evidence
        self._tries: dict[str, list[Attempt]] = {}
        for attempt in archive.attempts:
            self._tries.setdefault(attempt.start.cell, []).append(attempt)
        self._planned = Counter(cell for queue in archive.stored.plan.order.values() for cell, _ in queue)

    def model_result(self, entry: _Entry, cells: list[Cell], device: Device, model: ModelSpec) -> ModelResult:
        load: LoadMetrics | None = None
        phases: dict[Workload, dict[str, PhaseMetrics]] = {Workload.INFERENCE: {}, Workload.TRAINING: {}}
        for cell in sorted(cells, key=lambda cell: cell.batch_size):
            if cell.workload is Workload.LOAD:
                load = self._load(cell)
            elif cell.workload in phases:
                phases[cell.workload][f"batch_size_{cell.batch_size}"] = self._phase(cell, device, model)
        statistics, statistics_of = _largest(phases)
        return ModelResult(
            gpu_uuid=device.uuid,
            gpu_id=device.gpu_id,
            model_name=model.name,
            model_title=model.title,
            model_type=model.type,
            parameters_count=model.parameters,
            precision=entry.precision,
            mode=entry.mode,
            compile_mode=entry.compile_mode,
            input_size=entry.input_size,
            load_metrics=load,
            inference_metrics=phases[Workload.INFERENCE],
            training_metrics=phases[Workload.TRAINING],
            statistics=statistics,
            statistics_of=statistics_of,
        )

    def _load(self, cell: Cell) -> LoadMetrics:
        outcome = self._evidence.outcomes[cell.id]
        launches = [self._evidence.launches[number] for number in outcome.counted]
        fields = metrics.load(self._evidence.cells.get(cell.id), launches)
        return msgspec.convert({**self._fate(cell, outcome), **fields}, LoadMetrics)

    def _phase(self, cell: Cell, device: Device, model: ModelSpec) -> PhaseMetrics:
        outcome = self._evidence.outcomes[cell.id]
        launches = [self._evidence.launches[number] for number in outcome.counted]
        fields = metrics.phase(self._evidence.cells.get(cell.id), launches, device)
        return msgspec.convert({**self._fate(cell, outcome), **fields, "sample_unit": model.item}, PhaseMetrics)

    def _fate(self, cell: Cell, outcome: CellOutcome) -> dict[str, object]:
        """The fields that every metric begins with."""
        tries = self._tries.get(cell.id, [])
        counted = [attempt for attempt in tries if attempt.start.launch in outcome.counted]
        return {
            "cell": cell.id,
            "status": outcome.status,
            "reason": outcome.reason,
            "batch_size_requested": cell.batch_size,
            "batch_size": outcome.batch_size,
            "degraded": outcome.status in (Status.DEGRADED, Status.REFERRED),
            "refers_to": outcome.refers_to,
            "launches": len(outcome.counted),
            "launches_planned": self._planned[cell.id],
            "attempts": tuple(
                report_attempt(attempt, self._archive.paths, self._evidence.damaged) for attempt in tries
            ),
            "ledger": metrics.ledger(
                [(self._evidence.launches[attempt.start.launch].ledger, attempt.left) for attempt in counted]
            ),
        }


def report_attempt(attempt: Attempt, paths: RunPaths, damaged: Mapping[int, str]) -> AttemptReport:
    """One attempt, in words."""
    start, failure, left = attempt.start, attempt.failure, attempt.left
    message = damaged.get(start.launch) or (failure.message if failure else None)
    return AttemptReport(
        launch=start.launch,
        attempt=start.attempt,
        round=start.round,
        batch_size=start.batch_size,
        outcome=_outcome_word(attempt, damaged),
        started=iso(attempt.started),
        duration_ms=attempt.lasted_ms,
        category=failure.category if failure else None,
        message=message,
        phase=failure.phase if failure else None,
        code=failure.code if failure else None,
        failure_signal=failure.signal if failure else None,
        exception=failure.exception if failure else None,
        evidence=failure.evidence if failure else {},
        exit_code=left.exit_code if left else None,
        signal=left.signal if left else None,
        folder=str(paths.launch(start.cell, start.attempt).folder.relative_to(paths.folder)),
    )


def _outcome_word(attempt: Attempt, damaged: Mapping[int, str]) -> str:
    if attempt.start.launch in damaged:
        return "damaged"
    if attempt.end is None:
        return "interrupted"
    return "failure" if attempt.failure else "result"


def _largest(phases: Mapping[Workload, Mapping[str, PhaseMetrics]]) -> tuple[Statistics | None, str | None]:
    """Statistics of the largest batch that has any, of inference before training, and which they are."""
    for workload, by_batch in phases.items():
        for key, metric in reversed(list(by_batch.items())):
            if metric.statistics is not None:
                return metric.statistics, f"{workload} {key}"
    return None, None
