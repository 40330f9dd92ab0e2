"""A scan for the batch size within a run: in the state machine, in the journal, in the outcomes, in the report."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis import outcomes
from orchestrator.analysis.outcomes import Status
from orchestrator.config.run_configuration import Plan
from orchestrator.plan import batch_scan, planner
from orchestrator.plan.batch_scan import Figures
from orchestrator.state import recovery, scan_results, transitions
from orchestrator.state.archive import Attempt
from orchestrator.state.slots import SETTLED, Ended, Freed, NextLaunch, RunState, SlotStatus, Started, Withdrawn
from orchestrator.store.records import End, Record, Segment, Start
from protocol.cell import AUTO, Cell, Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.configurations import configuration, cpu
from tests.fakes.runs import gpus, shipped

SEGMENT = Segment(boot_id="b", driver_version=None, tool_version="0", pid=1, wall=0.0, monotonic_ns=0)
ASKED = configuration(
    models=shipped("resnet50"), probes=(), workloads=(Workload.INFERENCE,), batch_sizes=(AUTO,), launches=2
)


class World:
    """Devices on which batches above `limit` do not fit; what happens is kept as a journal and as attempts."""

    def __init__(self, planned: Plan, limit: int, accidents: dict[int, Category]) -> None:
        self.planned = planned
        self.now: RunState = transitions.begin(planned)
        self.records: list[Record] = []
        self.attempts: list[Attempt] = []
        self._limit = limit
        self._accidents = accidents

    def work(self) -> None:
        """Until nothing is left."""
        while True:
            self.now, following = transitions.next_launches(self.now)
            if not following:
                return
            for launch in following:
                self._launch(launch)

    def _launch(self, launch: NextLaunch) -> None:
        start = Start(
            launch=launch.launch,
            cell=launch.planned,
            round=launch.slot[1],
            attempt=launch.attempt,
            batch_size=launch.cell.batch_size,
            device=launch.device,
            at_ns=0,
        )
        end = self._end(launch)
        self.records += [start, end]
        self.attempts.append(Attempt(SEGMENT, start, end))
        self.now = transitions.step(self.now, Started(launch.launch, launch.slot, launch.device, start.batch_size))
        self.now = transitions.step(self.now, Ended(launch.launch, end.failure, end.figures))
        self.now = transitions.step(self.now, Freed(launch.device))

    def _end(self, launch: NextLaunch) -> End:
        size = launch.cell.batch_size
        if category := self._accidents.get(launch.launch):
            return End(launch=launch.launch, at_ns=1, failure=failure(category))
        if size > self._limit:
            return End(launch=launch.launch, at_ns=1, failure=failure(Category.OUT_OF_MEMORY))
        figures = Figures(peak_bytes=10**9 + size * 10**8, items_per_second=1000 * size / (size + 7))
        return End(launch=launch.launch, at_ns=1, result_sha256="0" * 64, figures=figures)


def failure(category: Category) -> Failure:
    """A failure while it warms up."""
    return Failure(category=category, message="m", phase=Phase.WARM_UP)


def test_a_scan_is_one_slot_whatever_the_profile_says() -> None:
    """Two launches a cell are asked for; a scan is made of many already."""
    planned = planner.make(ASKED, gpus(2))
    assert [number for queue in planned.order.values() for _, number in queue] == [0, 0]
    assert all(cell.batch_size == AUTO for cell in planned.cells)
    assert all("bauto" in cell.id for cell in planned.cells)


def test_a_scan_is_bounded_by_what_was_free() -> None:
    """A GPU's memory without what others use and the context takes; a CPU device's part of half the host's."""
    used, total = 2 * 2**30, 100 * 2**30
    (device,) = gpus(1, memory_total_bytes=total, memory_used_bytes=used)
    assert planner.room(device, [device]).memory_bytes == total - used - planner.CONTEXT_BYTES
    slices = [msgspec.structs.replace(cpu(n), memory_total_bytes=total, memory_used_bytes=used) for n in range(2)]
    assert planner.room(slices[0], slices).memory_bytes == (total - used) // 4
    assert planner.room(cpu(0), [cpu(0)]).memory_bytes is None


