"""Every value that the launches of a run measured, launch by launch: never more than two of them are in memory.

    Archive, Evidence ──▶ Samples ── a cell's id ──▶ launches/<cell>/<n>/result.msgpack, read again and checked again

A launch is told whose result counts, and also one whose result was withdrawn, is at another batch size than its cell's
figures, or is lost: of the last no value is known, and that is told. What never had a result measured nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from orchestrator.disk.archive import Archive, Attempt, ResultFileError
from orchestrator.disk.evidence import Evidence
from orchestrator.disk.outcomes import CellOutcome
from orchestrator.merge import metrics
from orchestrator.report.launch_samples import LaunchSamples, Samples, Series
from protocol.cell import Cell
from protocol.result import Result

LOST: Final = "its result file is missing or damaged"
_OWN_ITERATIONS: Final[Mapping[str, int | None]] = MappingProxyType({"latency": 1, "inter_token": None, "best": None})
"""Series that are not measured block by block with the others: what a value of them covers."""


def of_run(archive: Archive, evidence: Evidence) -> Samples:
    """Reads the launches of a cell whenever they are asked for."""
    cells = {cell.id: cell for cell in archive.stored.plan.cells}
    tries: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in archive.attempts:
        tries[attempt.start.cell].append(attempt)

    def of_cell(cell: str) -> Iterator[LaunchSamples]:
        return _launches(archive, evidence, cells[cell], tries.get(cell, ()))

    return of_cell


def _launches(archive: Archive, evidence: Evidence, cell: Cell, tries: Sequence[Attempt]) -> Iterator[LaunchSamples]:
    value = metrics.VALUES.get(cell.workload)
    for attempt in tries:
        if attempt.promised is None and attempt.withdrawn is None:
            continue
        left_out = _left_out(attempt, evidence.outcomes[cell.id])
        try:
            result = archive.withdrawn_result(attempt) if attempt.promised is None else archive.result(attempt)
        except ResultFileError:
            yield _told(attempt, cell, LOST)
            continue
        known = evidence.launches.get(attempt.start.launch)
        yield _told(attempt, cell, left_out)._replace(
            series=tuple(_series(result, {} if left_out else _usual(evidence, cell))),
            value=None if known is None or value is None else value(known),
            iterations=None if known is None else known.figures.iterations,
        )


def _told(attempt: Attempt, cell: Cell, left_out: str) -> LaunchSamples:
    start = attempt.start
    return LaunchSamples(start.launch, start.round, start.batch_size, cell.devices, left_out)


def _left_out(attempt: Attempt, outcome: CellOutcome) -> str:
    """Why the figures of its cell are not made of it, empty where they are."""
    if attempt.start.launch in outcome.counted:
        return ""
    if attempt.failure is not None:
        return f"withdrawn: {attempt.failure.category}"
    if not outcome.counted:
        return "its cell has no figures"
    if attempt.start.batch_size != outcome.batch_size:
        return f"the figures are of batch size {outcome.batch_size}"
    return "another launch of its round counts"


def _usual(evidence: Evidence, cell: Cell) -> Mapping[str, tuple[float, float]]:
    figures = evidence.cells.get(cell.id)
    return {} if figures is None else {name: summary.usual_ms for name, summary in figures.pooled.items()}


def _series(result: Result, usual: Mapping[str, tuple[float, float]]) -> Iterator[Series]:
    for name in result.series:
        yield Series(name, result.times_ms(name), _OWN_ITERATIONS.get(name, result.group), usual.get(name))
