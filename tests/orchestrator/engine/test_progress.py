"""What is told of a run while it goes on: how launches ended and what follows, and how much time is left."""

import random
import re
from collections.abc import Iterable, Mapping

import msgspec
import pytest

from orchestrator.engine import progress
from orchestrator.engine.display_events import CellEnded
from orchestrator.engine.launches import lifecycle
from orchestrator.engine.launches.live import Live
from orchestrator.plan import planner
from orchestrator.state.slots import (
    Dropped,
    Ended,
    Freed,
    NextLaunch,
    Quarantined,
    RunState,
    SlotStatus,
    Started,
    wait_in_vain,
)
from orchestrator.state.stopping import OUT_OF_TIME
from orchestrator.state.time_budget import Time
from orchestrator.state.transitions import begin, next_launches, step
from orchestrator.stats.launch import of_launch
from orchestrator.terminal.wording import event_lines, progress_line, total_line
from protocol.cell import Device, Mode, Precision, Workload
from protocol.failure import Category, Failure, Phase
from protocol.messages import LaunchSpec
from protocol.result import Result
from tests.fakes.configurations import configuration, cpu
from tests.fakes.results import result
from tests.fakes.runs import shipped
from tests.fakes.steps import failure

DEVICE = cpu(0)


def begun(**changes: object) -> tuple[RunState, Live]:
    """A run whose first launch is under way."""
    models = {"models": shipped("bert-base"), "workloads": (Workload.INFERENCE,), "batch_sizes": (1,)}
    asked = configuration(**{**models, **changes})
    state, (first, *_) = next_launches(begin(planner.make(asked, (DEVICE,))))
    names = {"token": "", "endpoint": "", "folder": "", "isolation": "fork", "root": ""}
    spec = LaunchSpec(launch=first.launch, parent_pid=1, environment={}, cpus=(0,), requested_ns=0, **names)
    launch = lifecycle.requested(asked.deadlines, asked.measurement, 0.0)
    live = Live(next=first, device=cpu(0), spec=spec, launch=launch, begun=0.0, oom_kills=None)
    return started(state, [first]), live


def started(state: RunState, following: Iterable[NextLaunch]) -> RunState:
    """Those launches are under way."""
    for one in following:
        state = step(state, Started(one.launch, one.slot, one.device, one.cell.batch_size))
    return state


def ended_with(state: RunState, live: Live, outcome: Result | Failure) -> CellEnded:
    """The event of a launch that ended so."""
    failure = outcome if isinstance(outcome, Failure) else None
    alike = progress.alike(state.cells.values())
    return progress.ended(step(state, Ended(live.next.launch, failure)), live, DEVICE, outcome, alike)


STOPPED = failure(Category.STOPPED)


def test_a_launch_that_the_time_limit_ends_is_dropped() -> None:
    """`resume` does not measure it again, as it does where somebody stopped the run."""
    state, live = begun()
    dropped, again = (
        " ".join(event_lines(ended_with(state, live, msgspec.structs.replace(STOPPED, message=why)), verbose=False))
        for why in (OUT_OF_TIME, "the run was asked to stop")
    )
    assert dropped.startswith("cpu:0  bert-base inference fp32 b1")
    assert [word in words for words in (dropped, again) for word in ("dropped", "resume")] == [True, False, False, True]


@pytest.mark.parametrize(("sizes", "name"), [((128,), "bert-base"), ((64, 128), "bert-base@")])
def test_the_input_size_is_named_where_there_are_several(sizes: tuple[int, ...], name: str) -> None:
    """In what ended and in what runs; the planned cell's id stands beside it, for programs."""
    state, live = begun(sequence_lengths=sizes)
    size = live.next.cell.input_size if len(sizes) > 1 else ""
    ended = ended_with(state, live, STOPPED)
    (device,) = snapshot(state, {0: live}).devices
    assert (ended.cell, device.cell) == (f"{name}{size} inference fp32",) * 2
    assert (ended.cell_id, device.cell_id) == (live.next.planned,) * 2


@pytest.mark.parametrize(
    ("batch_size", "skips", "phase", "words"),
    [
        (1, True, Phase.WARM_UP, "does not fit"),
        (8, True, Phase.WARM_UP, "half the batch, 4"),
        (1, False, Phase.WARM_UP, "next round"),
        (1, False, Phase.BUILD, "next round"),
    ],
)
def test_what_follows_out_of_memory(batch_size: int, skips: bool, phase: Phase, words: str) -> None:
    """Half of one is nothing; in a burn-in it costs one cell of one round."""
    state, live = begun(batch_sizes=(batch_size,))
    outcome = failure(Category.OUT_OF_MEMORY, phase)
    assert words in ended_with(msgspec.structs.replace(state, skips=skips), live, outcome).next_step


