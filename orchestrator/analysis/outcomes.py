"""What became of each planned cell, told from its attempts alone. The report says this, whatever ran.

    a result at the size asked for                           ok
    a result at a smaller size                               degraded
    known to be too large; a smaller size is planned anyway  referred, to that cell
    out of memory at batch 1, or before the first forward    does not fit
    another failure                                          failed
    no attempt, because its model was skipped                failed
    no time left for it                                      dropped
    no attempt, or only interrupted ones                     missing

A scan for the batch size is ok when it knows the largest and the best, which is the one that counts. Otherwise out of
memory halves the batch: 8, 4, 2, 1. A size that ran out of memory on a device is known not to fit there, and so
is every larger one; before the first forward it is the model that does not fit, at any size.
"""

import enum
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Plan
from orchestrator.plan import batch_scan
from orchestrator.state import scan_results
from orchestrator.state.archive import Attempt
from orchestrator.state.failure_policy import BEFORE_FIRST_FORWARD, POLICY, Reaction
from orchestrator.state.slots import SlotState, SlotStatus, scopes
from protocol.cell import AUTO, Cell
from protocol.failure import Category, Failure


class Status(enum.StrEnum):
    """Final state of a planned cell."""

    OK = "ok"
    DEGRADED = "degraded"
    REFERRED = "referred"
    DOES_NOT_FIT = "does_not_fit"
    FAILED = "failed"
    DROPPED = "dropped"
    MISSING = "missing"


NOT_YET: Final = "not measured yet: the run still goes on"
"""Why a cell has no result while somebody works on the run."""


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cell.

    batch_size: at which it was measured. counted: the launches whose results make up its figures, one for each round.
    refers_to: id of the planned cell that stands for this one. reason: one line for people, empty where all is well.
    """

    status: Status
    batch_size: int | None = None
    counted: tuple[int, ...] = ()
    refers_to: str | None = None
    reason: str = ""


_ENDED_WITH_THE_RUN: Final = frozenset(
    {Category.INTERRUPTED, Category.STOPPED, Category.RESULT_LOST, Category.THROTTLED, Category.CONTAMINATED}
)
"""What is measured again in any case, so that an attempt which is the last one was so because the run ended."""

_SKIPPED: Final = (
    "the model is skipped",
    "the model is skipped in this workload, precision and input size",
    "the cell is skipped",
)
"""By policy.Reach."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def derive(
    plan: Plan,
    attempts: Sequence[Attempt],
    damaged: Collection[int] = (),
    *,
    dropped: Mapping[tuple[str, int], str] = MappingProxyType({}),
    skipped: Mapping[str, str] = _NONE,
    taken_out: Mapping[str, str] = _NONE,
) -> dict[str, CellOutcome]:
    """The outcome of every planned cell, by its id.

    attempts: of the whole run, in order. damaged: launches whose result file is not what the journal promised; they
    count as failed, also where there was no time for others of their cell. dropped: launches for which there was no
    time, of which added ones take nothing from the plan; skipped: what nothing more was launched of (slots.scopes),
    taken_out: devices that are not used any more; each with the reason.
    """
    planned = plan.slots
    had_a_result = {attempt.start.cell for attempt in attempts if attempt.start.launch in damaged}
    given = {
        cell: CellOutcome(status=Status.DROPPED, reason=why)
        for (cell, number), why in dropped.items()
        if (cell, number) in planned and cell not in had_a_result
    }
    given |= {
        cell.id: CellOutcome(status=Status.FAILED, reason=f"{words}: {skipped[scope]}")
        for cell in plan.cells
        for scope, words in zip(scopes(cell), _SKIPPED, strict=True)
        if scope in skipped
    }
    tries: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        tries[attempt.start.cell].append(attempt)
    families: dict[Cell, dict[int, Cell]] = defaultdict(dict)
    outcomes: dict[str, CellOutcome] = {}
    for cell in plan.cells:
        if cell.batch_size == AUTO:
            found = scan_results.replay(cell, plan.rooms[cell.devices[0]], tries[cell.id], damaged)
            outcomes[cell.id] = _scanned(found, tries[cell.id], given.get(cell.id))
        else:
            families[_family(cell)][cell.batch_size] = cell
    quarantined = _quarantined(attempts) | {uuid: _taken_out(why) for uuid, why in taken_out.items()}
    for shared, members in families.items():
        out = next(filter(None, map(quarantined.get, shared.devices)), "")
        family = _Family(members, tries, damaged, planned, why=out, given=given)
        outcomes.update(family.outcomes())
    return outcomes


