"""The results of the report: planned cells that measure a model, in entries, and probes, each by itself.

An entry is what cells share that differ in workload and batch size alone: _Entry.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.analysis import cell_figures, plausibility, time_ledgers
from orchestrator.analysis.cell_figures import Counted
from orchestrator.analysis.evidence import Evidence, LaunchEvidence
from orchestrator.config.workloads import PHASES, WORKLOADS
from orchestrator.figures.cells import (
    CellReport,
    GenerationMetrics,
    LoadMetrics,
    Measured,
    ModelResult,
    PhaseMetrics,
    ProbeMetrics,
    Status,
)
from orchestrator.figures.parts import AttemptReport, Statistics
from orchestrator.figures.report import CellEntry
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.system.calendar_times import iso
from protocol.cell import AUTO, Cell, Device, ModelSpec, Workload
from protocol.paths import attempt_name

DAMAGED: Final = "damaged"
"""How an attempt ended whose result is missing, or is not what the journal promised."""


class _Entry(NamedTuple):
    """What the cells of one result share."""

    device: str
    model: str
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None
    memory_format: str
    new_tokens: int | None


def results(archive: Archive, evidence: Evidence, measured_without: Sequence[ProbeMetrics]) -> tuple[ModelResult, ...]:
    """Every planned cell that measures a model, in its entry; entries in the order of the plan.

    measured_without: a model, by probes.
    """
    devices = {device.uuid: device for device in archive.stored.devices}
    models = archive.stored.configuration.by_name
    entries: dict[_Entry, list[Cell]] = {}
    for cell in archive.stored.plan.cells:
        if cell.workload in PHASES:
            entries.setdefault(_entry(cell), []).append(cell)
    reporter = _Reporter(archive, evidence)
    reached = {
        (uuid, mode): plausibility.reached([probe for probe in measured_without if probe.mode == mode], uuid)
        for uuid, mode in dict.fromkeys((entry.device, entry.mode) for entry in entries)
    }
    return tuple(
        reporter.model_result(
            entry, cells, devices[entry.device], models[entry.model], reached[entry.device, entry.mode]
        )
        for entry, cells in entries.items()
    )


def probes(archive: Archive, evidence: Evidence) -> tuple[ProbeMetrics, ...]:
    """Every planned probe, in the order of the plan."""
    devices = {device.uuid: device for device in archive.stored.devices}
    models = archive.stored.configuration.by_name
    reporter = _Reporter(archive, evidence)
    return tuple(
        reporter.probe(cell, devices[cell.devices[0]], models[cell.model])
        for cell in archive.stored.plan.cells
        if cell.workload is Workload.PROBE
    )


def cells(archive: Archive, evidence: Evidence) -> Iterator[CellEntry]:
    """Every planned cell in a line, in the order of the plan."""
    numbers = {device.uuid: device.gpu_id for device in archive.stored.devices}
    planned = Counter(cell for cell, _ in archive.stored.plan.slots)
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
            input_size=cell.input_size,
            memory_format=cell.memory_format,
            new_tokens=cell.new_tokens,
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
    return _Entry(
        device=cell.devices[0],
        model=cell.model,
        precision=cell.precision,
        mode=cell.mode,
        compile_mode=cell.compile_mode,
        input_size=cell.input_size,
        memory_format=cell.memory_format,
        new_tokens=cell.new_tokens,
    )


class _Reporter:
    """Turns cells into metrics, with the run's attempts and evidence at hand."""

    def __init__(self, archive: Archive, evidence: Evidence) -> None:
        self._evidence = evidence
        self._tries: dict[str, list[Attempt]] = {}
        for attempt in archive.attempts:
            self._tries.setdefault(attempt.start.cell, []).append(attempt)
        self._planned = Counter(cell for cell, _ in archive.stored.plan.slots)

    def model_result(
        self, entry: _Entry, cells: list[Cell], device: Device, model: ModelSpec, reached: plausibility.Reached
    ) -> ModelResult:
        load: LoadMetrics | None = None
        phases: dict[Workload, dict[str, PhaseMetrics]] = {Workload.INFERENCE: {}, Workload.TRAINING: {}}
        generation: dict[str, GenerationMetrics] = {}
        for cell in sorted(cells, key=lambda cell: cell.batch_size):
            if (requested := self._requested(cell)) is None:
                continue  # a scan that found nothing: it is among the scans
            key, counted = f"batch_size_{requested}", self._counted(cell, device)
            base = self._measured(counted, requested)
            seen = cell_figures.seen(counted, generates=WORKLOADS[cell.workload].generates)
            judged = plausibility.judge(seen, cell.precision, reached)
            match cell.workload:
                case Workload.LOAD:
                    load = cell_figures.load(base, counted)
                case Workload.GENERATION:
                    generation[key] = cell_figures.generation(base, counted, judged)
                case _:
                    phases[cell.workload][key] = cell_figures.phase(base, counted, model.item, judged)
        statistics, statistics_of = _largest({**phases, Workload.GENERATION: generation})
        return ModelResult(
            gpu_uuid=device.uuid,
            gpu_id=device.gpu_id,
            model_name=model.name,
            model_title=model.title,
            model_type=model.type,
            parameters_count=model.parameters or self._parameters(cells),
            precision=entry.precision,
            mode=entry.mode,
            compile_mode=entry.compile_mode,
            input_size=entry.input_size,
            memory_format=entry.memory_format,
            new_tokens=entry.new_tokens,
            load_metrics=load,
            inference_metrics=phases[Workload.INFERENCE],
            training_metrics=phases[Workload.TRAINING],
            generation_metrics=generation,
            statistics=statistics,
            statistics_of=statistics_of,
        )

    def probe(self, cell: Cell, device: Device, spec: ModelSpec) -> ProbeMetrics:
        counted = self._counted(cell, device)
        return cell_figures.probe(self._measured(counted, cell.batch_size), counted, spec)

    def _parameters(self, cells: list[Cell]) -> int | None:
        """How many a model has whose description does not know, as a user's own: as its launches counted them."""
        return next((launch.result.parameters for cell in cells for launch in self._launches(cell)), None)

    def _requested(self, cell: Cell) -> int | None:
        """The batch size that was requested, or that a scan has found."""
        return self._evidence.outcomes[cell.id].batch_size if cell.batch_size == AUTO else cell.batch_size

    def _launches(self, cell: Cell) -> list[LaunchEvidence]:
        return [self._evidence.launches[number] for number in self._evidence.outcomes[cell.id].counted]

    def _counted(self, cell: Cell, device: Device) -> Counted:
        return Counted(cell, device, self._evidence.cells.get(cell.id), self._launches(cell))

    def _measured(self, counted: Counted, requested: int) -> Measured:
        """What every metric says. requested: the batch size."""
        cell, outcome = counted.cell, self._evidence.outcomes[counted.cell.id]
        tries = self._tries.get(cell.id, [])
        good = [attempt for attempt in tries if attempt.start.launch in outcome.counted]
        fate = CellReport(
            cell=cell.id,
            status=outcome.status,
            reason=outcome.reason,
            batch_size_requested=requested,
            batch_size=outcome.batch_size,
            degraded=outcome.status in (Status.DEGRADED, Status.REFERRED),
            refers_to=outcome.refers_to,
            launches=len(outcome.counted),
            launches_planned=self._planned[cell.id],
            attempts=tuple(report_attempt(attempt, self._evidence.damaged) for attempt in tries),
            ledger=time_ledgers.ledger(
                [(self._evidence.launches[attempt.start.launch].result.ledger, attempt) for attempt in good]
            ),
        )
        return cell_figures.measured(fate, counted, cell_figures.LAUNCH_VALUE[cell.workload])


def report_attempt(attempt: Attempt, damaged: Mapping[int, str]) -> AttemptReport:
    """One attempt, in words."""
    start, failure, left = attempt.start, attempt.failure, attempt.left
    message = damaged.get(start.launch) or (failure.message if failure else None)
    return AttemptReport(
        launch=start.launch,
        attempt=start.attempt,
        round=start.round,
        batch_size=start.batch_size,
        outcome=outcome_word(attempt, damaged),
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
        folder=attempt_name(start.cell, start.attempt),
    )


def outcome_word(attempt: Attempt, damaged: Mapping[int, str]) -> str:
    """How it ended: "result", or why there is none."""
    if attempt.start.launch in damaged:
        return DAMAGED
    if attempt.end is None:
        return "interrupted"
    return "failure" if attempt.failure else "result"


def _largest(phases: Mapping[Workload, Mapping[str, Measured]]) -> tuple[Statistics | None, str | None]:
    """Statistics of the largest batch that has any, of the first phase that has any, and which they are."""
    for workload, by_batch in phases.items():
        for key, metric in reversed(list(by_batch.items())):
            if metric.statistics is not None:
                return metric.statistics, f"{workload} {key}"
    return None, None