def test_out_of_memory_is_an_answer_and_nothing_is_degraded() -> None:
    """The scan is over when the largest is known; its best batch is what counts."""
    world = World(planner.make(ASKED, gpus(1)), limit=300, accidents={})
    world.work()
    ((cell_id, _),) = world.now.slots
    found = world.now.slots[cell_id, 0]
    largest = batch_scan.largest(found.tried)
    assert found.status is SlotStatus.MEASURED
    assert largest is not None
    assert 300 - 300 // 32 <= largest.batch_size <= 300
    outcome = outcomes.derive(world.planned, world.attempts)[cell_id]
    assert (outcome.status, outcome.batch_size, outcome.counted) == (Status.OK, largest.batch_size, (largest.launch,))
    assert world.now.too_large == {}


def test_a_model_that_does_not_fit_at_batch_one_does_not_fit() -> None:
    """One launch is enough to know."""
    world = World(planner.make(ASKED, gpus(1)), limit=0, accidents={})
    world.work()
    ((cell_id, _),) = world.now.slots
    assert len(world.attempts) == 1
    assert world.now.slots[cell_id, 0].status is SlotStatus.DOES_NOT_FIT
    assert outcomes.derive(world.planned, world.attempts)[cell_id].status is Status.DOES_NOT_FIT


def test_a_lost_result_is_measured_again() -> None:
    """A scan forgets what it learned from a result that is not there any more."""
    world = World(planner.make(ASKED, gpus(1)), limit=20, accidents={})
    world.work()
    (slot,) = world.now.slots
    best = batch_scan.best(world.now.slots[slot].tried)
    assert best is not None
    lost = Withdrawn(best.launch, failure(Category.RESULT_LOST))
    world.now = transitions.step(world.now, lost)
    assert world.now.slots[slot].status is SlotStatus.WAITING
    before = len(world.attempts)
    world.work()
    again = [attempt.start.batch_size for attempt in world.attempts[before:]]
    assert best.batch_size in again
    assert world.now.slots[slot].status is SlotStatus.MEASURED


def test_a_scan_that_was_cut_off_is_missing_or_dropped() -> None:
    """Its curve stays; the largest batch is not claimed to be known."""
    world = World(planner.make(ASKED, gpus(1)), limit=300, accidents={})
    world.work()
    ((cell_id, _),) = world.now.slots
    begun = world.attempts[:3]
    assert outcomes.derive(world.planned, begun)[cell_id].status is Status.MISSING
    dropped = outcomes.derive(world.planned, begun, dropped={(cell_id, 0): "no time"})[cell_id]
    assert (dropped.status, dropped.reason) == (Status.DROPPED, "no time")
    (cell,) = world.planned.cells
    assert len(scan_results.replay(cell, world.planned.rooms[cell.devices[0]], begun, ()).tried) == 3


@given(
    limit=st.integers(0, 20_000),
    accidents=st.dictionaries(st.integers(0, 60), st.sampled_from(list(Category)), max_size=6),
    devices=st.integers(1, 2),
)
@settings(max_examples=200)
def test_every_scan_ends_and_journal_and_attempts_lead_to_the_same(
    limit: int, accidents: dict[int, Category], devices: int
) -> None:
    """Whatever goes wrong: the run ends, resuming finds nothing left to do, and the report agrees with the run."""
    world = World(planner.make(ASKED, gpus(devices)), limit, accidents)
    world.work()
    derived = outcomes.derive(world.planned, world.attempts, skipped=dict.fromkeys(world.now.skipped, "why"))
    cells: dict[str, Cell] = {cell.id: cell for cell in world.planned.cells}
    restored, following = transitions.next_launches(recovery.restore(world.planned, world.records))
    assert following == ()
    for slot, found in world.now.slots.items():
        device = cells[slot[0]].devices[0]
        assert found.status in SETTLED or world.now.devices[device].quarantined
        assert restored.slots[slot] == found
        of_cell = [attempt for attempt in world.attempts if attempt.start.cell == slot[0]]
        replayed = scan_results.replay(cells[slot[0]], world.planned.rooms[device], of_cell, ())
        assert replayed.tried == found.tried
        assert replayed.status is found.status or found.status is SlotStatus.SKIPPED  # that was decided elsewhere
        answered = [one.batch_size for one in found.tried]
        assert len(answered) == len(set(answered))
        assert (derived[slot[0]].status is Status.OK) is (found.status is SlotStatus.MEASURED)