def awaited(plan: Plan, found: Mapping[str, CellOutcome], taken_out: Collection[str]) -> dict[str, CellOutcome]:
    """The outcomes of a run that still goes on: what is missing is still to come, except on devices taken out."""
    return {
        cell.id: msgspec.structs.replace(found[cell.id], reason=NOT_YET)
        if found[cell.id].status is Status.MISSING and not set(cell.devices) & set(taken_out)
        else found[cell.id]
        for cell in plan.cells
    }


def counted(
    tries: Sequence[Attempt], damaged: Collection[int], planned: Collection[tuple[str, int]]
) -> tuple[int, ...]:
    """The launches of one cell that make up its figures: one for each round, all at one batch size.

    Results at different sizes are never mixed: the smallest is what fitted every time; of a scan, the fastest. What
    was added beyond the planned launches makes the size no smaller than theirs.
    """
    good = [attempt for attempt in tries if attempt.promised is not None and attempt.start.launch not in damaged]
    speeds = {one.start.launch: one.end.figures.items_per_second for one in good if one.end and one.end.figures}
    if speeds:
        return (max(speeds, key=speeds.__getitem__),)
    of_the_plan = [one for one in good if (one.start.cell, one.start.round) in planned]
    size = min((attempt.start.batch_size for attempt in of_the_plan or good), default=None)
    rounds: dict[int, int] = {}
    for attempt in good:
        if attempt.start.batch_size == size:
            rounds.setdefault(attempt.start.round, attempt.start.launch)
    return tuple(rounds.values())


def halvings(batch_size: int) -> Iterator[int]:
    """The sizes that are tried after `batch_size` ran out of memory, down to 1."""
    while batch_size > 1:
        batch_size //= 2
        yield batch_size


def _scanned(found: SlotState, tries: Sequence[Attempt], given: CellOutcome | None) -> CellOutcome:
    best = batch_scan.best(found.tried)
    if found.status is SlotStatus.MEASURED and best is not None:
        return CellOutcome(status=Status.OK, batch_size=best.batch_size, counted=(best.launch,))
    if found.status is SlotStatus.DOES_NOT_FIT:
        return CellOutcome(status=Status.DOES_NOT_FIT, reason="out of memory at batch size 1")
    if found.status is SlotStatus.FAILED and tries[-1].failure is not None:
        return CellOutcome(status=Status.FAILED, reason=f"{tries[-1].failure.category}: {tries[-1].failure.message}")
    missing = CellOutcome(status=Status.MISSING, reason="the scan was not finished" if tries else "not attempted")
    return given or missing


