"""orchestrator/state/turns.py: how devices come to solo and to loaded launches in a run that has both."""

import functools
import random
from collections import defaultdict
from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.run_configuration import Plan, Slot
from orchestrator.plan import planner
from orchestrator.state import gangs, transitions, turns
from orchestrator.state.slots import SETTLED, Ended, Freed, NextLaunch, Quarantined, RunState, Skip, Started
from protocol.cell import Device, DeviceKind, Mode, Workload
from protocol.failure import Category, Failure
from tests.fakes.configurations import configuration
from tests.fakes.runs import shipped
from tests.fakes.steps import begun, ended, failure

MODES = st.permutations([Mode.LOADED, Mode.SOLO]).map(tuple)
HURTS = (Category.OUT_OF_MEMORY, Category.CRASHED, Category.EXCEPTION, Category.NO_OUTCOME, Category.IMPORT_ERROR)
FAILURES = st.sampled_from([None, None, None, *map(failure, HURTS)])


@functools.cache
def planned(devices: int, launches: int, modes: tuple[Mode, ...]) -> RunState:
    """A run of two models at two batch sizes."""
    asked = configuration(
        models=shipped("lstm", "autoencoder"),
        probes=(),
        workloads=(Workload.INFERENCE,),
        batch_sizes=(1, 8),
        launches=launches,
        modes=modes,
    )
    machine = [Device(uuid=f"d{at}", gpu_id=at, kind=DeviceKind.CPU, name="x") for at in range(devices)]
    return transitions.begin(planner.make(asked, machine))


@dataclass
class Node:
    """Devices at work, each launch for as long as chance has it."""

    now: RunState
    fates: list[Failure | None]
    chance: random.Random
    at_work: dict[int, NextLaunch] = field(default_factory=dict)
    made: list[NextLaunch] = field(default_factory=list)
    beside: list[tuple[NextLaunch, list[NextLaunch]]] = field(default_factory=list)
    left: list[tuple[NextLaunch, list[Slot]]] = field(default_factory=list)

    def next_on(self, uuid: str) -> Slot | None:
        """What is next on a device that may work."""
        return None if self.now.devices[uuid].quarantined else gangs.first(self.now, uuid)

    def begin(self) -> None:
        """Make what can be made now, and look again, as the loop does at every event."""
        while True:
            self.now, following = transitions.next_launches(self.now)
            if not following:
                return
            waiting = [slot for uuid in self.now.devices if (slot := self.next_on(uuid)) is not None]
            for one in following:
                self.left.append((one, waiting))
                self.now = begun(self.now, one)
                self.at_work[one.launch] = one
                self.beside.append((one, [other for other in self.at_work.values() if other is not one]))
                self.made.append(one)

    def end(self) -> None:
        """One of those at work ends, however it does."""
        one = self.at_work.pop(self.chance.choice(sorted(self.at_work)))
        fate = self.fates.pop() if self.fates else None
        self.now = ended(self.now, one, fate)

    def work(self) -> None:
        """Until nothing is left that could be made."""
        self.begin()
        while self.at_work:
            self.end()
            self.begin()


@given(st.integers(2, 3), st.integers(1, 2), MODES, st.lists(FAILURES, max_size=30), st.integers(0, 10**6))
def test_solo_is_alone_nobody_is_kept_for_ever_and_turns_are_kept(
    devices: int, launches: int, modes: tuple[Mode, ...], fates: list[Failure | None], seed: int
) -> None:
    """Whatever fails and however long it takes: every slot is settled, and no launch begins before its turn."""
    node = Node(planned(devices, launches, modes), fates, random.Random(seed))
    node.work()
    out = {uuid for uuid, device in node.now.devices.items() if device.quarantined}
    open_slots = [slot for slot, one in node.now.slots.items() if one.status not in SETTLED]
    assert all(node.now.cells[cell].devices[0] in out for cell, _ in open_slots)
    for one, others in node.beside:
        assert not others or all(each.cell.mode is Mode.LOADED for each in (one, *others))
    for one, waiting in node.left:
        assert all(turns.of(node.now, slot) >= turns.of(node.now, one.slot) for slot in waiting)


