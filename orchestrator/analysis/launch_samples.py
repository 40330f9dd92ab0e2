"""Every value that the launches of a run measured, launch by launch: never more than two of them are in memory.

    Archive, Evidence ──▶ Samples ── a cell's id ──▶ launches/<cell>/<n>/result.msgpack, read again and checked again

A launch is told whose result counts, and also one whose result was withdrawn, is at another batch size than its cell's
figures, or is lost: of the last no value is known, and that is told. What never had a result measured nothing.

Archive and evidence of 100,000 launches take more memory than their report. So neither is kept until somebody asks,
but what finding each result again takes, some 300 bytes a launch.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from orchestrator.analysis import cell_figures
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.outcomes import CellOutcome
from orchestrator.figures.launch_samples import LaunchSamples, Samples, Series
from orchestrator.state.archive import Archive, ResultFileError, read_result
from orchestrator.state.attempts import Attempt
from protocol.cell import Cell
from protocol.paths import LaunchPaths
from protocol.result import Result

LOST: Final = "its result file is missing or damaged"
_OWN_ITERATIONS: Final[Mapping[str, int | None]] = MappingProxyType({"latency": 1, "inter_token": None, "best": None})
"""Series that are not measured block by block with the others: what a value of them covers."""

_Usual = Mapping[str, tuple[float, float]]
"""Of the series of a cell, from where to where the report counts no outliers."""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """A launch with a result: where that is, its hash, and what the report was made of."""

    launch: int
    round: int
    attempt: int
    batch_size: int
    promised: str
    left_out: str
    value: float | None
    iterations: int | None


class _OfCell(NamedTuple):
    devices: tuple[str, ...]
    usual: _Usual
    launches: tuple[_Kept, ...]


def of_run(archive: Archive, evidence: Evidence) -> Samples:
    """Reads the launches of a cell whenever they are asked for. Keeps neither the archive nor the evidence."""
    tries: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in archive.attempts:
        if _promised(attempt) is not None:
            tries[attempt.start.cell].append(attempt)
    cells = {
        cell.id: _of_cell(tries[cell.id], cell, evidence) for cell in archive.stored.plan.cells if cell.id in tries
    }
    paths, devices = archive.paths, frozenset(device.uuid for device in archive.stored.devices)

    def of_cell(cell: str) -> Iterator[LaunchSamples]:
        if its := cells.get(cell):
            for kept in its.launches:
                yield _read(kept, its, paths.launch(cell, kept.attempt), devices)

    return of_cell


def _of_cell(tries: Iterable[Attempt], cell: Cell, evidence: Evidence) -> _OfCell:
    figures = evidence.cells.get(cell.id)
    usual = {} if figures is None else {name: summary.usual_ms for name, summary in figures.pooled.items()}
    return _OfCell(cell.devices, usual, tuple(_kept(attempt, cell, evidence) for attempt in tries))


def _kept(attempt: Attempt, cell: Cell, evidence: Evidence) -> _Kept:
    start, value = attempt.start, cell_figures.LAUNCH_VALUE.get(cell.workload)
    known = evidence.launches.get(start.launch)
    return _Kept(
        launch=start.launch,
        round=start.round,
        attempt=start.attempt,
        batch_size=start.batch_size,
        promised=_promised(attempt) or "",
        left_out=_left_out(attempt, evidence.outcomes[cell.id]),
        value=None if known is None or value is None else value(known),
        iterations=None if known is None else known.figures.iterations,
    )


def _promised(attempt: Attempt) -> str | None:
    return attempt.withdrawn if attempt.promised is None else attempt.promised


def _read(kept: _Kept, cell: _OfCell, folder: LaunchPaths, devices: Collection[str]) -> LaunchSamples:
    told = LaunchSamples(kept.launch, kept.round, kept.batch_size, cell.devices, kept.left_out)
    try:
        result = read_result(folder, kept.promised, devices)
    except ResultFileError:
        return told._replace(left_out=LOST)
    series = tuple(_series(result, {} if kept.left_out else cell.usual))
    return told._replace(series=series, value=kept.value, iterations=kept.iterations)


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


def _series(result: Result, usual: _Usual) -> Iterator[Series]:
    for name in result.series:
        yield Series(name, result.times_ms(name), _OWN_ITERATIONS.get(name, result.group), usual.get(name))
