"""kinds/burn_in/more_rounds.py: rounds are added until the time is up. The clock is a number."""

import heapq
import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from orchestrator.config.run_configuration import Configuration, Slot, StoredRun
from orchestrator.kinds.burn_in import levels, more_rounds, settings
from orchestrator.kinds.burn_in import planning as burn_in_plan
from orchestrator.kinds.burn_in.served_time import is_short
from orchestrator.state import coherence, transitions
from orchestrator.state.replay import another_chance
from orchestrator.state.slots import Added, Dropped, Ended, Freed, NextLaunch, Quarantined, SlotStatus, Started
from orchestrator.state.time_budget import Budget
from orchestrator.store.journal_records import Added as AddedRecord
from orchestrator.store.journal_records import Header, Record, Segment
from protocol.cell import Cell, Device, Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.configurations import configuration, shipped_catalogue
from tests.fakes.runs import gpus

BETWEEN_S = 1.5
"""From one launch to the next on a device."""
SEGMENT = Segment(boot_id="b", driver_version=None, tool_version="0", pid=1, wall=1.0, monotonic_ns=1)
Outcome = Callable[[NextLaunch], Category | None]


def well(_: NextLaunch) -> None:
    """Every launch has a result."""


def a_burn_in(duration: str) -> Configuration:
    """As of --burn-in."""
    return settings.configured(configuration(models=()), duration, None, shipped_catalogue(), levels.load())


class Simulated:
    """A burn-in of some GPUs. Failing launches end at once. out: GPU → when it is quarantined."""

    def __init__(self, devices: tuple[Device, ...], duration: str, outcome: Outcome, out: dict[str, float]) -> None:
        self.configuration = a_burn_in(duration)
        assert self.configuration.burn_in is not None
        self.asked = self.configuration.burn_in
        self.devices = devices
        self.plan = burn_in_plan.make(self.configuration, devices, levels.load())
        names = {device.uuid: device.name for device in devices}
        self.state = transitions.begin(self.plan, names, [device.uuid for device in devices], skips=False)
        self.budget = Budget(self.configuration, devices, self.asked.duration_s, began=0.0)
        self.last_s = dict.fromkeys(names, 0.0)
        self.load_s: Counter[str] = Counter()
        self.now = 0.0
        self.launches = 0
        self._ends: list[tuple[float, int, NextLaunch]] = []
        self._outcome, self._out = outcome, dict(out)
        while self._pass():
            pass

    def _pass(self) -> bool:
        for uuid in [uuid for uuid, at in self._out.items() if self.now >= at]:
            del self._out[uuid]
            self.state = transitions.step(self.state, Quarantined(uuid, "too hot"))
        for slot, reason in tuple(self.budget.decide(self.state, self.now)):
            assert reason
            self.state = transitions.step(self.state, Dropped(slot))
        self.state, following = transitions.next_launches(self.state)
        if not following and (slots := more_rounds.more(self.state, 7, self._fits)):
            self.state = transitions.step(self.state, Added(slots))
            self.state, following = transitions.next_launches(self.state)
        for one in following:
            self._launch(one)
        if not self._ends:
            return bool(following)
        self.now, launch, one = heapq.heappop(self._ends)
        category = self._outcome(one)
        failure = None if category is None else Failure(category=category, message="", phase=Phase.BUILD)
        self.state = transitions.step(self.state, Ended(launch, failure))
        for uuid in one.cell.devices:
            self.state = transitions.step(self.state, Freed(uuid))
            if failure is None:
                self.last_s[uuid] = self.now
                self.load_s[uuid] += self.asked.cell_s[self.devices[0].kind]
        return True

    def _fits(self, cell: Cell) -> bool:
        return self.budget.expected_s(cell) <= self.budget.ends - self.now

    def _launch(self, one: NextLaunch) -> None:
        self.launches += 1
        assert self.launches < 30_000
        self.state = transitions.step(self.state, Started(one.launch, one.slot, one.device, one.cell.batch_size))
        lasts_s = self.asked.cell_s[self.devices[0].kind] if self._outcome(one) is None else 0.5
        heapq.heappush(self._ends, (self.now + BETWEEN_S + lasts_s, one.launch, one))

    def is_short(self, device: Device) -> bool:
        """Whether it would be UNKNOWN for its time."""
        return is_short(self.last_s[device.uuid], self.asked.duration_s, self.asked.cell_s[device.kind])


@pytest.mark.parametrize("at_s", [300, 7200, 18_000])
@pytest.mark.parametrize("duration", ["8h", "30m"])
def test_the_others_have_their_time_when_one_is_quarantined(duration: str, at_s: float) -> None:
    """At any time, though the cells that all share are passed over from then on, which the plan has counted on."""
    devices = gpus(8)
    burn_in_run = Simulated(devices, duration, well, {devices[0].uuid: at_s / (1 if duration == "8h" else 16)})
    assert burn_in_run.state.devices[devices[0].uuid].quarantined
    assert not any(burn_in_run.is_short(device) for device in devices[1:])


