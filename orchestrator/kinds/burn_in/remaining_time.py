"""Ways to complete an incomplete burn-in: `resume`, or a new burn-in and its length. Pure."""

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
"""Factor on the requested time for a new burn-in, if a round should have fitted by its estimate, but did not."""


def ahead(archive: Archive, at_work: Mapping[str, busy_time.Work]) -> Mapping[str, Ahead]:
    """Return UUID → ways to complete the burn-in: seconds for `resume`, and options of a new burn-in.

    All devices have the same seconds: those left for the device with the least time at work, or 0 if the burn-in ended
    normally and no device that worked too little has time for another launch. at_work: UUID → session → times at work
    (busy_time.at_work).
    """
    stored, finished = archive.stored, archive.finished
    burn_in = requested(stored.configuration)
    so_far = busy_time.remaining_of(archive, at_work)
    over = finished is not None and not finished.interrupted and not finished.broken and not so_far.short
    least = _least(archive, burn_in)
    return {
        device.uuid: Ahead(0.0 if over else so_far.left_s, busy_time.launch_s(archive, device), least)
        for device in stored.devices
    }


def _least(archive: Archive, burn_in: BurnIn) -> str:
    """Return value and options of --burn-in with enough time for a whole round: "2h --level full".

    The duration is the estimated shortest one for the run's level, or LONGER times the requested duration if that
    estimate is no longer than requested. The level is omitted if configs/burn_in.yaml no longer has it.
    """
    stored, table = archive.stored, levels.load()
    longer_s = LONGER * burn_in.duration_s
    if burn_in.level not in table.levels:
        return written(min(longer_s, LONGEST_S))
    least_s = time_needed.least_s(stored.plan, stored.configuration, stored.devices, table)
    return f"{written(min(least_s if least_s > burn_in.duration_s else longer_s, LONGEST_S))} --level {burn_in.level}"


def untried(archive: Archive, lost: Iterable[Lost], done: Collection[tuple[str, int]]) -> frozenset[str]:
    """Return the ids of cells that have no result although they neither failed nor have a quarantined device.

    The run has not reached or completed them, or skipped them. They have no launch in `done` or `lost`. lost: launches
    without a valid result that the verdict considers. done: (cell id, round) of launches with a result.
    """
    tried = {cell_id for cell_id, _ in done} | {launch.cell.id for launch in lost}
    return frozenset(
        cell.id
        for cell in archive.stored.plan.cells
        if cell.id not in tried and archive.quarantined.keys().isdisjoint(cell.devices)
    )
