"""What became of each planned cell, told from its attempts."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis import outcomes
from orchestrator.analysis.outcomes import CellOutcome
from orchestrator.config.run_configuration import Plan
from orchestrator.figures.cells import Status
from orchestrator.plan import planner
from orchestrator.state import slots, transitions
from orchestrator.state.failure_policy import Reach
from orchestrator.state.replay import BENCHMARK_RULES, replay
from orchestrator.state.slots import SlotStatus
from orchestrator.store.journal_records import End, Record, Skipped
from protocol.cell import Cell, Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.configurations import configuration
from tests.fakes.runs import FakeRun, gpus, shipped
from tests.fakes.steps import SEGMENT, begun, ended, failure, record


def outcome(run: FakeRun, cell: Cell, damaged: tuple[int, ...] = ()) -> CellOutcome:
    """What became of a cell of a run."""
    return outcomes.derive(run.archive().replay.without(damaged))[cell.id]


def test_a_result_at_the_size_asked_for_is_ok(tmp_path: Path) -> None:
    """Each round counts once."""
    run = FakeRun(tmp_path, launches=3)
    launches = tuple(run.measured(run.cell(batch_size=8), number=number) for number in range(3))
    assert outcome(run, run.cell(batch_size=8)) == CellOutcome(status=Status.OK, batch_size=8, valid_launches=launches)


def test_a_result_at_a_smaller_size_is_degraded(tmp_path: Path) -> None:
    """32 and 16 ran out of memory, 8 is not planned and was measured: degraded to 8."""
    run = FakeRun(tmp_path, batch_sizes=(32,))
    cell = run.cell(batch_size=32)
    run.failed(cell, Category.OUT_OF_MEMORY)
    run.failed(cell, Category.OUT_OF_MEMORY, batch_size=16)
    run.measured(cell, batch_size=8)
    found = outcome(run, cell)
    assert (found.status, found.batch_size, found.valid_launches) == (Status.DEGRADED, 8, (2,))
    assert "32" in found.reason


@pytest.mark.parametrize(
    ("planned", "ran_out", "measured", "told"),
    [
        (
            (8, 4),
            ((8, 8), (4, 4)),
            (4, 2),
            {8: "batch size 8 ran out of memory; see the cell of batch size 4, measured at 2"},
        ),
        (
            (1024, 512, 128),
            ((512, 512),),
            (512, 256),
            {1024: "not tried: batch size 512 ran out of memory; see the cell of batch size 512, measured at 256"},
        ),
        (
            (1024, 512, 128),
            ((512, 512), (512, 256)),
            (128, 128),
            {
                1024: "not tried: batch size 256 ran out of memory; see the cell of batch size 128",
                512: "batch size 512 ran out of memory; see the cell of batch size 128",
            },
        ),
    ],
)
def test_a_planned_smaller_size_stands_for_one_that_does_not_fit(
    tmp_path: Path,
    planned: tuple[int, ...],
    ran_out: tuple[tuple[int, int], ...],
    measured: tuple[int, int],
    told: dict[int, str],
) -> None:
    """The reference names the end of a chain, what was tried, and the size that ran. Pairs: planned size, tried."""
    run = FakeRun(tmp_path, batch_sizes=planned)
    for size, tried in ran_out:
        run.failed(run.cell(batch_size=size), Category.OUT_OF_MEMORY, batch_size=tried)
    target = run.cell(batch_size=measured[0])
    run.measured(target, batch_size=measured[1])
    for size, reason in told.items():
        found = outcome(run, run.cell(batch_size=size))
        assert (found.status, found.batch_size, found.refers_to) == (Status.REFERRED, measured[1], target.id)
        assert found.reason == reason


def test_out_of_memory_at_batch_1_does_not_fit(tmp_path: Path) -> None:
    """Nothing smaller is left to try, and larger sizes do not fit either."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=1), Category.OUT_OF_MEMORY)
    assert outcome(run, run.cell(batch_size=1)).status is Status.DOES_NOT_FIT
    assert outcome(run, run.cell(batch_size=8)).status is Status.DOES_NOT_FIT


def test_out_of_memory_before_the_first_forward_does_not_fit(tmp_path: Path) -> None:
    """The model itself is too large: so is it at every size that was not tried; one that was says what came of it."""
    run = FakeRun(tmp_path, batch_sizes=(1, 2, 4, 8))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=2), Category.EXCEPTION)
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY, phase=Phase.BUILD)
    found = {size: outcome(run, run.cell(batch_size=size)) for size in (1, 2, 4, 8)}
    assert (found[1].status, found[2].status) == (Status.OK, Status.FAILED)
    assert (found[4].status, found[8].status) == (Status.DOES_NOT_FIT, Status.DOES_NOT_FIT)
    assert found[8].reason in found[4].reason
    assert "batch size 8" in found[4].reason