def test_loaded_launches_begin_when_every_device_has_come_to_them() -> None:
    """Of three devices that begin with solo launches, none loads the node before the last is through with its own."""
    node = Node(planned(3, 1, (Mode.SOLO, Mode.LOADED)), [], random.Random(1))
    node.work()
    modes = [one.cell.mode for one in node.made]
    assert modes == [Mode.SOLO] * 12 + [Mode.LOADED] * 12
    order = [one.device for one in node.made[:12]]
    assert all(len(set(order[at : at + 3])) == 3 for at in range(0, 12, 3))  # in turn, and not one after another
    assert len(node.beside[14][1]) == 2


def test_each_round_has_its_modes_in_the_order_that_was_asked_for() -> None:
    """Loaded, solo, loaded, solo: what the room does in between falls upon both."""
    node = Node(planned(2, 2, (Mode.LOADED, Mode.SOLO)), [], random.Random(1))
    node.work()
    by_turn: dict[turns.Turn, set[Mode]] = defaultdict(set)
    for one in node.made:
        by_turn[turns.of(node.now, one.slot)].add(one.cell.mode)
    assert by_turn == {(0, 0): {Mode.LOADED}, (0, 1): {Mode.SOLO}, (1, 0): {Mode.LOADED}, (1, 1): {Mode.SOLO}}
    assert [turns.of(node.now, one.slot) for one in node.made] == sorted(
        turns.of(node.now, one.slot) for one in node.made
    )


def test_a_device_that_is_out_is_not_waited_for() -> None:
    """The others go on to their next turn without it."""
    node = Node(planned(2, 1, (Mode.LOADED, Mode.SOLO)), [], random.Random(1))
    node.now = transitions.step(node.now, Quarantined("d1", "why"))
    node.work()
    assert [one.cell.mode for one in node.made] == [Mode.LOADED] * 4 + [Mode.SOLO] * 4


def test_with_one_mode_devices_go_on_by_themselves() -> None:
    """A device that is quicker is a round ahead of another."""
    now, following = transitions.next_launches(planned(2, 2, (Mode.LOADED,)))
    now = begun(now, *following)
    for _ in range(5):
        quick = next(one for one in following if one.device == "d0")
        now = transitions.step(transitions.step(now, Ended(quick.launch, None)), Freed("d0"))
        now, following = transitions.next_launches(now)
        now = transitions.step(now, Started(following[0].launch, following[0].slot, "d0", 1))
    assert turns.of(now, following[0].slot) == (1, 0)


def test_whoever_waits_for_a_launch_that_need_not_be_made_waits_no_longer() -> None:
    """Two devices wait for each other's next launch, and neither is made, because its model is skipped."""
    order = {
        "d0": [("lstm", Mode.LOADED, 0), ("autoencoder", Mode.LOADED, 1)],
        "d1": [("lstm", Mode.SOLO, 0), ("autoencoder", Mode.SOLO, 1)],
    }
    full = planned(2, 1, (Mode.LOADED, Mode.SOLO))
    ids = {(cell.devices[0], cell.model, cell.mode): cell.id for cell in full.cells.values() if cell.batch_size == 1}
    made = Plan(
        cells=tuple(full.cells.values()),
        order={
            uuid: tuple((ids[uuid, model, mode], number) for model, mode, number in slots)
            for uuid, slots in order.items()
        },
    )
    skip = Skip(model="lstm", category=Category.IMPORT_ERROR, devices=("d0",))
    now = msgspec.structs.replace(transitions.begin(made), skipped={"lstm": skip}, in_vain={"d0": 1, "d1": 1})
    _, following = transitions.next_launches(now)
    assert [(one.device, turns.of(now, one.slot)) for one in following] == [("d0", (1, 0))]
