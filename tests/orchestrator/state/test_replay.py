"""One replay of the journal: what resume, status and the report agree on."""

from pathlib import Path

from orchestrator.analysis import outcomes
from orchestrator.analysis.outcomes import NOT_YET, CellOutcome
from orchestrator.engine import run as shell
from orchestrator.figures.cells import Status
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.state.replay import BENCHMARK_RULES, ROUND_RULES, Replay, replay
from orchestrator.state.slots import SlotStatus
from orchestrator.store import journal
from orchestrator.store.journal_records import Quarantine
from protocol.cell import Cell
from protocol.failure import Category, Phase
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.runs import FakeRun, cpus, gpus
from tests.fakes.standings import held_by, look
from tests.fakes.steps import SEGMENT


def of(run: FakeRun) -> Replay:
    """The replay of a run that nobody works on."""
    return run.archive().replay


def outcome(run: FakeRun, cell: Cell, *, goes_on: bool = False) -> CellOutcome:
    """What the report says of a cell."""
    return outcomes.derive(of(run), goes_on=goes_on)[cell.id]


def status(run: FakeRun, cell: Cell, number: int = 0) -> SlotStatus:
    """Where a launch stands."""
    return of(run).state.slots[cell.id, number].status


def test_a_finished_run_with_a_referred_cell_has_nothing_left(tmp_path: Path) -> None:
    """The journal has no record of what needs no launch: it is settled here, for `resume` and `status` alike."""
    run = FakeRun(tmp_path, batch_sizes=(8, 16, 32))
    run.failed(run.cell(batch_size=16), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8))
    run.finish()
    assert [status(run, run.cell(batch_size=size)) for size in (16, 32)] == [SlotStatus.REFERRED] * 2
    assert shell.left_to_do(run.stored, run.paths, BENCHMARK) == (0, 3)
    assert look(run).settled == 3


def test_what_there_was_no_time_for_but_needs_none_is_referred(tmp_path: Path) -> None:
    """It was dropped before its turn came, and another cell stands for it."""
    run = FakeRun(tmp_path, batch_sizes=(8, 16, 32))
    run.failed(run.cell(batch_size=16), Category.OUT_OF_MEMORY)
    run.dropped(run.cell(batch_size=32), "no time")
    run.measured(run.cell(batch_size=8))
    assert outcome(run, run.cell(batch_size=32)).status is Status.REFERRED
    assert look(run).dropped == 0


def test_a_launch_that_failed_otherwise_stays_failed(tmp_path: Path) -> None:
    """Also when a smaller size is found not to fit later: the report said "does not fit", the run "failed"."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=8), Category.PROTOCOL)
    run.failed(run.cell(batch_size=1), Category.OUT_OF_MEMORY)
    assert status(run, run.cell(batch_size=8)) is SlotStatus.FAILED
    assert outcome(run, run.cell(batch_size=8)).status is Status.FAILED


def test_a_quarantine_from_outside_is_applied(tmp_path: Path) -> None:
    """Telemetry or a GPU that was waited for: no failure tells of it. The next session lets the device work again."""
    run = FakeRun(tmp_path, devices=gpus(2))
    uuid = run.stored.devices[0].uuid
    run._journal.append(Quarantine(device=uuid, at_ns=run.now_ns, reason="too hot"))
    assert of(run).state.devices[uuid].quarantined == "too hot"
    assert of(run).quarantined == {uuid: "too hot"}
    run.segment()
    assert (of(run).quarantined, of(run).quarantines) == ({}, {uuid: "too hot"})
    assert outcome(run, run.cell()).reason.endswith("too hot")


def test_a_quarantine_counts_where_its_record_was_not_written_any_more(tmp_path: Path) -> None:
    """Its process was killed after the end of the launch. In a burn-in the device stays out."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(2))
    burn_in_run.failed(
        next(one for one in burn_in_run.stored.plan.cells if one.devices == ("cpu:0",)), Category.DEVICE_LOST
    )
    burn_in_run.segment()
    assert of(burn_in_run).quarantined.keys() == {"cpu:0"}