def test_memory_of_one_workload_says_nothing_about_another(tmp_path: Path) -> None:
    """Training ran out of memory; inference at the same size was simply not attempted yet."""
    run = FakeRun(tmp_path, batch_sizes=(8,), workloads=(Workload.INFERENCE, Workload.TRAINING))
    run.failed(run.cell(workload=Workload.TRAINING, batch_size=8), Category.OUT_OF_MEMORY)
    assert outcome(run, run.cell(batch_size=8)).status is Status.MISSING


@pytest.mark.parametrize("category", [Category.EXCEPTION, Category.CRASHED, Category.DEADLINE, Category.IMPORT_ERROR])
def test_any_other_failure_fails_the_cell_with_its_words(tmp_path: Path, category: Category) -> None:
    """The last failure is the reason."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(), category, message="what exactly happened")
    words = f"{category}: what exactly happened"
    assert outcome(run, run.cell()) == CellOutcome(status=Status.FAILED, reason=words)


def test_a_retry_that_succeeds_makes_the_cell_ok(tmp_path: Path) -> None:
    """A crash before the result costs nothing but time."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(), Category.CRASHED)
    launch = run.measured(run.cell())
    assert outcome(run, run.cell()) == CellOutcome(status=Status.OK, batch_size=1, valid_launches=(launch,))


def test_an_interrupted_attempt_is_missing(tmp_path: Path) -> None:
    """Neither an attempt without an end nor one that was stopped on request has failed."""
    run = FakeRun(tmp_path, batch_sizes=(1, 2, 4))
    run.interrupted(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=2), Category.INTERRUPTED)
    assert {outcome(run, run.cell(batch_size=size)).status for size in (1, 2, 4)} == {Status.MISSING}


def test_a_cell_that_was_interrupted_too_often_says_what_to_do(tmp_path: Path) -> None:
    """Five times `resume` tries it again; the sixth interruption is the last, and only a new run measures it."""
    run = FakeRun(tmp_path)
    for times in range(1, 7):
        run.failed(run.cell(), Category.INTERRUPTED, message="the orchestrator ended")
        found = outcome(run, run.cell())
        assert found.status is (Status.MISSING if times < 6 else Status.FAILED)
    assert re.search("6 times.*the orchestrator ended.*new run", found.reason)


def test_a_damaged_result_is_not_hidden_behind_a_want_of_time(tmp_path: Path) -> None:
    """Where its cell's other round was dropped, which is no failure, the cell has failed all the same."""
    run = FakeRun(tmp_path, batch_sizes=(1,), launches=2)
    damaged = run.measured(run.cell())
    run.dropped(run.cell(), "no time", number=1)
    assert [outcome(run, run.cell(), launches).status for launches in ((), (damaged,))] == [Status.OK, Status.FAILED]


def test_cells_of_a_device_that_was_quarantined_say_so(tmp_path: Path) -> None:
    """Also in a later session that lets it work again. The other device's cells are not touched."""
    run = FakeRun(tmp_path, devices=gpus(2))
    run.failed(run.cell(batch_size=1), Category.DEVICE_LOST, message="off the bus")
    out = outcome(run, run.cell(batch_size=8))
    assert (out.status, "off the bus" in out.reason) == (Status.MISSING, True)
    assert "off the bus" not in outcome(run, run.cell(batch_size=8, device=1)).reason
    run.segment()
    assert outcome(run, run.cell(batch_size=8)) == out
    assert run.archive().quarantined == {}


def test_a_retry_that_a_lost_device_prevents_is_missing(tmp_path: Path) -> None:
    """An accident that would have been tried again is not why the cell has no result: its device was taken out."""
    run = FakeRun(tmp_path)
    run.failed(run.cell(batch_size=8), Category.KILLED)
    run.failed(run.cell(batch_size=1), Category.DEVICE_LOST, message="off the bus")
    found = outcome(run, run.cell(batch_size=8))
    assert (found.status, found.reason.endswith(": off the bus")) == (Status.MISSING, True)