@pytest.mark.parametrize("category", [Category.IMPORT_ERROR, Category.OUT_OF_MEMORY, Category.EXCEPTION])
@pytest.mark.parametrize("failing", [{Workload.TRUTH}, set(Workload) - {Workload.SOAK}])
def test_cells_that_fail_at_once_leave_their_time_to_the_others(category: Category, failing: set[Workload]) -> None:
    """Whatever is wrong with them, on all GPUs or on one: the burn-in is as long as was asked for."""
    devices = gpus(3)
    everywhere = Simulated(devices, "1h", lambda one: category if one.cell.workload in failing else None, {})
    assert not any(everywhere.is_short(device) for device in devices)
    assert all(everywhere.load_s[device.uuid] > 0.5 * 3600 for device in devices)
    here = devices[1].uuid
    on_one = Simulated(
        devices, "1h", lambda one: category if one.cell.workload in failing and one.device == here else None, {}
    )
    assert not any(on_one.is_short(device) for device in devices)


def test_a_gpu_on_which_nothing_works_is_not_started_all_burn_in() -> None:
    """A round of which nothing came is its last; the others go on."""
    devices = gpus(2)
    dead = devices[0].uuid
    alone = Simulated(devices[:1], "8h", lambda _: Category.IMPORT_ERROR, {})
    assert alone.launches <= 4 * len(alone.plan.order[dead])
    assert alone.now < 3600


def test_rounds_are_added_while_there_is_time_and_all_go_in_step() -> None:
    """Nothing is added that there is no time for, and each device has the cells of several devices in one order."""
    devices = gpus(3)
    burn_in_run = Simulated(
        devices, "2h", lambda one: None if one.cell.workload is not Workload.TRUTH else Category.CRASHED, {}
    )
    planned = burn_in_run.plan.slots
    assert any(slot not in planned for slot in burn_in_run.state.slots)
    for slot, known in burn_in_run.state.slots.items():
        if slot not in planned:
            assert known.status in {SlotStatus.MEASURED, SlotStatus.FAILED, SlotStatus.DROPPED}, (slot, known)
    added = [slot for slot in burn_in_run.state.slots if slot not in planned]
    in_vain = [slot for slot in added if burn_in_run.state.slots[slot].status is SlotStatus.DROPPED]
    assert len(in_vain) < len(burn_in_run.state.cells)
    assert all(not device.queue for device in burn_in_run.state.devices.values())


def test_a_round_is_for_all_who_share_cells_and_for_one_alone_where_they_do_not() -> None:
    """Where a GPU is out, who is through goes on without the cells that all share; else all have the same round."""
    devices = gpus(3)
    out = devices[0].uuid
    planned = burn_in_plan.make(a_burn_in("30m"), devices, levels.load())
    first_round = {uuid: tuple(slot for slot in order if slot[1] == 0) for uuid, order in planned.order.items()}
    plan = msgspec.structs.replace(planned, order=first_round)
    now = transitions.begin(plan, skips=False)
    assert more_rounds.more(now, 7, lambda _: True) == ()  # nobody is through
    while following := transitions.next_launches(now)[1]:
        for one in following:
            now = transitions.step(now, Started(one.launch, one.slot, one.device, one.cell.batch_size))
        assert more_rounds.more(now, 7, lambda _: True) == ()
        for one in following:
            now = transitions.step(now, Ended(one.launch, None))
            for uuid in one.cell.devices:
                now = transitions.step(now, Freed(uuid))
    together = more_rounds.more(now, 7, lambda _: True)
    assert sorted(together) == sorted((cell, 1) for cell in now.cells)
    assert more_rounds.more(now, 7, lambda _: True) == together
    after = transitions.step(now, Added(together))
    work = [[_work(after.cells[slot[0]]) for slot in after.devices[device.uuid].queue] for device in devices]
    assert work[0] == work[1] == work[2]
    assert more_rounds.more(now, 7, lambda _: False) == ()
    without = transitions.step(now, Quarantined(out, "too hot"))
    alone = more_rounds.more(without, 7, lambda _: True)
    assert sorted(alone) == sorted((cell.id, 1) for cell in now.cells.values() if out not in cell.devices)


