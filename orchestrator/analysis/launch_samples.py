"""Read all values that the launches of a run recorded, one launch at a time to save memory.

Launches that do not count for the figures are read too, and marked.
"""

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
from orchestrator.state.replay import LOST
from protocol.cell import Cell
from protocol.paths import LaunchPaths
from protocol.result import Result

_OWN_ITERATIONS: Final[Mapping[str, int | None]] = MappingProxyType({"latency": 1, "inter_token": None, "best": None})
"""Series without measured blocks → iterations that each value covers; None if a value is no whole iteration."""

_Usual = Mapping[str, tuple[float, float]]  # Series → the range without outliers, in ms


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a launch with a result file, until its values are read from the file.

    round: in the plan, from 0. attempt: number of the attempt at the cell. promised: SHA-256 of the file. excluded: why
    the launch does not count for the figures of its cell; "" if it counts. value: figure by which cells are compared,
    such as samples/s. iterations: measured iterations behind `value`. Both are None without a valid result.
    """

    launch: int
    round: int
    attempt: int
    batch_size: int
    promised: str
    excluded: str
    value: float | None
    iterations: int | None


class _OfCell(NamedTuple):
    devices: tuple[str, ...]
    usual: _Usual
    launches: tuple[_Kept, ...]


def of_run(archive: Archive, evidence: Evidence) -> Samples:
    """Return a function that takes a cell id and yields its launches that had a result; none for an unknown id."""
    cells = {name: _of_cell(tries, archive.cells[name], evidence) for name, tries in archive.tries.items()}
    paths, devices = archive.paths, frozenset(archive.devices)

    def of_cell(cell: str) -> Iterator[LaunchSamples]:
        if its := cells.get(cell):
            for kept in its.launches:
                yield _read(kept, its, paths.launch(cell, kept.attempt), devices)

    return of_cell


def _of_cell(tries: Iterable[Attempt], cell: Cell, evidence: Evidence) -> _OfCell:
    figures = evidence.cells.get(cell.id)
    usual = {} if figures is None else {name: summary.usual_ms for name, summary in figures.pooled.items()}
    kept = (_kept(attempt, promised, cell, evidence) for attempt in tries if (promised := _promised(attempt)))
    return _OfCell(cell.devices, usual, tuple(kept))


def _kept(attempt: Attempt, promised: str, cell: Cell, evidence: Evidence) -> _Kept:
    start, value = attempt.start, cell_figures.LAUNCH_VALUE.get(cell.workload)
    launch_evidence = evidence.launches.get(start.launch)
    return _Kept(
        launch=start.launch,
        round=start.round,
        attempt=start.attempt,
        batch_size=start.batch_size,
        promised=promised,
        excluded=_why_not_counted(attempt, evidence.outcomes[cell.id]),
        value=None if launch_evidence is None or value is None else value(launch_evidence),
        iterations=None if launch_evidence is None else launch_evidence.figures.iterations,
    )


def _promised(attempt: Attempt) -> str | None:
    return attempt.withdrawn if attempt.promised is None else attempt.promised


def _read(kept: _Kept, cell: _OfCell, folder: LaunchPaths, devices: Collection[str]) -> LaunchSamples:
    samples = LaunchSamples(kept.launch, kept.round, kept.batch_size, cell.devices, kept.excluded)
    try:
        result = read_result(folder, kept.promised, devices)
    except ResultFileError:
        return samples._replace(excluded=LOST)
    series = tuple(_series(result, {} if kept.excluded else cell.usual))
    return samples._replace(series=series, value=kept.value, iterations=kept.iterations)


def _why_not_counted(attempt: Attempt, outcome: CellOutcome) -> str:
    if attempt.start.launch in outcome.valid_launches:
        return ""
    if attempt.failure is not None:
        return f"withdrawn: {attempt.failure.category}"
    if not outcome.valid_launches:
        return "its cell has no figures"
    if attempt.start.batch_size != outcome.batch_size:
        return f"the figures are of batch size {outcome.batch_size}"
    return "another launch of its round counts"


def _series(result: Result, usual: _Usual) -> Iterator[Series]:
    for name in result.series:
        yield Series(name, result.times_ms(name), _OWN_ITERATIONS.get(name, result.group), usual.get(name))
