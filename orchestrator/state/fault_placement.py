"""Attribute a failure to the model or the device. Pure.

    fails on d0 ──▶ the same cell is next on d1 ─┬─ fails alike ──▶ the model is at fault: skipped on every device
                                                 ├─ is measured ──▶ d0 is at fault: a strike; the second quarantines it
                                                 └─ neither ──────▶ unknown

    no other device ──▶ another model is next on d0 ─┬─ is measured ──▶ d0 works: probably the model is at fault
                                                     └─ fails too ────▶ d0 is quarantined, if it is a GPU

Only devices of one product are compared, because a library may fail on one product alone. A slot is a planned
measurement: (cell id, round).
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from orchestrator.config.run_configuration import Slot
from orchestrator.state.failure_policy import BEFORE_DEVICE, POINTS_AT_DEVICE, POLICY, STRIKES, Reach
from orchestrator.state.slots import RunState, Skip, SlotStatus, is_skipped, rounds, scopes, wait_in_vain, with_device
from protocol.cell import Cell
from protocol.failure import Category, Phase


class Blame(enum.StrEnum):
    """What a failure is attributed to.

    OPEN: not known yet, because another device will still try the cell. UNKNOWN: no other device shows the cause.
    """

    MODEL = "the model"
    DEVICE = "the device"
    OPEN = "not known yet"
    UNKNOWN = "unknown"


class Elsewhere(NamedTuple):
    """Outcome of a failed cell on one other device, for one round. measured: True if it has a result there.

    failures: categories of its failed attempts there. pending: True if it runs there or will be tried there.
    """

    measured: bool
    failures: tuple[Category, ...]
    pending: bool

    @property
    def tells(self) -> bool:
        """Whether the cell was tried on the other device, is tried there, or will be."""
        return self.measured or self.pending or bool(self.failures)


def blame(category: Category, others: Iterable[Elsewhere]) -> Blame:
    """Attribute a failure by the outcomes of the same cell on other devices (`others`).

    MODEL if the cell failed on another device with the same category and has no result there; else DEVICE if it has a
    result on one; else OPEN if another device tries or will try it; else UNKNOWN.
    """
    others = tuple(others)
    if any(category in other.failures and not other.measured for other in others):
        return Blame.MODEL
    if any(other.measured for other in others):
        return Blame.DEVICE
    return Blame.OPEN if any(other.pending for other in others) else Blame.UNKNOWN


def twins(cell: Cell, kinds: Mapping[str, str]) -> Iterator[Cell]:
    """Yield a copy of `cell`, which uses one device, for each other device of the same product.

    kinds: UUID → product name of each device, the device of `cell` included.
    """
    own = cell.devices[0]
    for other, kind in kinds.items():
        if other != own and kind == kinds[own]:
            yield msgspec.structs.replace(cell, devices=(other,))


def try_elsewhere(state: RunState, slot: Slot) -> RunState:
    """Return the state in which the cell of a finally failed slot is next on another device, an idle one if possible.

    The slot is in `unattributed` until its cause is known. If no other device can run the cell and the failure points
    at the hardware, another model is next on the failed GPU; if another model failed on it before, the GPU is
    quarantined. Nothing changes if the cell is skipped, or if a signal had stopped the process (SlotState.stopped).
    """
    if state.slots[slot].stopped or is_skipped(state, state.cells[slot[0]]):
        return state
    others = _slots(state, slot)
    if others:
        state = msgspec.structs.replace(state, unattributed=(*state.unattributed, slot))
    if not any(_elsewhere(state, twin).tells for twin in others):
        return _doubt(state, slot)
    waiting = [twin for twin in others if state.slots[twin].status is SlotStatus.WAITING and not _out(state, twin)]
    if judge(state, slot) is not Blame.OPEN or not waiting:
        return state
    twin = min(waiting, key=lambda candidate: state.devices[_device(state, candidate)].running is not None)
    uuid = _device(state, twin)
    queue = (twin, *(other for other in state.devices[uuid].queue if other != twin))
    return with_device(state, uuid, queue=queue)


def judge(state: RunState, slot: Slot) -> Blame:
    """Attribute the last failure of a failed slot by the outcomes of its cell on other devices so far."""
    return blame(state.slots[slot].failures[-1], (_elsewhere(state, twin) for twin in _slots(state, slot)))


def conclude(state: RunState) -> RunState:
    """Attribute the failures in `unattributed` whose cause is known now, and return the state after that.

    A model at fault is skipped. A device at fault gets a strike; the second one quarantines it. A failure before the
    device was used (BEFORE_DEVICE) gives no strike. Other failures stay.
    """
    for slot in state.unattributed:
        if slot not in state.unattributed:
            continue  # the model was skipped because of another slot
        match judge(state, slot):
            case Blame.MODEL:
                state = skip_model(state, slot)
            case Blame.DEVICE:
                state = _strike(_without(state, slot), slot)
            case Blame.OPEN | Blame.UNKNOWN:
                pass  # a resumed run may have more devices
    return state


def skip_model(state: RunState, slot: Slot) -> RunState:
    """Return the state in which the faulty part of a model is skipped. slot: failed slot that shows the fault.

    failure_policy.POLICY says how large this part is (Reach). It is the whole model after a failure during import, and
    also after one during build if the policy says CELL. Failures of skipped cells no longer count against devices. If
    `state.skips` is False, nothing is skipped, and the slot only leaves `unattributed`.
    """
    if not state.skips:
        return _without(state, slot)
    cell, failed = state.cells[slot[0]], state.slots[slot]
    category = failed.failures[-1]
    if is_skipped(state, cell):
        return state
    scope = scopes(cell)[_reach(category, failed.failed_in)]
    only = scope.removeprefix(cell.model).strip()
    alike = (twin for twin in _slots(state, slot) if category in state.slots[twin].failures)
    devices = dict.fromkeys(_device(state, other) for other in (slot, *alike))

    def others(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple(other for other in slots if scope not in scopes(state.cells[other[0]]))

    state = msgspec.structs.replace(
        state,
        skipped={**state.skipped, scope: Skip(model=cell.model, only=only, category=category, devices=tuple(devices))},
        unattributed=others(state.unattributed),
        devices={
            uuid: msgspec.structs.replace(device, strikes=others(device.strikes))
            for uuid, device in state.devices.items()
        },
    )
    return msgspec.structs.replace(state, in_vain=wait_in_vain(state))


def _reach(category: Category, phase: Phase) -> Reach:
    reach = POLICY[category].skips
    whole = phase is Phase.IMPORT or (phase is Phase.BUILD and reach is Reach.CELL)
    return Reach.MODEL if whole else reach


def _strike(state: RunState, slot: Slot) -> RunState:
    if state.slots[slot].failed_in in BEFORE_DEVICE:
        return state
    uuid = _device(state, slot)
    strikes = (*state.devices[uuid].strikes, slot)
    state = with_device(state, uuid, strikes=strikes)
    if len(strikes) < STRIKES or _out(state, slot):
        return state
    return with_device(state, uuid, quarantined=f"{len(strikes)} cells failed on it and work on another device")


def _doubt(state: RunState, slot: Slot) -> RunState:
    uuid, failed = _device(state, slot), state.slots[slot]
    if uuid not in state.gpus or failed.failures[-1] not in POINTS_AT_DEVICE or failed.failed_in in BEFORE_DEVICE:
        return state
    doubts = (*state.devices[uuid].doubts, slot)
    state = with_device(state, uuid, doubts=doubts)
    models = tuple(dict.fromkeys(state.cells[doubt[0]].model for doubt in doubts))
    if len(models) >= STRIKES:
        return state if _out(state, slot) else with_device(state, uuid, quarantined=in_a_row(models))
    queue = state.devices[uuid].queue
    cells = ((queued, state.cells[queued[0]]) for queued in queue if len(state.cells[queued[0]].devices) == 1)
    other = next((queued for queued, cell in cells if cell.model not in models and not is_skipped(state, cell)), None)
    if other is None:
        return state
    return with_device(state, uuid, queue=(other, *(queued for queued in queue if queued != other)))


def in_a_row(models: Iterable[str]) -> str:
    """Return the reason for the quarantine of a device on which these models failed, one after the other."""
    return f"{' and '.join(models)} failed on it in a row, and there is no other device to find the cause"


def _elsewhere(state: RunState, twin: Slot) -> Elsewhere:
    there = state.slots[twin]
    pending = there.status is SlotStatus.RUNNING or (there.status is SlotStatus.WAITING and not _out(state, twin))
    failures = there.failures[:-1] if there.stopped else there.failures
    return Elsewhere(there.status is SlotStatus.MEASURED, failures, pending)


def _slots(state: RunState, slot: Slot) -> list[Slot]:
    ids = [twin.id for twin in twins(state.cells[slot[0]], state.kinds)]
    found = [
        candidate
        for twin in ids
        for number in range(rounds(state, twin))
        if (candidate := (twin, number)) in state.slots
    ]
    return sorted(found, key=lambda candidate: candidate[1])


def _without(state: RunState, slot: Slot) -> RunState:
    return msgspec.structs.replace(state, unattributed=tuple(other for other in state.unattributed if other != slot))


def _device(state: RunState, slot: Slot) -> str:
    return state.cells[slot[0]].devices[0]


def _out(state: RunState, slot: Slot) -> bool:
    return bool(state.devices[_device(state, slot)].quarantined)