class _Family:
    """Planned cells of one device that differ in their batch size alone: what one learns about memory, all know."""

    def __init__(
        self,
        members: Mapping[int, Cell],
        tries: Mapping[str, Sequence[Attempt]],
        damaged: Collection[int],
        planned: Collection[tuple[str, int]],
        *,
        why: str,
        given: Mapping[str, CellOutcome],
    ) -> None:
        """given: what is said of a cell whose attempts say nothing better. why: the device was taken out, or empty."""
        self._members = members
        self._tries = {size: tries.get(cell.id, ()) for size, cell in members.items()}
        self._damaged = damaged
        self._planned = planned
        self._quarantine = why
        self._given = given
        unfit = [one for attempts in self._tries.values() for one in attempts if _out_of_memory(one)]
        self._smallest_unfit = min((one.start.batch_size for one in unfit), default=None)
        early = [one.start.batch_size for one in unfit if _before_first_forward(one)]
        self._unfit_at_all = min(early, default=None)

    def outcomes(self) -> dict[str, CellOutcome]:
        """Smallest first: what a larger size refers to is known by then."""
        found: dict[int, CellOutcome] = {}
        for size in sorted(self._members):
            found[size] = self._outcome(size, found)
        return {self._members[size].id: outcome for size, outcome in found.items()}

    def _outcome(self, requested: int, smaller: Mapping[int, CellOutcome]) -> CellOutcome:
        if launches := counted(self._tries[requested], self._damaged, self._planned):
            return self._measured(requested, launches)
        if self._unfit_at_all is not None and (outcome := self._unfit(requested, self._unfit_at_all)) is not None:
            return outcome
        if not self._known_unfit(requested):
            return self._without_result(requested, requested)
        for size in halvings(requested):
            if size in smaller:
                return self._referred(requested, self._members[size].id, smaller[size])
            if not self._known_unfit(size):
                return self._without_result(requested, size)
        return CellOutcome(status=Status.DOES_NOT_FIT, reason="out of memory down to batch size 1")

    def _measured(self, requested: int, launches: tuple[int, ...]) -> CellOutcome:
        size = next(a.start.batch_size for a in self._tries[requested] if a.start.launch == launches[0])
        if size == requested:
            return CellOutcome(status=Status.OK, batch_size=size, counted=launches)
        return CellOutcome(
            status=Status.DEGRADED,
            batch_size=size,
            counted=launches,
            reason=f"measured at batch size {size}: {requested} ran out of memory",
        )

    def _unfit(self, requested: int, size: int) -> CellOutcome | None:
        """The model does not fit, as was seen at `size`. None where the cell had failed before for another reason."""
        why = "out of memory before the first forward pass"
        if not any(_out_of_memory(attempt) and _before_first_forward(attempt) for attempt in self._tries[requested]):
            if self._without_result(requested, requested).status is Status.FAILED:
                return None
            why = f"not tried: batch size {size} ran {why}, so no size would fit"
        return CellOutcome(status=Status.DOES_NOT_FIT, reason=why)

    def _referred(self, requested: int, target: str, outcome: CellOutcome) -> CellOutcome:
        """Point to the cell that was really measured; a chain of references is followed to its end."""
        if outcome.status is Status.DOES_NOT_FIT:
            return outcome
        target = outcome.refers_to or target
        planned = next(size for size, cell in self._members.items() if cell.id == target)
        tried = any(map(_out_of_memory, self._tries[requested]))
        why = f"batch size {requested} ran out" if tried else f"not tried: batch size {self._smallest_unfit} ran out"
        shrunk = outcome.batch_size is not None and outcome.batch_size != planned
        measured = f", measured at {outcome.batch_size}," if shrunk else ""
        return CellOutcome(
            status=Status.REFERRED,
            batch_size=outcome.batch_size or planned,
            refers_to=target,
            reason=f"{why} of memory; the cell of batch size {planned}{measured} stands for it",
        )

    def _known_unfit(self, size: int) -> bool:
        return self._smallest_unfit is not None and size >= self._smallest_unfit

    def _without_result(self, requested: int, size: int) -> CellOutcome:
        """No result although `size` is not known to be too large: it failed for another reason, or was not finished."""
        given = self._given.get(self._members[requested].id)
        if given is not None and given.status is Status.DROPPED:
            return given
        here = [attempt for attempt in self._tries[requested] if attempt.start.batch_size == size]
        if not here:
            why = self._quarantine or f"not attempted at batch size {size}"
            return given or CellOutcome(status=Status.MISSING, reason=why)
        last = here[-1]
        if last.start.launch in self._damaged:
            return CellOutcome(status=Status.FAILED, reason="its result file is missing or damaged")
        if last.failure is None or self._will_be_resumed(here, last.failure.category):
            return given or CellOutcome(status=Status.MISSING, reason="interrupted before it had a result")
        if self._quarantine and self._retries_left(here, last.failure.category):
            return given or CellOutcome(status=Status.MISSING, reason=self._quarantine)
        return CellOutcome(status=Status.FAILED, reason=self._final(here, last.failure))

    @staticmethod
    def _final(here: Sequence[Attempt], failure: Failure) -> str:
        """Why nothing more is tried; of what was cut short, also that it was the number of times that decided."""
        if failure.category is not Category.INTERRUPTED:
            return f"{failure.category}: {failure.message}"
        times = sum(one.failure is not None and one.failure.category is Category.INTERRUPTED for one in here)
        return f"interrupted {times} times and not tried again: {failure.message}; a new run measures it"

    def _will_be_resumed(self, here: Sequence[Attempt], category: Category) -> bool:
        """Whether the last attempt ended with the run, and `resume` would make another."""
        return category in _ENDED_WITH_THE_RUN and self._retries_left(here, category)

    @staticmethod
    def _retries_left(here: Sequence[Attempt], category: Category) -> bool:
        """Whether a fresh process would have tried once more on the same device."""
        same = sum(attempt.failure is not None and attempt.failure.category is category for attempt in here)
        return same <= POLICY[category].retries


def _quarantined(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Devices that were taken out of the run, and why."""
    reasons: dict[str, str] = {}
    for attempt in attempts:
        failure = attempt.failure
        if failure is not None and POLICY[failure.category].reaction is Reaction.QUARANTINE:
            reasons.setdefault(attempt.device, _taken_out(failure.category))
    return reasons


def _taken_out(why: str) -> str:
    return f"the device was taken out of this run: {why}"


def _out_of_memory(attempt: Attempt) -> bool:
    return attempt.failure is not None and attempt.failure.category is Category.OUT_OF_MEMORY


def _before_first_forward(attempt: Attempt) -> bool:
    return attempt.failure is not None and attempt.failure.phase in BEFORE_FIRST_FORWARD


def _family(cell: Cell) -> Cell:
    """What a cell shares with those that differ in the batch size alone (from which the seed is made)."""
    return msgspec.structs.replace(cell, batch_size=0, seed=0)
