"""orchestrator/state/transitions.py: what is launched, what is learned, and that every plan comes to an end."""

import pytest

from orchestrator.config.run_configuration import Plan
from orchestrator.state import transitions
from orchestrator.state.failure_policy import ANY_NUMBER, POLICY, Reaction
from orchestrator.state.replay import BENCHMARK_RULES, interrupted, replay
from orchestrator.state.slots import (
    Ended,
    NextLaunch,
    Quarantined,
    RunState,
    SlotStatus,
    Started,
    StopRequested,
)
from orchestrator.store.journal_records import End, Quarantine, Record, Start
from protocol.cell import Cell, Mode, Precision, Workload
from protocol.failure import Category, Phase
from tests.fakes import steps
from tests.fakes.steps import SEGMENT, Decide, begun, ended, failure, freed


def cell(batch_size: int, device: str = "d0", model: str = "m", mode: Mode = Mode.LOADED) -> Cell:
    """A cell that differs from others in what a test is about."""
    return Cell(
        devices=(device,),
        model=model,
        workload=Workload.INFERENCE,
        precision=Precision.FP32,
        batch_size=batch_size,
        mode=mode,
    )


def plan(*cells: Cell, launches: int = 1) -> Plan:
    """The cells in the order given, each device its own."""
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    for number in range(launches):
        for one in cells:
            order[one.devices[0]] = (*order.get(one.devices[0], ()), (one.id, number))
    return Plan(cells=cells, order=order)


def run(one_plan: Plan, decide: Decide) -> tuple[RunState, list[NextLaunch]]:
    """Run a plan in which each launch ends as `decide` says."""
    return steps.run(transitions.begin(one_plan), decide)


def fits(limit: int) -> Decide:
    """Every batch above `limit` runs out of memory."""
    return lambda launch: failure(Category.OUT_OF_MEMORY) if launch.cell.batch_size > limit else None


@pytest.mark.parametrize(
    ("decide", "sizes", "status"),
    [
        (fits(4), [32, 16, 8, 4], SlotStatus.MEASURED),
        (fits(0), [32, 16, 8, 4, 2, 1], SlotStatus.DOES_NOT_FIT),
        (lambda _: failure(Category.OUT_OF_MEMORY, Phase.BUILD), [32], SlotStatus.DOES_NOT_FIT),
    ],
    ids=["four fit", "none fits", "before the first forward"],
)
def test_out_of_memory_halves_until_it_fits(decide: Decide, sizes: list[int], status: SlotStatus) -> None:
    """Down to one; before the first forward pass a smaller batch would not help."""
    end, made = run(plan(cell(32)), decide)
    assert [(launch.cell.batch_size, launch.attempt) for launch in made] == [
        (size, attempt) for attempt, size in enumerate(sizes, start=1)
    ]
    (slot,) = end.slots.values()
    assert (slot.status, slot.batch_size) == (status, sizes[-1])


def test_a_size_known_not_to_fit_is_not_tried_again() -> None:
    """48 starts below what 32 has taught; another model and another device learn for themselves."""
    cells = (cell(32), cell(48), cell(32, model="other"), cell(32, device="d1"))
    end, made = run(plan(*cells), fits(8))
    tried = [launch.cell.batch_size for launch in made if launch.slot[0] == cells[1].id]
    assert tried == [12, 6]
    for other in cells[2:]:
        assert [launch.cell.batch_size for launch in made if launch.slot[0] == other.id] == [32, 16, 8]
    assert all(slot.status is SlotStatus.MEASURED for slot in end.slots.values())


@pytest.mark.parametrize(("larger", "smaller", "own"), [(32, 8, [32, 16]), (64, 32, [64])])
def test_a_planned_smaller_size_is_referred_to_and_measured_once(larger: int, smaller: int, own: list[int]) -> None:
    """The larger size stops where the planned one begins, also where that shrinks to 8 too."""
    large, small = cell(larger), cell(smaller)
    end, made = run(plan(large, small), fits(8))
    assert [launch.cell.batch_size for launch in made if launch.planned == large.id] == own
    assert [launch.cell.batch_size for launch in made].count(8) == 1
    first, second = end.slots[large.id, 0], end.slots[small.id, 0]
    assert (first.status, first.refers_to) == (SlotStatus.REFERRED, small.id)
    assert (second.status, second.batch_size) == (SlotStatus.MEASURED, 8)


def test_out_of_memory_before_the_first_forward_holds_for_every_size() -> None:
    """4 ran out while its model was built: 2 and 8 are not launched; what another device or precision holds, is."""
    sizes, elsewhere, other = [cell(4), cell(2), cell(8)], cell(2, device="d1"), cell(2, model="other")
    end, made = run(
        plan(*sizes, elsewhere, other),
        lambda launch: failure(Category.OUT_OF_MEMORY, Phase.BUILD) if launch.slot[0] == sizes[0].id else None,
    )
    assert {launch.slot[0] for launch in made} == {sizes[0].id, elsewhere.id, other.id}
    assert end.slots[(sizes[1].id, 0)].status is SlotStatus.DOES_NOT_FIT
    assert all(slot.status is not SlotStatus.WAITING for slot in end.slots.values())


LIMITED = [one for one in Category if POLICY[one].retries < ANY_NUMBER and one is not Category.OUT_OF_MEMORY]