def test_items_a_second_are_those_of_the_report() -> None:
    """Over the time of the blocks, what lies between the iterations included."""
    state, live = begun()
    outcome = result(live.next.cell, suspended_s=0.01)
    said, throughput = ended_with(state, live, outcome), of_launch(outcome).throughput
    assert said.items_per_second == throughput
    assert said.iteration_ms is not None
    assert throughput < 1000 / said.iteration_ms
    assert f"{throughput:,.1f} smp/s" in said.summary


@pytest.mark.parametrize(
    ("workload", "facts", "words"),
    [
        (Workload.PROBE, {"flops_per_iteration": 5e11}, "10 ms, 50 TFLOP/s"),
        (Workload.PROBE, {"bytes_per_iteration": {"copy": 2 * 10**9, "triad": 3 * 10**9}}, "10 ms, 500 GB/s"),
        (Workload.PROBE, {}, "10 ms"),
        (Workload.SOAK, {"flops_per_iteration": 5e11}, "10 ms, 50 TFLOP/s"),
        (Workload.INFERENCE, {"flops_per_iteration": 5e11}, "10 ms, 100.0 smp/s"),
    ],
)
def test_what_measures_the_device_says_its_rate(workload: Workload, facts: dict[str, object], words: str) -> None:
    """The time of a product says nothing without its size, nor that of a copy."""
    state, live = begun()
    made = result(live.next.cell, noise=0.0, **facts)
    outcome = msgspec.structs.replace(made, cell=msgspec.structs.replace(made.cell, workload=workload))
    assert ended_with(state, live, outcome).summary == words


def snapshot(
    state: RunState,
    live: Mapping[int, Live],
    *,
    launch_s: float | Mapping[str, float] | None = None,
    left_s: float | None = None,
    spent_s: float = 3.0,
    stops_s: float | None = None,
    rounds: bool = False,
    open_ended: bool = False,
    devices: tuple[Device, ...] = (DEVICE,),
    note: str = "",
) -> progress.Snapshot:
    """The run, now, with 2 s a launch by the estimate. launch_s: what they took. left_s, spent_s: of its time."""
    took_s = {device.uuid: launch_s for device in devices} if isinstance(launch_s, float) else launch_s or {}
    return progress.snapshot(
        state,
        devices,
        live,
        {},
        progress.alike(state.cells.values()),
        elapsed_s=1.0,
        launch_s=took_s,
        expected_s=dict.fromkeys(state.cells, 2.0),
        limited=None if left_s is None else Time(spent_s, left_s),
        stops_s=stops_s,
        rounds=rounds,
        open_ended=open_ended,
        stands=progress.cells(state),
        note=note,
    )


def test_the_time_left_is_told_from_the_beginning_and_keeps_to_the_limit() -> None:
    """By the estimates until launches have ended, then by those; never more than the limit leaves."""
    state, _ = begun(batch_sizes=(1, 2, 4))
    assert snapshot(state, {}).eta_s == 6.0
    assert snapshot(state, {}, launch_s=5.0).eta_s == 15.0
    assert snapshot(state, {}, launch_s=5.0, left_s=7.0).eta_s == 7.0
    assert snapshot(state, {}, left_s=-1.0).eta_s == 0.0
    assert snapshot(state, {}, left_s=7.0, note="loading the frameworks").eta_s is None, "it takes longer than launches"


def test_progress_is_the_share_of_launches_or_of_the_time_that_is_limited() -> None:
    """A run under a limit may be through before that, by what its launches take; afterwards nothing is left."""
    state, live = begun(batch_sizes=(1, 2, 4))
    state = step(state, Ended(live.next.launch, None))
    assert (snapshot(state, {}).share, snapshot(state, {}).total) == (1 / 3, 3)
    limited = snapshot(state, {}, spent_s=30.0, left_s=90.0, launch_s=35.0)
    assert (limited.share, limited.total, limited.eta_s) == (0.3, 3, 70.0)
    assert snapshot(state, {}, spent_s=30.0, left_s=10.0, launch_s=35.0).share == 0.75
    assert snapshot(state, {}, spent_s=30.0, left_s=90.0, note="loading").share == 0.25, "it may take all"
    assert snapshot(state, {}, spent_s=120.0, left_s=-1.0).share == 1.0


