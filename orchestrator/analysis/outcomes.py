"""The outcome of each planned cell (a model in one configuration on one device), from the run's journal.

    a result at the requested size                           ok
    a result at a smaller size                               degraded
    known to be too large; a smaller size is planned anyway  referred, to that cell
    out of memory at batch 1, or before the first forward    does not fit
    torch.compile lacks a compiler; operator: no shape runs  unsupported
    another failure, lost result, or its model was skipped   failed
    no time left for it                                      dropped
    no attempt yet, or the last one may be repeated          missing

An interrupted, stopped, paused, throttled or contaminated attempt may be repeated (Trait.REPEATED).
A scan for the batch size (`-b auto`) is ok when the largest and the best size are known. The best is its result.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Slot
from orchestrator.figures.cells import Status
from orchestrator.plan import batch_scan
from orchestrator.state.failure_policy import BEFORE_FIRST_FORWARD, Trait, has_trait
from orchestrator.state.replay import LOST, Replay, interrupted
from orchestrator.state.slots import RunState, SlotState, SlotStatus, scopes
from orchestrator.state.transitions import fitting
from protocol.cell import AUTO, Cell
from protocol.failure import Category, Failure

NOT_YET: Final = "not measured yet: the run is still running"


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the measurement of a cell ended.

    batch_size: size at which its figures were measured; None without figures. A referred cell is represented by another
    planned cell: then it is the size at which that cell was measured or, without figures, planned. valid_launches:
    numbers of the launches that make up its figures. refers_to: id of that cell, or None. reason: why the cell is not
    ok, for people.
    """

    status: Status
    batch_size: int | None = None
    valid_launches: tuple[int, ...] = ()  # launches that make up its figures, one per round, all at batch_size
    refers_to: str | None = None  # id of the planned cell that stands for this one
    reason: str = ""  # for people, empty if the cell is ok


_SKIPPED: Final = (  # by policy.Reach
    "the model is skipped",
    "the model is skipped in this workload, precision and input size",
    "the cell is skipped",
)


def derive(replay: Replay, *, goes_on: bool = False) -> dict[str, CellOutcome]:
    """Return cell id → outcome of every planned cell. goes_on: the run is not over, so cells may be missing for now."""
    view = _View(replay, goes_on=goes_on)
    outcomes: dict[str, CellOutcome] = {}
    for cell in sorted(replay.plan.cells, key=lambda cell: cell.batch_size):  # what a larger size refers to comes first
        outcomes[cell.id] = view.outcome(cell, outcomes)
    return {cell.id: outcomes[cell.id] for cell in replay.plan.cells}


def slots_by_cell(state: RunState) -> Mapping[str, Sequence[Slot]]:
    """Return cell id → slots of the cell, added ones included. A cell without slots has no entry."""
    by_cell: dict[str, list[Slot]] = defaultdict(list)
    for slot in state.slots:
        by_cell[slot[0]].append(slot)
    return by_cell


def launches_counted(state: RunState, slots: Sequence[Slot], planned: Collection[Slot]) -> tuple[int, ...]:
    """Return the numbers of the launches that count for a cell's figures, ascending; () if none has a result.

    slots: all slots of the cell. planned: slots of the plan, without added launches. Of a scan, the launch with the
    best batch size counts. Else the measured launches with one batch size count: the smallest that was measured in
    planned slots or, if none was, in any slot.
    """
    if not slots:
        return ()
    if state.cells[slots[0][0]].batch_size == AUTO:
        best = batch_scan.best(state.slots[slots[0]].tried)
        return () if best is None else (best.launch,)
    good = {slot: state.slots[slot] for slot in slots if state.slots[slot].status is SlotStatus.MEASURED}
    of_the_plan = [slot_state for slot, slot_state in good.items() if slot in planned]
    # The smallest size fitted every time. Added launches do not lower it.
    size = min((slot_state.batch_size for slot_state in of_the_plan or good.values()), default=None)
    return tuple(
        sorted(
            slot_state.launch
            for slot_state in good.values()
            if slot_state.batch_size == size and slot_state.launch is not None
        )
    )