@pytest.mark.parametrize("category", LIMITED)
def test_the_policy_decides_how_often(category: Category) -> None:
    """A failure that repeats is tried as often as its rule says, then it is final; other cells are measured."""
    first, other = cell(1), cell(1, model="other")
    end, made = run(plan(first, other), lambda launch: failure(category) if launch.slot[0] == first.id else None)
    rule = POLICY[category]
    unsupported = rule.reaction is Reaction.NOT_SUPPORTED
    assert end.slots[(first.id, 0)].status is (SlotStatus.UNSUPPORTED if unsupported else SlotStatus.FAILED)
    if rule.reaction is Reaction.QUARANTINE:
        assert [launch.slot[0] for launch in made] == [first.id]
        assert end.devices["d0"].quarantined
    else:
        assert sum(launch.slot[0] == first.id for launch in made) == 1 + rule.retries
        assert end.slots[(other.id, 0)].status is SlotStatus.MEASURED


def test_one_launch_settles_an_unsupported_cell() -> None:
    """Its other rounds are not launched; other cells are measured in each round."""
    first, other = cell(1), cell(1, model="other")
    lacking = failure(Category.UNSUPPORTED)
    end, made = run(plan(first, other, launches=2), lambda launch: lacking if launch.slot[0] == first.id else None)
    assert sum(launch.slot[0] == first.id for launch in made) == 1
    assert (end.tally[SlotStatus.UNSUPPORTED], end.tally[SlotStatus.MEASURED]) == (2, 2)


def test_solo_runs_one_device_at_a_time() -> None:
    """In solo mode nothing else works while a cell is measured."""
    cells = [cell(1, device, mode=Mode.SOLO) for device in ("d0", "d1", "d2")]
    now = transitions.begin(plan(*cells))
    now, (only,) = transitions.next_launches(now)
    now = begun(now, only)
    assert transitions.next_launches(now)[1] == ()
    assert len(transitions.next_launches(ended(now, only))[1]) == 1


def test_a_device_is_taken_until_it_is_free() -> None:
    """The end of a launch is not yet a free device; a quarantined one never is."""
    cells = [cell(1), cell(2)]
    now, (first,) = transitions.next_launches(transitions.begin(plan(*cells)))
    now = transitions.step(begun(now, first), Ended(0, None))
    assert transitions.next_launches(now)[1] == ()
    assert len(transitions.next_launches(freed(now, "d0"))[1]) == 1
    out = transitions.step(now, Quarantined("d0", "why"))
    assert transitions.next_launches(freed(out, "d0"))[1] == ()


def test_after_a_stop_nothing_begins() -> None:
    """Whatever is waiting stays waiting."""
    assert transitions.next_launches(transitions.step(transitions.begin(plan(cell(1))), StopRequested()))[1] == ()


def test_an_interrupted_attempt_counts_and_is_tried_again() -> None:
    """A Start without an End is an attempt; the fifth repetition is the last."""
    one_plan = plan(cell(8))
    (slot,) = transitions.begin(one_plan).slots

    def start(launch: int) -> Start:
        return Start(launch=launch, cell=slot[0], round=0, attempt=launch + 1, batch_size=8, device="d0", at_ns=0)

    now = replay(one_plan, BENCHMARK_RULES, [start(0)]).state
    assert now.slots[slot].failures == (Category.INTERRUPTED,)
    (again,) = transitions.next_launches(now)[1]
    assert (again.launch, again.attempt) == (1, 2)
    ends = [End(launch=launch, at_ns=0, failure=interrupted()) for launch in range(6)]
    records = [record for launch in range(6) for record in (start(launch), ends[launch])]
    assert replay(one_plan, BENCHMARK_RULES, records).state.slots[slot].status is SlotStatus.FAILED


def test_a_result_that_was_lost_is_measured_again() -> None:
    """A second End takes the result back, and the slot waits for another attempt."""
    one_plan = plan(cell(8))
    (slot,) = transitions.begin(one_plan).slots
    start = Start(launch=0, cell=slot[0], round=0, attempt=1, batch_size=8, device="d0", at_ns=0)
    good = End(launch=0, at_ns=0, result_sha256="ab")
    taken_back = End(launch=0, at_ns=1, failure=failure(Category.RESULT_LOST))
    assert transitions.next_launches(replay(one_plan, BENCHMARK_RULES, [start, good]).state)[1] == ()
    now, (again,) = transitions.next_launches(replay(one_plan, BENCHMARK_RULES, [start, good, taken_back]).state)
    assert (again.slot, again.launch, again.attempt) == (slot, 1, 2)
    assert now.slots[slot].failures == (Category.RESULT_LOST,)


def test_a_resumed_run_gives_a_device_another_chance() -> None:
    """A device quarantined before resume is used again, because its fault may have been fixed."""
    one_plan = plan(cell(8), cell(1, model="other"), cell(8, "d1"))
    first = next(iter(transitions.begin(one_plan).slots))
    start = Start(launch=0, cell=first[0], round=0, attempt=1, batch_size=8, device="d0", at_ns=0)
    end = End(launch=0, at_ns=0, failure=failure(Category.UNKILLABLE))
    out = Quarantine(device="d0", at_ns=0, reason="it cannot be killed")

    def launched(*records: Record) -> list[str]:
        return [one.device for one in transitions.next_launches(replay(one_plan, BENCHMARK_RULES, records).state)[1]]

    assert launched(start, end, out) == ["d1"]
    assert launched(start, end, out, SEGMENT) == ["d0", "d1"]


def test_an_end_of_an_unknown_launch_changes_nothing() -> None:
    """A stale message is evidence, not news."""
    now = transitions.begin(plan(cell(1)))
    assert transitions.step(now, Ended(99, None)) == now


def test_an_end_of_an_earlier_launch_does_not_settle_the_one_that_runs() -> None:
    """Two launches of one round are what only a damaged journal has."""
    one = cell(1)
    now = transitions.begin(plan(one))
    for launch in (0, 1):
        now = transitions.step(now, Started(launch, (one.id, 0), one.devices[0], 1))
    assert transitions.step(now, Ended(0, None)) == now
    assert transitions.step(now, Ended(1, None)).slots[one.id, 0].status is SlotStatus.MEASURED
