"""How much results vary between runs of one machine, learned from runs of the same cells (configurations). Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.compare import cell_facts, pairing
from orchestrator.compare.comparison import SessionSpread
from orchestrator.compare.run_figures import Side
from orchestrator.config.margins import Margins
from orchestrator.figures.keys import CellKey
from orchestrator.history.records import CellRecord, RunRecord
from orchestrator.stats import sessions

MOST_SESSIONS: Final = 30
"""Most runs to learn from, the newest ones: what a machine did years ago says little of today."""
_QUIET: Final = frozenset({"seed"})
_Place = tuple[str, CellKey]


def spread(records: Iterable[RunRecord], side: Side, others: frozenset[str], margins: Margins) -> SessionSpread | None:
    """Return the spread of a machine's results between runs, learned from earlier runs like `side`.

    Runs like `side` have results of exactly its cells, its versions and settings (any seed), and no injected faults. Of
    each day, only the newest such run is used, because a machine's state often stays the same for a day. None if fewer
    than three of these runs have cells in common. records: newest first. others: ids of runs to ignore. margins: has
    the spread assumed without any run; the learned spread is drawn towards it, the more so the fewer runs there are.
    """
    host = {place: cell_facts.measures_host(one, one) for place, one in pairing.places(side).items() if one.cell.values}
    of_days: dict[str, Mapping[_Place, tuple[float, ...]]] = {}
    for one in records:
        day = one.run.test_date.partition("T")[0]
        if day in of_days or one.run.tainted or one.run.run_id in others:
            continue
        same_cells = {(cell.gpu_uuid, cell.key) for cell in one.cells if cell.launches} == host.keys()
        rates = {(cell.gpu_uuid, cell.key): _rates(cell) for cell in one.cells if cell.launches and not cell.doubt}
        if rates and same_cells and same_stack(one.run.stack, side.stack):
            of_days[day] = rates
        if len(of_days) == MOST_SESSIONS:
            break
    found = list(of_days.values())
    session = margins.runs.session
    device = sessions.learned(_of_class(found, host, measures_host=False), session.device.share)
    of_host = sessions.learned(_of_class(found, host, measures_host=True), session.host.share)
    if device is None and of_host is None:
        return None
    return SessionSpread(
        session.device.share if device is None else device,
        session.host.share if of_host is None else of_host,
        len(found),
    )


def same_stack(stack: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether all versions and settings of two runs but the seed are equal. stack, other: name → version or setting.

    A version that only one run knows counts as equal if it is one that only launches report, such as torch's: a run
    without results does not know it.
    """
    return not {change.name for change in cell_facts.differences(stack, other)} - _QUIET


def _of_class(
    found: Iterable[Mapping[_Place, tuple[float, ...]]], host: Mapping[_Place, bool], *, measures_host: bool
) -> list[dict[_Place, tuple[float, ...]]]:
    return [{place: rates for place, rates in one.items() if host[place] is measures_host} for one in found]


def _rates(cell: CellRecord) -> tuple[float, ...]:
    return tuple(1 / value for value in cell.launches) if cell.metric.endswith("_ms") else cell.launches
