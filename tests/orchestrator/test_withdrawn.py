"""A result that is taken back after it was recorded: what the state makes of it, live and from the journal."""

from orchestrator import recovery, state
from orchestrator.configuration import Plan
from orchestrator.records import End, Record, Start
from orchestrator.slots import Ended, Freed, RunState, SlotStatus, Started, Withdrawn
from protocol.cell import Cell, Precision, Workload
from protocol.failure import Category, Failure, Phase

CELLS = tuple(
    Cell(devices=("d0",), model=name, workload=Workload.INFERENCE, precision=Precision.FP32, batch_size=8)
    for name in ("first", "second")
)
PLAN = Plan(cells=CELLS, order={"d0": tuple((cell.id, 0) for cell in CELLS)})
THROTTLED = Failure(category=Category.THROTTLED, message="hot", phase=Phase.MEASURE)
VISITED = Failure(category=Category.CONTAMINATED, message="PID 7", phase=Phase.MEASURE)
LOST = Failure(category=Category.RESULT_LOST, message="deleted", phase=Phase.FINISH)


def measured(now: RunState) -> tuple[RunState, int]:
    """The state after the next launch gave a result, and its number. Its device is not free yet."""
    now, (following,) = state.next_launches(now)
    now = state.step(now, Started(following.launch, following.slot, following.device, following.cell.batch_size))
    return state.step(now, Ended(following.launch, None)), following.launch


def doubted(now: RunState, category: Category = Category.THROTTLED) -> tuple[RunState, bool]:
    """The state after one more launch whose result is in doubt, and whether it was taken back."""
    now, launch = measured(now)
    again = state.worth_repeating(now, launch, category)
    if again:
        now = state.step(now, Withdrawn(launch, THROTTLED))
    return state.step(now, Freed("d0")), again


def test_a_cell_is_measured_again_behind_the_others() -> None:
    """What was taken back waits until the rest of the plan has been measured: the GPU may be cooler by then."""
    now, launch = measured(state.begin(PLAN))
    now = state.step(state.step(now, Withdrawn(launch, THROTTLED)), Freed("d0"))
    assert [slot[0] for slot in now.devices["d0"].queue] == [CELLS[1].id, CELLS[0].id]


def test_a_result_is_taken_back_at_most_twice() -> None:
    """The third result of the cell stands, whatever is said against it."""
    now = state.begin(Plan(cells=CELLS[:1], order={"d0": PLAN.order["d0"][:1]}))
    answers = []
    for _ in range(3):
        now, again = doubted(now)
        answers.append(again)
    assert answers == [True, True, False]
    assert now.slots[CELLS[0].id, 0].status is SlotStatus.MEASURED


def test_what_is_taken_back_too_often_has_failed() -> None:
    """A second visit of somebody else leaves the cell without a result, and the queue without the cell."""
    now = state.begin(Plan(cells=CELLS[:1], order={"d0": PLAN.order["d0"][:1]}))
    slot = (CELLS[0].id, 0)
    for status in (SlotStatus.WAITING, SlotStatus.FAILED):
        now, launch = measured(now)
        now = state.step(state.step(now, Withdrawn(launch, VISITED)), Freed("d0"))
        assert now.slots[slot].status is status
    assert now.devices["d0"].queue == ()
    assert state.next_launches(now)[1] == ()


def test_the_journal_leads_to_the_same_state() -> None:
    """A second end of a launch takes its result back, when the run is resumed as when it happened."""
    live, launch = measured(state.begin(PLAN))
    live = state.step(state.step(live, Withdrawn(launch, THROTTLED)), Freed("d0"))
    records: list[Record] = [
        Start(launch=0, cell=CELLS[0].id, round=0, attempt=1, batch_size=8, device="d0", at_ns=1),
        End(launch=0, at_ns=2, result_sha256="0" * 64),
        End(launch=0, at_ns=3, failure=THROTTLED),
    ]
    assert recovery.restore(PLAN, records) == live
    lost = recovery.restore(PLAN, [*records[:2], End(launch=0, at_ns=3, failure=LOST)])
    assert lost.slots[CELLS[0].id, 0].failures == (Category.RESULT_LOST,)
