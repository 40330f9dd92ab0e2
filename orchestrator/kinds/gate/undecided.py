"""Decide which cells of a gate need another round, and whether there is time for it. Pure.

UNSEEN_PERCENT is the largest slow-down that may stay unseen. A cell is undecided while its verdict is INCONCLUSIVE and
more launches may change that, or while a slow-down above UNSEEN_PERCENT is not ruled out.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from orchestrator.analysis.evidence import Evidence
from orchestrator.compare.comparison import ComparedCell
from orchestrator.figures.keys import CellKey
from orchestrator.kinds.gate import noise, planning, sides
from orchestrator.state.added_launches import Doubt, Look
from orchestrator.state.archive import Archive
from orchestrator.stats import two_runs
from orchestrator.stats.two_runs import ChangeVerdict

UNSEEN_PERCENT: Final = 100 * two_runs.LARGEST_UNSEEN
"""Largest slow-down in percent that a gate may leave unseen as long as it has time."""


def look(archive: Archive, evidence: Evidence) -> Look:
    """Return the cells that need another round, and a warning if time will not suffice; `Look()` if none needs one.

    Raises UserError if the stored baseline is damaged.
    """
    before, after, comparison = sides.compared(archive, evidence)
    open_ = [cell for cell in comparison.cells if needs_launches(cell)]
    if not open_:
        return Look()
    warning = _warning(archive, open_)
    gate = planning.requested(archive.stored.configuration)
    return Look(
        doubts=tuple(_doubts(archive, evidence, open_)),
        most=two_runs.MOST_LAUNCHES,
        word="undecided",
        warning=warning,
        advice=noise.advice(gate, noise.variation(before, after)) if warning else "",
    )


def needs_launches(cell: ComparedCell) -> bool:
    """Whether more launches may decide an inconclusive cell, or rule out a slow-down above UNSEEN_PERCENT."""
    if cell.verdict is ChangeVerdict.NO_CHANGE:
        return (cell.excluded_percent or 0.0) > UNSEEN_PERCENT
    if cell.verdict is not ChangeVerdict.INCONCLUSIVE or cell.low is None:
        return False
    return cell.launches_needed is not None or cell.needed_beyond or 100 * (1 - cell.low) > UNSEEN_PERCENT


def _doubts(archive: Archive, evidence: Evidence, open_: Iterable[ComparedCell]) -> Iterable[Doubt]:
    plan, gate = archive.stored.plan, planning.requested(archive.stored.configuration)
    others = planning.partners(gate, plan) if gate.sides else {}
    uuids = {device.label: device.uuid for device in archive.stored.devices}
    ids_by_facts: dict[tuple[object, ...], list[str]] = {}
    for cell in plan.cells:
        if not gate.sides or cell.id in others:
            ids_by_facts.setdefault(_facts(sides.common(gate, cell)), []).append(cell.id)
    for compared in open_:
        ids = ids_by_facts[
            compared.model_name,
            compared.phase,
            compared.precision,
            compared.mode,
            compared.input_size,
            compared.batch_size,
        ]
        both = [*ids, *(others[cell] for cell in ids if cell in others)]
        if len(evidence.outcomes[ids[0]].valid_launches) % 2:
            both = [*both[len(ids) :], *ids]
        yield Doubt(uuids[compared.gpu_after], tuple(both))


def _facts(key: CellKey) -> tuple[object, ...]:
    return key.model_name, key.phase, key.precision, key.mode, key.input_size, key.batch_size


def _warning(archive: Archive, open_: Sequence[ComparedCell]) -> str:
    limit_s, spent_s = archive.stored.configuration.time_limit_s, archive.durations_s[-1]
    half_widths = [math.log(cell.high / cell.low) / 2 for cell in open_ if cell.low and cell.high]
    if not (limit_s and spent_s and half_widths):
        return ""
    unseen = -math.expm1(-median(half_widths) * math.sqrt(spent_s / limit_s))
    if 100 * unseen <= UNSEEN_PERCENT:
        return ""
    return f"within {limit_s:g} s this gate cannot detect changes below about {unseen:.0%}"