def test_launches_that_may_be_added_make_the_time_limit_the_measure() -> None:
    """A gate goes on until it knows: what is planned so far says neither how much is over nor what is left."""
    state, live = begun(batch_sizes=(1, 2, 4))
    state = step(state, Ended(live.next.launch, None))
    early = snapshot(state, {}, spent_s=30.0, left_s=90.0, launch_s=1.0, open_ended=True)
    assert (early.share, early.total, early.eta_s) == (0.25, 3, None)


def test_the_rounds_of_a_burn_in_have_no_end_but_its_time() -> None:
    """Neither how many there will be is told, nor are those that were dropped at its end called done."""
    state, live = begun(batch_sizes=(1, 2, 4))
    state = step(state, Ended(live.next.launch, None))
    for slot in state.devices[DEVICE.uuid].queue[:1]:
        state = step(state, Dropped(slot))
    early = snapshot(state, {}, spent_s=30.0, left_s=90.0, rounds=True)
    assert (early.done, early.total, early.share, early.eta_s) == (1, None, 0.25, 90.0), "there will be more rounds"
    seen = snapshot(state, {}, spent_s=30.0, left_s=0.0, rounds=True)
    assert (seen.done, seen.total, seen.share) == (1, None, 1.0)
    for line in (progress_line(seen), total_line(seen, 79, ascii_only=True)):
        assert re.match("100% .*, 1 launch", line)
    assert snapshot(state, {}).done == 2


@pytest.mark.parametrize("rounds", [False, True])
def test_a_stop_that_was_asked_for_ends_a_run_before_its_time(rounds: bool) -> None:
    """What is over of its time is told as ever; also of one whose launches take a time that nobody knows."""
    state, _ = begun(batch_sizes=(1, 2, 4))
    burn_in_run = {"spent_s": 30.0, "left_s": 90.0, "rounds": rounds, "launch_s": 500.0}
    stopping = snapshot(state, {}, stops_s=16.0, **burn_in_run)
    assert (stopping.share, stopping.eta_s) == (0.25, 16.0)
    assert snapshot(state, {}, stops_s=-1.0, **burn_in_run).eta_s == 0.0
    assert snapshot(state, {}, stops_s=200.0, **burn_in_run).eta_s == 90.0
    assert snapshot(state, {}, stops_s=16.0, note="loading").eta_s == 16.0


PAIR = (cpu(0), cpu(1))
SLOWER = {PAIR[0].uuid: 3.0, PAIR[1].uuid: 5.0}


def paired(devices: tuple[Device, ...] = PAIR, **changes: object) -> RunState:
    """Devices with three launches each, none of them begun."""
    asked = {"models": shipped("bert-base"), "workloads": (Workload.INFERENCE,), "batch_sizes": (1, 2, 4)}
    return begin(planner.make(configuration(**{**asked, **changes}), devices))


def two_precisions() -> RunState:
    """Two devices with eight launches each, in two precisions."""
    precisions = (Precision.FP32, Precision.BF16)
    return paired(workloads=(Workload.TRAINING,), precisions=precisions, training_batch_sizes=(1, 2, 4, 8))


def test_devices_that_work_beside_each_other_are_through_with_the_slowest() -> None:
    """Where they take turns, all of it comes one after the other; a device that is out has nothing left to do."""
    assert snapshot(paired(), {}, launch_s=SLOWER, devices=PAIR).eta_s == 15.0
    assert snapshot(paired(modes=(Mode.SOLO,)), {}, launch_s=SLOWER, devices=PAIR).eta_s == 24.0
    both = paired(modes=(Mode.LOADED, Mode.SOLO))
    assert snapshot(both, {}, launch_s=SLOWER, devices=PAIR).eta_s == 15.0 + 24.0
    out = step(paired(), Quarantined(PAIR[1].uuid, "it is lost"))
    assert snapshot(out, {}, launch_s=SLOWER, devices=PAIR).eta_s == 9.0
    assert snapshot(step(out, Quarantined(PAIR[0].uuid, "too")), {}, launch_s=SLOWER, devices=PAIR).eta_s == 0.0


def test_fewer_at_once_take_longer() -> None:
    """Some devices wait then: three of four share the work of all, unless one of them has most of it."""
    state, following = next_launches(paired())
    state = started(state, following)
    assert snapshot(state, {}, launch_s=SLOWER, devices=PAIR).eta_s == 15.0
    state = step(state, Ended(following[0].launch, failure(Category.HOST_OUT_OF_MEMORY)))
    assert state.most == 1
    assert snapshot(state, {}, launch_s=SLOWER, devices=PAIR).eta_s == 24.0
    four = tuple(map(cpu, range(4)))
    state = msgspec.structs.replace(paired(four), at_once=3)
    assert snapshot(state, {}, launch_s=5.0, devices=four).eta_s == 20.0
    longest = {device.uuid: 1.0 for device in four} | {four[0].uuid: 50.0}
    assert snapshot(state, {}, launch_s=longest, devices=four).eta_s == 150.0


