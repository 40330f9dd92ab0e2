"""A scan for the batch size within a run: in the state machine, in the journal, in the outcomes, in the report."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis import outcomes
from orchestrator.config.run_configuration import Plan, Slot
from orchestrator.figures.cells import Status
from orchestrator.plan import batch_scan, planner
from orchestrator.plan.batch_scan import Figures
from orchestrator.state import transitions
from orchestrator.state.replay import BENCHMARK_RULES, Replay, replay
from orchestrator.state.slots import SETTLED, NextLaunch, RunState, SlotStatus, Withdrawn
from orchestrator.store.journal_records import Dropped, End, Record, Start
from protocol.cell import AUTO, Workload
from protocol.failure import Category, Phase
from tests.fakes.configurations import configuration, cpu
from tests.fakes.runs import gpus, shipped
from tests.fakes.steps import SEGMENT, begun, ended, failure, record

ASKED = configuration(
    models=shipped("resnet50"), probes=(), workloads=(Workload.INFERENCE,), batch_sizes=(AUTO,), launches=2
)


class World:
    """Devices on which batches above `limit` do not fit; what happens is kept as a journal."""

    def __init__(self, planned: Plan, limit: int, accidents: dict[int, Category]) -> None:
        self.planned = planned
        self.now: RunState = transitions.begin(planned)
        self.records: list[Record] = []
        self._limit = limit
        self._accidents = accidents

    def work(self) -> None:
        """Until nothing is left."""
        while True:
            self.now, following = transitions.next_launches(self.now)
            if not following:
                return
            for launch in following:
                end = self._end(launch)
                self.records += [record(launch), end]
                self.now = ended(begun(self.now, launch), launch, end.failure, end.figures)

    def replayed(self, *more: Record) -> Replay:
        """What the journal says."""
        return replay(self.planned, BENCHMARK_RULES, [SEGMENT, *self.records, *more])

    def _end(self, launch: NextLaunch) -> End:
        size = launch.cell.batch_size
        if category := self._accidents.get(launch.launch):
            return End(launch=launch.launch, at_ns=1, failure=failure(category, Phase.WARM_UP))
        if size > self._limit:
            return End(launch=launch.launch, at_ns=1, failure=failure(Category.OUT_OF_MEMORY, Phase.WARM_UP))
        figures = Figures(peak_bytes=10**9 + size * 10**8, items_per_second=1000 * size / (size + 7))
        return End(launch=launch.launch, at_ns=1, result_sha256="0" * 64, figures=figures)


def scanned(limit: int) -> tuple[World, Slot]:
    """A scan on one device on which batches above `limit` do not fit, when nothing is left to do."""
    world = World(planner.make(ASKED, gpus(1)), limit, {})
    world.work()
    (slot,) = world.now.slots
    return world, slot


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
    world, slot = scanned(300)
    found = world.now.slots[slot]
    largest = batch_scan.largest(found.tried)
    assert found.status is SlotStatus.MEASURED
    assert largest is not None
    assert 300 - 300 // 32 <= largest.batch_size <= 300
    outcome = outcomes.derive(world.replayed())[slot[0]]
    assert (outcome.status, outcome.batch_size, outcome.valid_launches) == (
        Status.OK,
        largest.batch_size,
        (largest.launch,),
    )
    assert world.now.too_large == {}


def test_a_model_that_does_not_fit_at_batch_one_does_not_fit() -> None:
    """One launch is enough to know."""
    world, slot = scanned(0)
    assert len(world.records) == 2
    assert world.now.slots[slot].status is SlotStatus.DOES_NOT_FIT
    assert outcomes.derive(world.replayed())[slot[0]].status is Status.DOES_NOT_FIT


def test_a_lost_result_is_measured_again() -> None:
    """A scan forgets what it learned from a result that is not there any more."""
    world, slot = scanned(20)
    best = batch_scan.best(world.now.slots[slot].tried)
    assert best is not None
    world.now = transitions.step(world.now, Withdrawn(best.launch, failure(Category.RESULT_LOST)))
    assert world.now.slots[slot].status is SlotStatus.WAITING
    before = len(world.records)
    world.work()
    again = [one.batch_size for one in world.records[before:] if isinstance(one, Start)]
    assert best.batch_size in again
    assert world.now.slots[slot].status is SlotStatus.MEASURED


def test_a_scan_that_was_cut_off_is_missing_or_dropped() -> None:
    """Its curve stays; the largest batch is not claimed to be known."""
    world, slot = scanned(300)
    del world.records[6:]
    cut = world.replayed()
    assert outcomes.derive(cut)[slot[0]].status is Status.MISSING
    dropped = outcomes.derive(world.replayed(Dropped(cell=slot[0], round=0, at_ns=1, reason="no time")))[slot[0]]
    assert (dropped.status, dropped.reason) == (Status.DROPPED, "no time")
    assert len(cut.state.slots[slot].tried) == 3


def test_a_scan_knows_enough_without_a_size_whose_file_is_lost() -> None:
    """Only what is not known without it is measured again."""
    world, slot = scanned(300)
    tried = {one.batch_size: one.launch for one in world.now.slots[slot].tried}
    for size, status in ((1, Status.MISSING), (max(tried), Status.OK)):
        left = world.replayed().without([tried[size]])
        assert outcomes.derive(left)[slot[0]].status is status


@given(
    limit=st.integers(0, 20_000),
    accidents=st.dictionaries(st.integers(0, 60), st.sampled_from(list(Category)), max_size=6),
    devices=st.integers(1, 2),
)
def test_every_scan_ends_and_journal_and_attempts_lead_to_the_same(
    limit: int, accidents: dict[int, Category], devices: int
) -> None:
    """Whatever goes wrong: the run ends, resuming finds nothing left to do, and the report agrees with the run."""
    world = World(planner.make(ASKED, gpus(devices)), limit, accidents)
    world.work()
    derived = outcomes.derive(world.replayed())
    restored, following = transitions.next_launches(world.replayed().state)
    assert following == ()
    for slot, found in world.now.slots.items():
        device = world.now.cells[slot[0]].devices[0]
        assert found.status in SETTLED or world.now.devices[device].quarantined
        assert restored.slots[slot] == found
        answered = [one.batch_size for one in found.tried]
        assert len(answered) == len(set(answered))
        assert (derived[slot[0]].status is Status.OK) is (found.status is SlotStatus.MEASURED)
