"""The lists of results in a report: an entry for each model and configuration, the probes, and all planned cells."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from orchestrator.analysis import cell_figures, compilation, plausibility, time_ledgers
from orchestrator.analysis.cell_figures import ValidLaunches
from orchestrator.analysis.evidence import Evidence, LaunchEvidence
from orchestrator.config.workloads import PHASES, WORKLOADS
from orchestrator.figures import keys
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
from orchestrator.figures.quality import Quality, quality
from orchestrator.figures.report import CellEntry
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.system.calendar_times import iso
from protocol.cell import AUTO, Cell, Workload
from protocol.paths import attempt_name

DAMAGED: Final = "damaged"


class _Entry(NamedTuple):
    """Key of a model's entry in the report. The cells of an entry differ only in workload and batch size.

    device: UUID. mode: "loaded" or "solo". compile_mode: such as "eager", or with dynamic shapes "default dynamic".
    input_size: in pixels or tokens; None: the model has one fixed size. new_tokens: for generation only, else None.
    """

    device: str
    model: str
    precision: str
    mode: str
    compile_mode: str
    input_size: int | None
    memory_format: str
    new_tokens: int | None


def results(archive: Archive, evidence: Evidence, probe_results: Sequence[ProbeMetrics]) -> tuple[ModelResult, ...]:
    """Return an entry for each model, configuration and device, in the order of the plan, measured or not.

    A batch size scan without a result adds no figures to its entry. probe_results: from `probes`. The plausibility of
    each time is judged by the rates that these probes reached on the device in the same mode.
    """
    entries: dict[_Entry, list[Cell]] = {}
    for cell in archive.stored.plan.cells:
        if cell.workload in PHASES:
            entries.setdefault(_entry(cell), []).append(cell)
    reporter = _Reporter(archive, evidence)
    reached = {
        (uuid, mode): plausibility.reached([probe for probe in probe_results if probe.mode == mode], uuid)
        for uuid, mode in dict.fromkeys((entry.device, entry.mode) for entry in entries)
    }
    return compilation.beside_eager(
        [reporter.model_result(entry, cells, reached[entry.device, entry.mode]) for entry, cells in entries.items()]
    )


def probes(archive: Archive, evidence: Evidence) -> tuple[ProbeMetrics, ...]:
    """Return the figures of every planned probe, in the order of the plan."""
    reporter = _Reporter(archive, evidence)
    return tuple(reporter.probe(cell) for cell in archive.stored.plan.cells if cell.workload is Workload.PROBE)


def cells(
    archive: Archive, evidence: Evidence, of_models: Sequence[ModelResult], of_probes: Sequence[ProbeMetrics]
) -> Iterator[CellEntry]:
    """Yield status and number of launches of every planned cell, in the order of the plan.

    of_models, of_probes: all figures, from `results` and `probes`.
    """
    metrics: dict[str, Measured] = {metric.cell: metric for result in of_models for _, metric in keys.of_model(result)}
    metrics |= {probe.cell: probe for probe in of_probes}
    planned = Counter(cell for cell, _ in archive.stored.plan.slots)
    for cell in archive.stored.plan.cells:
        outcome = evidence.outcomes[cell.id]
        shapes = (shape for number in outcome.valid_launches for shape in evidence.launches[number].result.shapes)
        yield CellEntry(
            cell=cell.id,
            gpu_uuid=cell.devices[0],
            gpu_id=archive.devices[cell.devices[0]].gpu_id,
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
            launches=len(outcome.valid_launches),
            launches_planned=planned[cell.id],
            attempts=len(archive.tries.get(cell.id, ())),
            compile_mode=cell.compile_name,
            quality=Quality.WRONG
            if any(shape.wrong for shape in shapes)
            else quality(outcome.status, metrics.get(cell.id)),
        )


def _entry(cell: Cell) -> _Entry:
    return _Entry(
        device=cell.devices[0],
        model=cell.model,
        precision=cell.precision,
        mode=cell.mode,
        compile_mode=cell.compile_name,
        input_size=cell.input_size,
        memory_format=cell.memory_format,
        new_tokens=cell.new_tokens,
    )


class _Reporter:
    def __init__(self, archive: Archive, evidence: Evidence) -> None:
        self._archive, self._evidence = archive, evidence
        self._models = archive.stored.configuration.by_name
        self._planned = Counter(cell for cell, _ in archive.stored.plan.slots)

    def model_result(self, entry: _Entry, cells: list[Cell], reached: plausibility.Reached) -> ModelResult:
        model = self._models[entry.model]
        load: LoadMetrics | None = None
        phases: dict[Workload, dict[str, PhaseMetrics]] = {Workload.INFERENCE: {}, Workload.TRAINING: {}}
        generation: dict[str, GenerationMetrics] = {}
        for cell in sorted(cells, key=lambda cell: cell.batch_size):
            if (requested := self._requested(cell)) is None:
                continue  # a scan that found nothing: it is among the scans
            key, valid = f"batch_size_{requested}", self._launches_of(cell)
            base = self._measured(valid, requested)
            seen = cell_figures.seen(valid, generates=WORKLOADS[cell.workload].generates)
            judged = plausibility.judge(seen, cell.precision, reached)
            match cell.workload:
                case Workload.LOAD:
                    load = cell_figures.load(base, valid)
                case Workload.GENERATION:
                    generation[key] = cell_figures.generation(base, valid, judged)
                case _:
                    phases[cell.workload][key] = cell_figures.phase(base, valid, model, judged)
        statistics, statistics_of = _largest({**phases, Workload.GENERATION: generation})
        return ModelResult(
            gpu_uuid=entry.device,
            gpu_id=self._archive.devices[entry.device].gpu_id,
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

    def probe(self, cell: Cell) -> ProbeMetrics:
        valid = self._launches_of(cell)
        return cell_figures.probe(self._measured(valid, cell.batch_size), valid, self._models[cell.model])

    def _parameters(self, cells: list[Cell]) -> int | None:
        return next((launch.result.parameters for cell in cells for launch in self._launches(cell)), None)

    def _requested(self, cell: Cell) -> int | None:
        return self._evidence.outcomes[cell.id].batch_size if cell.batch_size == AUTO else cell.batch_size

    def _launches(self, cell: Cell) -> list[LaunchEvidence]:
        return [self._evidence.launches[number] for number in self._evidence.outcomes[cell.id].valid_launches]

    def _launches_of(self, cell: Cell) -> ValidLaunches:
        device = self._archive.devices[cell.devices[0]]
        return ValidLaunches(cell, device, self._evidence.cells.get(cell.id), self._launches(cell))

    def _measured(self, valid: ValidLaunches, requested: int) -> Measured:
        cell, outcome = valid.cell, self._evidence.outcomes[valid.cell.id]
        tries = self._archive.tries.get(cell.id, ())
        good = [attempt for attempt in tries if attempt.start.launch in outcome.valid_launches]
        fate = CellReport(
            cell=cell.id,
            status=outcome.status,
            reason=outcome.reason,
            batch_size_requested=requested,
            batch_size=outcome.batch_size,
            degraded=outcome.status in (Status.DEGRADED, Status.REFERRED),
            refers_to=outcome.refers_to,
            launches=len(outcome.valid_launches),
            launches_planned=self._planned[cell.id],
            attempts=tuple(report_attempt(attempt, self._evidence.damaged) for attempt in tries),
            ledger=time_ledgers.ledger(
                [(self._evidence.launches[attempt.start.launch].result.ledger, attempt) for attempt in good]
            ),
        )
        return cell_figures.measured(fate, valid, cell_figures.LAUNCH_VALUE[cell.workload])


def report_attempt(attempt: Attempt, damaged: Mapping[int, str]) -> AttemptReport:
    """Return an attempt as the report shows it. damaged: launch → what is wrong with its result file."""
    start, failure, left = attempt.start, attempt.failure, attempt.left
    return AttemptReport(
        launch=start.launch,
        attempt=start.attempt,
        round=start.round,
        batch_size=start.batch_size,
        outcome=outcome_word(attempt, damaged),
        started=iso(attempt.started),
        duration_ms=attempt.lasted_ms,
        category=failure.category if failure else None,
        message=damaged.get(start.launch) or (failure.message if failure else None),
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
    """Return "damaged" (its launch is in `damaged`), "interrupted" (no recorded end), "failure" or "result"."""
    if attempt.start.launch in damaged:
        return DAMAGED
    if attempt.end is None:
        return "interrupted"
    return "failure" if attempt.failure else "result"


def _largest(phases: Mapping[Workload, Mapping[str, Measured]]) -> tuple[Statistics | None, str | None]:
    for workload, by_batch in phases.items():
        for key, metric in reversed(list(by_batch.items())):
            if metric.statistics is not None:
                return metric.statistics, f"{workload} {key}"
    return None, None