class _View:
    def __init__(self, replay: Replay, *, goes_on: bool) -> None:
        self._replay, self._state, self._goes_on = replay, replay.state, goes_on
        self._slots = slots_by_cell(replay.state)
        self._planned = replay.plan.slots
        self._attempts = {attempt.start.launch: attempt for attempt in replay.attempts}
        self._unfit, self._unfit_at_all, self._not_built = _memory(replay)

    def outcome(self, cell: Cell, smaller: Mapping[str, CellOutcome]) -> CellOutcome:
        outcome = self._outcome(cell, smaller)
        if self._goes_on and outcome.status is Status.MISSING and not self._replay.quarantined.keys() & {*cell.devices}:
            return msgspec.structs.replace(outcome, reason=NOT_YET)
        return outcome

    def _outcome(self, cell: Cell, smaller: Mapping[str, CellOutcome]) -> CellOutcome:
        slots = [self._state.slots[slot] for slot in self._slots.get(cell.id, ())]
        if cell.batch_size == AUTO:
            return self._of_scan(cell, slots)
        if launches := launches_counted(self._state, self._slots.get(cell.id, ()), self._planned):
            return self._measured(cell, launches)
        if unsupported := self._unsupported(slots):
            return unsupported
        without_result = self._without_result(cell, slots)
        early = self._unfit_at_all.get(_family(cell))
        if cell.id in self._not_built:
            return CellOutcome(status=Status.DOES_NOT_FIT, reason=_BEFORE_FORWARD)
        if early is not None and without_result.status is not Status.FAILED:
            why = f"not tried, because a larger cell failed: batch size {early} ran {_BEFORE_FORWARD}"
            return CellOutcome(status=Status.DOES_NOT_FIT, reason=why)
        if target := next((slot.refers_to for slot in slots if slot.refers_to is not None), None):
            return self._referred(cell, slots, target, smaller[target])
        if any(map(_is_unfit, slots)):
            return CellOutcome(status=Status.DOES_NOT_FIT, reason="out of memory down to batch size 1")
        return without_result

    def _of_scan(self, cell: Cell, slots: Sequence[SlotState]) -> CellOutcome:
        scan = slots[0]
        best = batch_scan.best(scan.tried)
        if scan.status is SlotStatus.MEASURED and best is not None:
            return CellOutcome(status=Status.OK, batch_size=best.batch_size, valid_launches=(best.launch,))
        if unsupported := self._unsupported(slots):
            return unsupported
        if scan.status is SlotStatus.DOES_NOT_FIT:
            return CellOutcome(status=Status.DOES_NOT_FIT, reason="out of memory at batch size 1")
        if scan.status is SlotStatus.FAILED and scan.launch is not None:
            failure = self._failure(scan.launch)
            return CellOutcome(status=Status.FAILED, reason=f"{failure.category}: {failure.message}")
        why = "not attempted" if scan.launch is None else "the scan was not finished"
        return self._skipped(cell) or self._dropped(cell) or CellOutcome(status=Status.MISSING, reason=why)

    def _measured(self, cell: Cell, launches: tuple[int, ...]) -> CellOutcome:
        size = self._attempts[launches[0]].start.batch_size
        if size == cell.batch_size:
            return CellOutcome(status=Status.OK, batch_size=size, valid_launches=launches)
        return CellOutcome(
            status=Status.DEGRADED,
            batch_size=size,
            valid_launches=launches,
            reason=f"measured at batch size {size}, because batch size {cell.batch_size} ran out of memory",
        )

    def _referred(self, cell: Cell, slots: Sequence[SlotState], target: str, outcome: CellOutcome) -> CellOutcome:
        if outcome.status is Status.DOES_NOT_FIT:
            return outcome
        target = outcome.refers_to or target
        planned = self._state.cells[target].batch_size
        tried = any(Category.OUT_OF_MEMORY in slot.failures for slot in slots)
        ran_out = f"batch size {cell.batch_size} ran out"
        why = ran_out if tried else f"not tried: batch size {self._unfit[_family(cell)]} ran out"
        shrunk = outcome.batch_size is not None and outcome.batch_size != planned
        measured = f", measured at {outcome.batch_size}" if shrunk else ""
        return CellOutcome(
            status=Status.REFERRED,
            batch_size=outcome.batch_size or planned,
            refers_to=target,
            reason=f"{why} of memory; see the cell of batch size {planned}{measured}",
        )

    def _without_result(self, cell: Cell, slots: Sequence[SlotState]) -> CellOutcome:
        skipped = self._skipped(cell)
        if skipped is None and (dropped := self._dropped(cell)) is not None:
            return dropped
        tried = [slot for slot in slots if slot.launch is not None]
        quarantine = next(filter(None, map(self._replay.quarantines.get, cell.devices)), "")
        gone = f"the device was quarantined: {quarantine}" if quarantine else ""
        if not tried:
            size = min((fitting(self._state, slot) for slot in self._slots.get(cell.id, ())), default=cell.batch_size)
            return skipped or _missing(gone or f"not attempted at batch size {size}")
        last = max(tried, key=lambda slot: slot.launch or 0)
        if last.launch in self._replay.lost:
            return CellOutcome(status=Status.FAILED, reason=LOST)
        category = last.failures[-1] if last.failures else Category.INTERRUPTED
        if last.status is not SlotStatus.FAILED:
            if has_trait(category, Trait.REPEATED) or last.status is SlotStatus.RUNNING:
                return skipped or _missing("interrupted before it had a result")
            if category is Category.OUT_OF_MEMORY:
                return skipped or _missing(gone or f"not attempted at batch size {last.batch_size // 2}")
            if gone or self._goes_on:
                return skipped or _missing(gone)
        return CellOutcome(status=Status.FAILED, reason=_final(last, self._failure(last.launch)))

    def _unsupported(self, slots: Sequence[SlotState]) -> CellOutcome | None:
        launches = (slot.launch for slot in slots if slot.status is SlotStatus.UNSUPPORTED)
        tried = next((launch for launch in launches if launch is not None), None)
        if tried is None:
            return None
        return CellOutcome(status=Status.UNSUPPORTED, reason=self._failure(tried).message)

    def _skipped(self, cell: Cell) -> CellOutcome | None:
        outcome = None
        for scope, words in zip(scopes(cell), _SKIPPED, strict=True):
            if why := self._replay.skipped.get(scope):
                outcome = CellOutcome(status=Status.FAILED, reason=f"{words}: {why}")
        return outcome

    def _dropped(self, cell: Cell) -> CellOutcome | None:
        slots = self._slots.get(cell.id, ())
        if any(self._state.slots[slot].launch in self._replay.lost for slot in slots):
            return None
        dropped = [slot for slot in slots if self._state.slots[slot].status is SlotStatus.DROPPED]
        given = [self._replay.dropped.get(slot, "") for slot in dropped if slot in self._planned]
        return CellOutcome(status=Status.DROPPED, reason=given[-1]) if given else None

    def _failure(self, launch: int | None) -> Failure:
        attempt = None if launch is None else self._attempts.get(launch)
        return (attempt.failure if attempt is not None else None) or interrupted()


