"""What makes up for what a burn-in lacks: more of its time, or a new one, and of what length. Pure.

    what is left of its time ─┬─ has room for what is missing ──▶ `resume`
                              └─ has not ───────────────────────▶ a new burn-in, in which a whole round has room

Of a night that came to its end and lacks no time nothing is left.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from orchestrator.config.run_configuration import BurnIn
from orchestrator.kinds.burn_in import busy_time, levels, time_needed
from orchestrator.kinds.burn_in.findings import Ahead
from orchestrator.kinds.burn_in.levels import requested
from orchestrator.kinds.burn_in.lost_launches import Lost
from orchestrator.kinds.burn_in.settings import LONGEST_S, written
from orchestrator.state.archive import Archive

LONGER: Final = 2
"""So many times what was asked for, where that had room by the estimates and by the clock had not."""


def ahead(archive: Archive, at_work: Mapping[str, busy_time.Work]) -> Mapping[str, Ahead]:
    """Of each device. at_work: when each was."""
    stored, finished = archive.stored, archive.finished
    asked = requested(stored.configuration)
    so_far = busy_time.remaining_of(archive, at_work)
    over = finished is not None and not finished.interrupted and not finished.broken and not so_far.short
    least = _least(archive, asked)
    return {
        device.uuid: Ahead(0.0 if over else so_far.left_s, busy_time.launch_s(archive, device), least)
        for device in stored.devices
    }


def _least(archive: Archive, asked: BurnIn) -> str:
    """What to ask a new burn-in for, with its level: a longer one may mean another. No more than there can be.

    A level that the table has no more has no estimate, and nobody can ask for it: the run is older than the table.
    """
    stored, table = archive.stored, levels.load()
    longer_s = LONGER * asked.duration_s
    if asked.level not in table.levels:
        return written(min(longer_s, LONGEST_S))
    least_s = time_needed.least_s(stored.plan, stored.configuration, stored.devices, table)
    return f"{written(min(least_s if least_s > asked.duration_s else longer_s, LONGEST_S))} --level {asked.level}"


def untried(archive: Archive, lost: Iterable[Lost], done: Collection[tuple[str, int]]) -> frozenset[str]:
    """Cells of the plan that lacked nothing but time: none of their launches failed, or has a result.

    done: cells and rounds of which there is one.
    """
    tried = {cell_id for cell_id, _ in done} | {one.cell.id for one in lost}
    return frozenset(
        cell.id
        for cell in archive.stored.plan.cells
        if cell.id not in tried and archive.taken_out.keys().isdisjoint(cell.devices)
    )