def test_a_launch_counts_until_it_ends_and_not_until_its_device_is_free() -> None:
    """What runs is still to be waited for; what has ended is not, though its process is not gone yet."""
    state, live = begun(batch_sizes=(1, 2, 4))
    assert snapshot(state, {}, launch_s=5.0).eta_s == 15.0
    state = step(state, Ended(live.next.launch, None))
    assert state.devices[DEVICE.uuid].running == live.next.launch
    assert snapshot(state, {}, launch_s=5.0).eta_s == 10.0
    assert snapshot(state, {}).eta_s == 4.0


def test_what_is_skipped_is_done_and_takes_no_time() -> None:
    """As soon as its model is, not when its turn comes; another model goes on."""
    count = 10
    sizes = tuple(range(1, count + 1))
    state, live = begun(models=shipped("bert-base", "resnet50"), batch_sizes=sizes, precisions=(Precision.FP32,))
    state = step(state, Ended(live.next.launch, failure(Category.NOT_BUILT)))
    now = snapshot(state, {}, launch_s=10.0)
    assert (now.done, now.failed, now.total, now.eta_s) == (count, count, 2 * count, 10.0 * count)
    assert snapshot(state, {}).eta_s == 2.0 * count, "by the estimates too"


def test_a_loss_that_is_no_number_skips_its_precision_alone() -> None:
    """In the count too; and what waits is told as done but once, before and after its turn."""
    state = two_precisions()
    seen = []
    while True:
        state, following = next_launches(state)
        now = snapshot(state, {}, launch_s=1.0, devices=PAIR)
        seen.append(now.done)
        if not following:
            break
        state = started(state, following)
        for one in following:
            bad = one.cell.precision is Precision.BF16
            state = step(state, Ended(one.launch, failure(Category.NOT_FINITE) if bad else None))
            state = step(state, Freed(one.device))
    assert seen == sorted(seen)
    assert state.tally[SlotStatus.SKIPPED] > 0
    assert (now.done, now.failed, now.eta_s) == (len(state.slots), len(state.slots) // 2, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_count_of_what_waits_in_vain_is_right_at_every_step(seed: int) -> None:
    """It is kept, not counted: whatever happens to launches, it is what a look at every slot finds."""
    chance = random.Random(seed)
    state = two_precisions()
    what = (Category.NOT_BUILT, Category.NOT_FINITE, Category.KILLED, Category.OUT_OF_MEMORY, Category.CRASHED, None)
    grew = 0
    while True:
        state, following = next_launches(state)
        state = started(state, following)
        for one in following:
            category = chance.choice(what)
            state = step(state, Ended(one.launch, None if category is None else failure(category)))
            assert {**dict.fromkeys(state.devices, 0), **state.in_vain} == wait_in_vain(state)
            grew += sum(state.in_vain.values())
            state = step(state, Freed(one.device))
        if not following:
            break
    assert sum(state.in_vain.values()) == 0 or any(one.quarantined for one in state.devices.values())
    assert grew or not state.skipped


def test_cells_are_counted_by_where_they_stand() -> None:
    """A cell of several launches waits until all are over, then stands with what was measured; each is counted once."""
    state, live = begun(batch_sizes=(1, 8), launches=2)
    found = {status: number for status, number in progress.cells(state).items() if number}
    assert found == {SlotStatus.RUNNING: 1, SlotStatus.WAITING: 1}
    state = step(step(state, Ended(live.next.launch, None)), Freed(DEVICE.uuid))
    assert progress.cells(state)[SlotStatus.WAITING] == 2
    for bad in (None, None, failure(Category.EXCEPTION)):
        state, following = next_launches(state)
        state = step(step(started(state, following), Ended(following[0].launch, bad)), Freed(DEVICE.uuid))
    counted = progress.cells(state)
    assert (counted[SlotStatus.MEASURED], sum(counted.values())) == (2, 2)


def test_only_a_failure_of_the_process_is_retried() -> None:
    """Not one of the model, nor what a person has stopped."""
    categories = (Category.CRASHED, Category.EXCEPTION, Category.STOPPED)
    assert [ended_with(*begun(), failure(one)).again for one in categories] == [True, False, False]