_BEFORE_FORWARD: Final = "out of memory before the first forward pass"


def _missing(reason: str) -> CellOutcome:
    return CellOutcome(status=Status.MISSING, reason=reason)


def _final(slot: SlotState, failure: Failure) -> str:
    if failure.category is not Category.INTERRUPTED:
        return f"{failure.category}: {failure.message}"
    times = slot.failures.count(Category.INTERRUPTED)
    return f"interrupted {times} times and not tried again: {failure.message}. Start a new run to measure it"


def _is_unfit(slot: SlotState) -> bool:
    if slot.status is SlotStatus.DOES_NOT_FIT:
        return True
    ran_out = slot.status is SlotStatus.WAITING and slot.failures[-1:] == (Category.OUT_OF_MEMORY,)
    return ran_out and slot.batch_size == 1


def _memory(replay: Replay) -> tuple[dict[Cell, int], dict[Cell, int], set[str]]:
    """Return what ran out of memory: (smallest batch sizes, smallest early batch sizes, cells with an early failure).

        smallest batch sizes          family → smallest batch size that ran out of memory
        smallest early batch sizes    the same of early failures alone, which precede the first forward pass
        cells with an early failure   ids of cells

    A family is all cells that differ only in batch size. Its key has batch size 0. Batch size scans are ignored.
    """
    smallest: dict[Cell, int] = {}
    early: dict[Cell, int] = {}
    not_built: set[str] = set()
    for attempt in replay.attempts:
        cell, failure = replay.state.cells[attempt.start.cell], attempt.failure
        if failure is None or failure.category is not Category.OUT_OF_MEMORY or cell.batch_size == AUTO:
            continue  # to a scan, out of memory is an answer
        family, size = _family(cell), attempt.start.batch_size
        smallest[family] = min(smallest.get(family, size), size)
        if failure.phase in BEFORE_FIRST_FORWARD:
            early[family] = min(early.get(family, size), size)
            not_built.add(cell.id)
    return smallest, early, not_built


def _family(cell: Cell) -> Cell:
    return msgspec.structs.replace(cell, batch_size=0)