class Stepped:
    """The first rounds of a burn-in whose launches end in any order. told: the records of the journal."""

    def __init__(self, devices: tuple[Device, ...], rounds: int, chance: random.Random) -> None:
        self.configuration, self.devices = a_burn_in("30m"), devices
        planned = burn_in_plan.make(self.configuration, devices, levels.load())
        order = {uuid: tuple(slot for slot in mine if slot[1] < rounds) for uuid, mine in planned.order.items()}
        self.plan = msgspec.structs.replace(planned, order=order)
        self.state = transitions.begin(self.plan, skips=False)
        uuids = tuple(device.uuid for device in devices)
        header = Header(run_id="r", plan_hash="p", tool_version="0", created=1.0, hostname="h", devices=uuids)
        self.told: list[Record] = [header, SEGMENT]
        self.failing: frozenset[str] = frozenset()
        self._chance, self._running = chance, list[NextLaunch]()

    def work(self, most: int, *, add: bool = True) -> None:
        """Launches, at most so many, and rounds as they are due."""
        for _ in range(most):
            self.state, following = transitions.next_launches(self.state)
            if not following and add and (slots := more_rounds.more(self.state, 7, lambda _: True)):
                self.add(slots)
                self.state, following = transitions.next_launches(self.state)
            for one in following:
                self.state = transitions.step(
                    self.state, Started(one.launch, one.slot, one.device, one.cell.batch_size)
                )
            self._running += following
            if not self._running:
                return
            self._end(self._running.pop(self._chance.randrange(len(self._running))))

    def add(self, slots: tuple[Slot, ...]) -> None:
        """Some are added and journaled."""
        self.state = transitions.step(self.state, Added(slots))
        self.told.append(AddedRecord(slots=slots, suspects=(), at_ns=2))

    def out(self, device: Device) -> None:
        """It is taken out."""
        self.state = transitions.step(self.state, Quarantined(device.uuid, "too hot"))

    def all_come_back(self) -> None:
        """The run is stopped and gone on with, and every GPU is given another chance."""
        while self._running:
            self._end(self._running.pop())
        self.state = another_chance(self.state, {})
        self.told.append(SEGMENT)

    def wrong(self) -> str | None:
        """What whoever reads the journal says of it."""
        stored = StoredRun(
            run_id="r",
            tool_version="0",
            command=(),
            configuration=self.configuration,
            devices=self.devices,
            plan=self.plan,
        )
        return coherence.wrong(stored, self.told)

    def _end(self, one: NextLaunch) -> None:
        failed = Failure(category=Category.EXCEPTION, message="", phase=Phase.MEASURE)
        self.state = transitions.step(self.state, Ended(one.launch, failed if one.planned in self.failing else None))
        for uuid in one.cell.devices:
            self.state = transitions.step(self.state, Freed(uuid))


def test_a_round_that_one_gpu_was_without_is_not_made_up_for() -> None:
    """Round numbers never go back, although one GPU was quarantined meanwhile and lacks a round."""
    devices = gpus(3)
    burn_in_run = Stepped(devices, 3, random.Random(1))
    burn_in_run.out(devices[0])
    for number in (3, 4, 5):
        burn_in_run.work(10_000, add=False)
        slots = more_rounds.more(burn_in_run.state, 7, lambda _: True)
        assert {later for _, later in slots} == {number}
        burn_in_run.add(slots)
    burn_in_run.work(10_000, add=False)
    slots = more_rounds.more(burn_in_run.state, 7, lambda _: True)
    ahead = tuple(slot for slot in slots if devices[1].uuid in burn_in_run.state.cells[slot[0]].devices)
    burn_in_run.add(ahead)
    burn_in_run.all_come_back()
    burn_in_run.work(10_000, add=False)
    burn_in_run.add(more_rounds.more(burn_in_run.state, 7, lambda _: True))
    burn_in_run.out(devices[0])
    burn_in_run.work(10_000, add=False)
    following = more_rounds.more(burn_in_run.state, 7, lambda _: True)
    assert {number for _, number in ahead} == {6}
    assert {number for _, number in following} == {8}
    burn_in_run.add(following)
    assert burn_in_run.wrong() is None


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_added_is_believed_by_who_reads_the_journal(seed: int) -> None:
    """The journal stays readable, whichever GPUs are quarantined or return and cells fail. Else the burn-in is lost."""
    chance = random.Random(seed)
    devices = gpus(2 + seed % 2)
    burn_in_run = Stepped(devices, 1, chance)
    for _ in range(12):
        burn_in_run.work(chance.randrange(40))
        burn_in_run.failing = frozenset(chance.sample(sorted(burn_in_run.state.cells), chance.randrange(4)))
        match chance.randrange(3):
            case 0:
                burn_in_run.out(chance.choice(devices))
            case 1:
                burn_in_run.all_come_back()
    added = [one for one in burn_in_run.told if isinstance(one, AddedRecord)]
    assert added
    assert burn_in_run.wrong() is None


def test_a_round_at_the_end_of_the_time_is_no_sign_that_nothing_works() -> None:
    """A burn-in starts with the rounds that fit. Resumed after a failed round, it has more rounds all the same."""
    burn_in_run = Stepped(gpus(1), 1, random.Random(1))
    burn_in_run.work(10_000, add=False)
    (first, *_) = more_rounds.more(burn_in_run.state, 7, lambda _: True)
    burn_in_run.failing = frozenset({first[0]})
    burn_in_run.add((first,))
    burn_in_run.work(10_000, add=False)
    assert burn_in_run.state.slots[first].status is SlotStatus.FAILED
    assert {number for _, number in more_rounds.more(burn_in_run.state, 7, lambda _: True)} == {2}
    burn_in_run.failing = frozenset(burn_in_run.state.cells)
    burn_in_run.work(10_000)
    assert max(number for _, number in burn_in_run.state.slots) == 2  # of a whole round nothing came: that was the last


def _work(cell: Cell) -> tuple[str, str, str]:
    return cell.workload, cell.model, cell.precision