def test_retries_are_counted_by_launch(tmp_path: Path) -> None:
    """Three interruptions in each of two rounds are not six of one: `resume` makes both, so nothing has failed."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=2)
    cell = run.cell(batch_size=8)
    for number in (0, 1) * 3:
        run.failed(cell, Category.INTERRUPTED, number=number)
    assert outcome(run, cell).status is Status.MISSING
    assert shell.left_to_do(run.stored, run.paths, BENCHMARK) == (2, 2)


def test_an_open_launch_runs_where_its_process_is_alive(tmp_path: Path) -> None:
    """Else it was interrupted; one of an earlier session was in any case."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.interrupted(run.cell(batch_size=1))
    run.segment()
    run.interrupted(run.cell(batch_size=8))
    assert [status(run, run.cell(batch_size=size)) for size in (1, 8)] == [SlotStatus.WAITING] * 2
    held_by(run)
    assert [work.batch_size for work in look(run).working] == [8]


def test_a_cell_that_is_tried_again_is_not_measured_yet(tmp_path: Path) -> None:
    """While the run goes on. Of a run that ended there, the failure is what is known."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(), Category.CRASHED)
    assert outcome(run, run.cell(), goes_on=True) == CellOutcome(status=Status.MISSING, reason=NOT_YET)
    assert outcome(run, run.cell()).status is Status.FAILED


def test_the_sixth_interruption_is_final_before_resume_has_seen_it(tmp_path: Path) -> None:
    """Its orchestrator died, too."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    for _ in range(5):
        run.failed(run.cell(), Category.INTERRUPTED)
    run.interrupted(run.cell())
    assert outcome(run, run.cell()).status is Status.FAILED
    assert shell.left_to_do(run.stored, run.paths, BENCHMARK) == (0, 1)


def test_a_skipped_model_is_told_where_its_record_was_not_written_any_more(tmp_path: Path) -> None:
    """The failure says it already."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=1), Category.IMPORT_ERROR, phase=Phase.IMPORT)
    assert outcome(run, run.cell(batch_size=8)).reason.endswith(f"skipped: {Category.IMPORT_ERROR}")
    assert look(run).skipped == {"resnet50": "import error"}


def test_rounds_at_two_sizes_are_measured_and_the_smaller_one_counts(tmp_path: Path) -> None:
    """Both launches have a result; the figures are those of one size."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=2)
    cell = run.cell(batch_size=8)
    run.measured(cell, number=0)
    run.failed(cell, Category.OUT_OF_MEMORY, number=1)
    launch = run.measured(cell, batch_size=4, number=1)
    assert [status(run, cell, number) for number in (0, 1)] == [SlotStatus.MEASURED] * 2
    found = outcome(run, cell)
    assert (found.status, found.batch_size, found.valid_launches) == (Status.DEGRADED, 4, (launch,))


def test_a_resumed_burn_in_repeats_what_did_not_fit_and_says_so_until_then(tmp_path: Path) -> None:
    """Its launches wait again; the report still says what is known of them."""
    burn_in_run = FakeBurnIn(tmp_path, cpus(1))
    cell = burn_in_run.stored.plan.cells[0]
    number = min(number for cell_id, number in burn_in_run.stored.plan.order["cpu:0"] if cell_id == cell.id)
    burn_in_run.failed(cell, Category.OUT_OF_MEMORY, number=number, batch_size=1)
    before = of(burn_in_run)
    assert before.state.slots[cell.id, number].status is SlotStatus.DOES_NOT_FIT
    burn_in_run.segment()
    after = of(burn_in_run)
    assert after.state.slots[cell.id, number].status is SlotStatus.WAITING
    assert after.state.too_large == {}
    for one in (before, after):
        assert outcomes.derive(one)[cell.id].status is Status.DOES_NOT_FIT


def test_the_rules_decide_who_has_another_chance(tmp_path: Path) -> None:
    """Dropped launches are repeated in a burn-in and stay dropped in other runs. Only the rules differ."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.dropped(run.cell(), "no time")
    records = (*journal.read(run.paths.journal), SEGMENT)
    kept, repeated = (replay(run.stored.plan, rules, records) for rules in (BENCHMARK_RULES, ROUND_RULES))
    slot = (run.cell().id, 0)
    assert (kept.state.slots[slot].status, kept.dropped) == (SlotStatus.DROPPED, {slot: "no time"})
    assert (repeated.state.slots[slot].status, repeated.dropped) == (SlotStatus.WAITING, {})