def test_cells_of_a_skipped_model_are_failures_with_its_reason(tmp_path: Path) -> None:
    """Neither not attempted nor interrupted: nothing more of the model will be run. Its own failure keeps its words."""
    run = FakeRun(tmp_path, batch_sizes=(1, 2, 4, 8))
    run.measured(run.cell(batch_size=1))
    run.interrupted(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=2), Category.IMPORT_ERROR, phase=Phase.IMPORT, message="no such module")
    run._journal.append(Skipped(model="resnet50", at_ns=run.now_ns, reason="import error on GPU 0"))
    told = {size: outcome(run, run.cell(batch_size=size)) for size in (1, 2, 4, 8)}
    assert told[1].status is Status.OK
    assert told[2].reason == f"{Category.IMPORT_ERROR}: no such module"
    for size in (4, 8):
        assert (told[size].status, told[size].reason.endswith(": import error on GPU 0")) == (Status.FAILED, True)


def test_a_size_that_is_skipped_is_told_as_that_size(tmp_path: Path) -> None:
    """What took too long on two GPUs is not the whole model: only its own cell says so."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    slow = slots.scopes(run.cell(batch_size=8))[Reach.CELL]
    only, reason = slow.removeprefix("resnet50 "), f"{Category.DEADLINE} on GPU 1"
    run._journal.append(Skipped(model="resnet50", only=only, at_ns=run.now_ns, reason=reason))
    assert outcome(run, run.cell(batch_size=1)).status is Status.OK
    skipped = outcome(run, run.cell(batch_size=8))
    assert skipped.status is Status.FAILED
    assert re.fullmatch(f"the cell .*: {reason}", skipped.reason)


FAILURES = (Category.CRASHED, Category.EXCEPTION, Category.INTERRUPTED, Category.DEADLINE, Category.NOT_FINITE)


def simulate(planned: Plan, seed: int, steps: int) -> tuple[slots.RunState, list[Record]]:
    """Let the state machine work on a plan in a world made of `seed`: what fits, and what goes wrong."""
    chance = random.Random(seed)
    room = {(cell.workload, cell.devices): chance.choice([0, 1, 3, 4, 8, 100]) for cell in planned.cells}
    now = transitions.begin(planned)
    records: list[Record] = [SEGMENT]
    for _ in range(steps):
        now, launches = transitions.next_launches(now)
        if not launches:
            break
        for launch in launches:
            hurt: Failure | None = None
            if launch.cell.batch_size > room[launch.cell.workload, launch.cell.devices]:
                hurt = failure(Category.OUT_OF_MEMORY, Phase.WARM_UP)
            elif chance.random() < 0.2:
                hurt = failure(chance.choice(FAILURES))
            digest = None if hurt else "0" * 64
            end = End(launch=launch.launch, at_ns=1, result_sha256=digest, failure=hurt)
            records += [record(launch), end]
            now = ended(begun(now, launch), launch, hurt)
    return now, records


@given(
    seed=st.integers(0, 10**6),
    launches=st.integers(1, 3),
    sizes=st.sets(st.sampled_from([1, 2, 4, 8, 16, 32]), min_size=1, max_size=4),
)
def test_the_report_and_the_run_agree_about_every_cell(seed: int, launches: int, sizes: set[int]) -> None:
    """Whatever happens, a finished run and its report tell the same: measured, referred, not fitting, failed."""
    asked = configuration(
        models=shipped("resnet50"),
        workloads=(Workload.INFERENCE, Workload.TRAINING),
        batch_sizes=tuple(sorted(sizes)),
        training_batch_sizes=tuple(sorted(sizes)),
        launches=launches,
    )
    planned = planner.make(asked, gpus(2))
    final, records = simulate(planned, seed, steps=10_000)
    derived = outcomes.derive(replay(planned, BENCHMARK_RULES, records))
    for cell in planned.cells:
        mine = [slot for (cell_id, _), slot in final.slots.items() if cell_id == cell.id]
        statuses = {slot.status for slot in mine}
        found = derived[cell.id]
        if final.devices[cell.devices[0]].quarantined and not statuses <= slots.SETTLED:
            continue  # nothing is settled there any more
        assert statuses <= slots.SETTLED
        if SlotStatus.MEASURED in statuses:
            sizes_measured = [slot.batch_size for slot in mine if slot.status is SlotStatus.MEASURED]
            assert found.status is (Status.OK if min(sizes_measured) == cell.batch_size else Status.DEGRADED)
            assert found.batch_size == min(sizes_measured)
        elif SlotStatus.REFERRED in statuses:
            assert found.status in (Status.REFERRED, Status.DOES_NOT_FIT)
        elif statuses == {SlotStatus.DOES_NOT_FIT}:
            assert found.status is Status.DOES_NOT_FIT
        else:
            assert found.status in (Status.FAILED, Status.MISSING)
            assert found.status is Status.FAILED or cell.model not in final.skipped
    assert not any(found.status is Status.OK and not found.valid_launches for found in derived.values())
