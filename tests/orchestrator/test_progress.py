"""What is told of a run while it goes on: how launches ended and what follows, and how much time is left."""

import itertools
from collections.abc import Mapping

import msgspec
import pytest

from orchestrator import launches, plan, progress
from orchestrator.fleet import Live
from orchestrator.slots import Ended, RunState, Started
from orchestrator.state import begin, next_launches, step
from orchestrator.stats.launch import of_launch
from orchestrator.stopping import OUT_OF_TIME
from orchestrator.terminal.wording import event_lines
from orchestrator.view import CellEnded
from protocol.cell import Workload
from protocol.failure import Category, Failure, Phase
from protocol.messages import LaunchSpec
from protocol.result import Block, Result
from tests.fakes.configurations import configuration, cpu
from tests.fakes.results import result
from tests.fakes.runs import shipped

DEVICE = cpu(0)


def begun(**changes: object) -> tuple[RunState, Live]:
    """A run whose first launch is under way."""
    models = {"models": shipped("bert-base"), "workloads": (Workload.INFERENCE,), "batch_sizes": (1,)}
    asked = configuration(**{**models, **changes})
    state, (first, *_) = next_launches(begin(plan.make(asked, (DEVICE,))))
    state = step(state, Started(first.launch, first.slot, first.device, first.cell.batch_size))
    spec = LaunchSpec(
        launch=first.launch,
        token="",
        endpoint="",
        parent_pid=1,
        folder="",
        environment={},
        cpus=(0,),
        isolation="fork",
        requested_ns=0,
        root="",
    )
    launch = launches.requested(asked.deadlines, asked.measurement, 0.0)
    return state, Live(next=first, spec=spec, launch=launch, begun=0.0, oom_kills=None)


def told(state: RunState, live: Live, outcome: Result | Failure) -> CellEnded:
    """What is said of a launch that ended so."""
    failure = outcome if isinstance(outcome, Failure) else None
    alike = progress.sizes(state.cells.values())
    return progress.ended(step(state, Ended(live.next.launch, failure)), live, DEVICE, outcome, alike)


def stopped(message: str) -> Failure:
    """Nobody's fault."""
    return Failure(category=Category.STOPPED, message=message, phase=Phase.WARM_UP)


def test_what_the_time_limit_ends_is_said_to_be_dropped() -> None:
    """`resume` does not measure it again, and nobody asked to stop."""
    state, live = begun()
    (line,) = event_lines(told(state, live, stopped(OUT_OF_TIME)), verbose=False)
    assert line == "cpu:0  bert-base inference fp32 b1: ended by the time limit; dropped"
    (line,) = event_lines(told(state, live, stopped("the run was asked to stop")), verbose=False)
    assert line.endswith("stopped; `resume` measures it again")


@pytest.mark.parametrize(("sizes", "name"), [((128,), "bert-base"), ((64, 128), "bert-base@")])
def test_the_input_size_is_named_where_there_are_several(sizes: tuple[int, ...], name: str) -> None:
    """In what ended and in what runs; the planned cell's id stands beside it, for programs."""
    state, live = begun(sequence_lengths=sizes)
    size = live.next.cell.input_size if len(sizes) > 1 else ""
    ended = told(state, live, stopped(OUT_OF_TIME))
    (device,) = snapshot(state, {0: live}).devices
    assert (ended.cell, device.cell) == (f"{name}{size} inference fp32",) * 2
    assert (ended.cell_id, device.cell_id) == (live.next.planned,) * 2


def test_out_of_memory_at_batch_1_has_no_next_process() -> None:
    """Half of one is nothing; at batch 8 a smaller one is tried."""
    failure = Failure(category=Category.OUT_OF_MEMORY, message="no room", phase=Phase.WARM_UP)
    assert "no batch size would" in told(*begun(), failure).next_step
    assert "half the batch" in told(*begun(batch_sizes=(8,)), failure).next_step


def test_items_a_second_are_those_of_the_report() -> None:
    """Over the time of the blocks, what lies between the iterations included."""
    state, live = begun()
    made = result(live.next.cell)
    longer = [msgspec.structs.replace(block, end_ns=block.end_ns + 10**6) for block in made.blocks]
    outcome = msgspec.structs.replace(made, blocks=tuple(_apart(longer)))
    said = told(state, live, outcome)
    assert said.items_per_second == of_launch(outcome).throughput
    assert said.items_per_second is not None
    assert said.iteration_ms is not None
    assert said.items_per_second < 1000 / said.iteration_ms
    assert f"{said.items_per_second:,.1f} items/s" in said.summary


def _apart(blocks: list[Block]) -> list[Block]:
    ends = itertools.accumulate(block.end_ns - block.start_ns for block in blocks)
    return [
        msgspec.structs.replace(
            block,
            start_ns=end - (block.end_ns - block.start_ns),
            enqueued_ns=end - (block.end_ns - block.start_ns),
            end_ns=end,
        )
        for block, end in zip(blocks, ends, strict=True)
    ]


def snapshot(
    state: RunState, live: Mapping[int, Live], *, launch_s: float | None = None, left_s: float | None = None
) -> progress.Snapshot:
    """The run, now. Every launch was estimated to take two seconds."""
    return progress.snapshot(
        state,
        (DEVICE,),
        live,
        {},
        progress.sizes(state.cells.values()),
        elapsed_s=1.0,
        launch_s={} if launch_s is None else {DEVICE.uuid: launch_s},
        expected_s=dict.fromkeys(state.cells, 2.0),
        left_s=left_s,
        note="",
    )


def test_the_time_left_is_told_from_the_beginning_and_keeps_to_the_limit() -> None:
    """By the estimates until launches have ended, then by those; never more than the limit leaves."""
    state, _ = begun(batch_sizes=(1, 2, 4))
    assert snapshot(state, {}).eta_s == 6.0
    assert snapshot(state, {}, launch_s=5.0).eta_s == 15.0
    assert snapshot(state, {}, launch_s=5.0, left_s=7.0).eta_s == 7.0
    assert snapshot(state, {}, left_s=-1.0).eta_s == 0.0
