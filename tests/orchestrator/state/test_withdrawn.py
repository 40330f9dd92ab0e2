"""A result that is taken back after it was recorded: what the state makes of it, live and from the journal."""

import pytest

from orchestrator.config.run_configuration import Plan
from orchestrator.state import contamination, transitions
from orchestrator.state.replay import BENCHMARK_RULES, replay
from orchestrator.state.slots import Ended, Freed, RunState, SlotStatus, Withdrawn
from orchestrator.store.journal_records import Beside, End, Foreign, Left, Record, Start
from protocol.cell import Cell, Precision, Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.steps import SEGMENT, begun

CELLS = tuple(
    Cell(devices=("d0",), model=name, workload=Workload.INFERENCE, precision=Precision.FP32, batch_size=8)
    for name in ("first", "second")
)
PLAN = Plan(cells=CELLS, order={"d0": tuple((cell.id, 0) for cell in CELLS)})
THROTTLED = Failure(category=Category.THROTTLED, message="hot", phase=Phase.MEASURE)
VISITED = Failure(category=Category.CONTAMINATED, message="PID 7", phase=Phase.MEASURE)


def measured(now: RunState) -> tuple[RunState, int]:
    """The state after the next launch gave a result, and its number. Its device is not free yet."""
    now, (following,) = transitions.next_launches(now)
    now = begun(now, following)
    return transitions.step(now, Ended(following.launch, None)), following.launch


def doubted(now: RunState, category: Category = Category.THROTTLED) -> tuple[RunState, bool]:
    """The state after one more launch whose result is in doubt, and whether it was taken back."""
    now, launch = measured(now)
    again = transitions.worth_repeating(now, launch, category)
    if again:
        now = transitions.step(now, Withdrawn(launch, THROTTLED))
    return transitions.step(now, Freed("d0")), again


def test_a_cell_is_measured_again_behind_the_others() -> None:
    """A withdrawn cell waits until the rest of the plan is measured, when the GPU may be cooler."""
    now, launch = measured(transitions.begin(PLAN))
    now = transitions.step(transitions.step(now, Withdrawn(launch, THROTTLED)), Freed("d0"))
    assert [slot[0] for slot in now.devices["d0"].queue] == [CELLS[1].id, CELLS[0].id]


def test_a_result_is_taken_back_at_most_twice() -> None:
    """The third result of the cell stands, whatever is said against it."""
    now = transitions.begin(Plan(cells=CELLS[:1], order={"d0": PLAN.order["d0"][:1]}))
    answers = []
    for _ in range(3):
        now, again = doubted(now)
        answers.append(again)
    assert answers == [True, True, False]
    assert now.slots[CELLS[0].id, 0].status is SlotStatus.MEASURED


def test_what_is_taken_back_too_often_has_failed() -> None:
    """A second visit of somebody else leaves the cell without a result, and the queue without the cell."""
    now = transitions.begin(Plan(cells=CELLS[:1], order={"d0": PLAN.order["d0"][:1]}))
    slot = (CELLS[0].id, 0)
    for status in (SlotStatus.WAITING, SlotStatus.FAILED):
        now, launch = measured(now)
        now = transitions.step(transitions.step(now, Withdrawn(launch, VISITED)), Freed("d0"))
        assert now.slots[slot].status is status
    assert now.devices["d0"].queue == ()
    assert transitions.next_launches(now)[1] == ()


def test_the_journal_leads_to_the_same_state() -> None:
    """A second end of a launch takes its result back, when the run is resumed as when it happened."""
    live, launch = measured(transitions.begin(PLAN))
    live = transitions.step(transitions.step(live, Withdrawn(launch, THROTTLED)), Freed("d0"))
    records: list[Record] = [
        Start(launch=0, cell=CELLS[0].id, round=0, attempt=1, batch_size=8, device="d0", at_ns=1),
        End(launch=0, at_ns=2, result_sha256="0" * 64),
        End(launch=0, at_ns=3, failure=THROTTLED),
    ]
    assert replay(PLAN, BENCHMARK_RULES, records).state == live


START = Start(launch=0, cell=CELLS[0].id, round=0, attempt=1, batch_size=8, device="d0", at_ns=10)
GOOD = End(launch=0, at_ns=20, result_sha256="0")
LEFT = Left(launch=0, exit_code=0, signal=None, teardown_ms=1.0)


def here(at_ns: int, by: str = "PID 7", device: str = "d0") -> Foreign:
    """Somebody has come, or nobody is there any more."""
    return Foreign(device=device, at_ns=at_ns, by=by)


@pytest.mark.parametrize(
    ("records", "beside"),
    [
        ((START, GOOD), ""),
        ((START, here(15), GOOD), "PID 7"),
        ((START, GOOD, here(25)), "PID 7"),
        ((here(5), START, GOOD), "PID 7"),
        ((here(5), here(8, ""), START, GOOD), ""),
        ((here(5), here(12, ""), START, GOOD), "PID 7"),
        ((START, here(15), GOOD, LEFT), "PID 7"),
        ((START, GOOD, LEFT, here(30)), ""),
        ((START, here(15, device="d1"), GOOD), ""),
        ((START, here(15), GOOD, SEGMENT), "PID 7"),
        ((START, GOOD, SEGMENT, here(30)), ""),
        ((here(5), SEGMENT, START, GOOD), ""),
        ((START, here(15)), ""),
        ((START, here(15), GOOD, LEFT, End(launch=0, at_ns=30, failure=VISITED)), ""),
        ((START, here(15), GOOD, LEFT, Beside(launch=0, at_ns=30, by="PID 7")), ""),
    ],
)
def test_a_result_beside_somebody_of_which_nothing_was_said_is_found(records: tuple[Record, ...], beside: str) -> None:
    """A foreign process counts from the start of a launch until its device is free again, or its session ends."""
    assert contamination.unmarked(PLAN, (SEGMENT, *records)) == ({0: beside} if beside else {})
