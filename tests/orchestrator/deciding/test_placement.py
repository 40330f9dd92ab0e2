"""Whose fault a failure is: the same cell on another device tells, and the run acts on it."""

import itertools
import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.configuration.resolved import Plan
from orchestrator.deciding import placement, recovery, state
from orchestrator.deciding.placement import Blame, Elsewhere
from orchestrator.deciding.slots import (
    SETTLED,
    Ended,
    Freed,
    NextLaunch,
    Quarantined,
    SlotStatus,
    Started,
)
from orchestrator.disk.records import End, Record, Segment, Start
from orchestrator.planning.scan import Figures, Room
from protocol.cell import AUTO, Precision, Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.placing import cell, plan, statuses
from tests.fakes.steps import failure, run

SEGMENT = Segment(boot_id="b", driver_version=None, tool_version="0", pid=1, wall=0.0, monotonic_ns=0)
WHOLE = (Category.CUDA_STICKY, Category.CRASHED, Category.NOT_FINITE)
"""What may be the fault of the model or of the device, and tells of every size of the model."""
WHOSE = (*WHOLE, Category.CUDA_ERROR, Category.KILLED, Category.DEADLINE)
"""Beside them what tells of one size alone (test_hangs.py)."""


@pytest.mark.parametrize("category", WHOLE)
def test_what_fails_on_two_devices_is_the_models_fault(category: Category) -> None:
    """Nothing more of the model is launched on any device; no device is taken out; other models are measured."""
    end, made = run(
        state.begin(plan("ab", 3, sizes=(1, 2, 4, 8))), lambda one: failure(category) if one.cell.model == "a" else None
    )
    tried = [one for one in made if one.cell.model == "a"]
    assert len(tried) < 9, "the twelve cells of it were not all tried"
    assert SlotStatus.SKIPPED in statuses(end, "a")
    assert set(statuses(end, "a")) == {SlotStatus.FAILED, SlotStatus.SKIPPED}
    assert set(statuses(end, "b")) == {SlotStatus.MEASURED}
    (skip,) = end.skipped.values()
    assert len(skip.devices) >= 2
    assert (skip.model, skip.category) == ("a", category)
    assert not any(device.quarantined or device.strikes for device in end.devices.values())


@pytest.mark.parametrize("category", WHOSE)
def test_two_failures_that_follow_a_device_take_it_out(category: Category) -> None:
    """The second cell that fails on one GPU and works on the other is enough; the other GPU has all its results."""
    end, made = run(state.begin(plan("abcdef", 2)), lambda one: failure(category) if one.device == "GPU-0" else None)
    assert end.devices["GPU-0"].quarantined == "2 cells failed on it that work on another device"
    assert end.skipped == {}
    assert not end.devices["GPU-1"].quarantined
    assert all(end.slots[slot].status is SlotStatus.MEASURED for slot in end.slots if "gpu-1" in slot[0])
    assert len({one.slot for one in made if one.device == "GPU-0"}) < 6


def test_one_failure_that_follows_a_device_does_not_take_it_out() -> None:
    """A single one may be chance."""
    end, _ = run(
        state.begin(plan("abc", 2)),
        lambda one: failure(Category.CUDA_STICKY) if one.device == "GPU-0" and one.cell.model == "a" else None,
    )
    assert len(end.devices["GPU-0"].strikes) == 1
    assert not end.devices["GPU-0"].quarantined
    assert statuses(end, "b") == statuses(end, "c") == [SlotStatus.MEASURED, SlotStatus.MEASURED]


def test_the_same_cell_is_next_on_the_other_device() -> None:
    """The question is answered before anything else is run there, with the same cell and the same seed."""
    now, following = state.next_launches(state.begin(plan("abcd", 2)))
    for one in following:
        now = state.step(now, Started(one.launch, one.slot, one.device, 1))
    now = state.step(state.step(now, Ended(1, None)), Freed("GPU-1"))  # GPU-1 has measured "a", and begins "b"
    now, (second,) = state.next_launches(now)
    now = state.step(now, Started(second.launch, second.slot, second.device, 1))
    now = state.step(state.step(now, Ended(0, None)), Freed("GPU-0"))
    for model in "bc":  # GPU-0 overtakes, and fails at "c"
        now, (one,) = state.next_launches(now)
        assert one.cell.model == model
        now = state.step(now, Started(one.launch, one.slot, "GPU-0", 1))
        failed = failure(Category.CUDA_STICKY) if model == "c" else None
        now = state.step(state.step(now, Ended(one.launch, failed)), Freed("GPU-0"))
    now = state.step(now, Quarantined("GPU-0", "to look at the other alone"))
    now = state.step(state.step(now, Ended(second.launch, None)), Freed("GPU-1"))
    now, (asked,) = state.next_launches(now)
    assert asked.cell == cell("c", "GPU-1")


def test_a_single_device_cannot_tell() -> None:
    """Its failures are kept as such: no model is skipped for them and the device is not taken out."""
    one_plan = plan("abc", 1)
    end, _ = run(state.begin(one_plan), lambda _: failure(Category.CUDA_STICKY))
    assert placement.judge(end, next(iter(end.slots))) is Blame.UNTOLD
    assert end.skipped == {}
    assert not end.devices["GPU-0"].quarantined
    assert set(statuses(end, "a")) == {SlotStatus.FAILED}


def test_a_device_of_another_kind_is_not_asked() -> None:
    """What fails on one product and works on another may be the fault of a library: nobody is blamed."""
    kinds = {"GPU-0": "NVIDIA L4", "GPU-1": "NVIDIA H200", "GPU-2": "NVIDIA H200"}
    end, _ = run(
        state.begin(plan("abcd", 3), kinds), lambda one: failure(Category.CRASHED) if one.device == "GPU-0" else None
    )
    assert not end.devices["GPU-0"].quarantined
    assert end.skipped == {}
    assert sum(slot.status is SlotStatus.FAILED for slot in end.slots.values()) == 4


def test_an_import_error_skips_the_model_at_once() -> None:
    """One launch is enough to know; what else runs of it at that moment may end."""
    end, made = run(
        state.begin(plan("ab", 2, rounds=3, sizes=(1, 2, 4))),
        lambda one: failure(Category.IMPORT_ERROR, Phase.IMPORT) if one.cell.model == "a" else None,
    )
    assert sum(one.cell.model == "a" for one in made) == 2
    assert set(statuses(end, "b")) == {SlotStatus.MEASURED}


def test_nan_skips_the_model_in_its_precision_alone() -> None:
    """What is no number in fp16 may well be one in fp32, and inference has no loss: both are measured everywhere."""
    names = ("GPU-0", "GPU-1", "GPU-2")
    kinds = [
        (Workload.TRAINING, Precision.FP16),
        (Workload.TRAINING, Precision.FP32),
        (Workload.INFERENCE, Precision.FP16),
    ]
    cells = {
        name: [
            msgspec.structs.replace(cell("a", name, size), workload=workload, precision=precision)
            for size in (1, 2, 4)
            for workload, precision in kinds
        ]
        for name in names
    }
    made_of_kinds = Plan(
        cells=tuple(one for mine in cells.values() for one in mine),
        order={name: tuple((one.id, 0) for one in mine) for name, mine in cells.items()},
    )

    def diverges(one: NextLaunch) -> Failure | None:
        bad = (one.cell.workload, one.cell.precision) == kinds[0]
        return failure(Category.NOT_FINITE) if bad else None

    end, made = run(state.begin(made_of_kinds), diverges)
    assert set(end.skipped) == {"a training fp16"}
    assert end.skipped["a training fp16"].only == "training fp16"
    assert sum((one.cell.workload, one.cell.precision) == kinds[0] for one in made) < 9
    assert sum((one.cell.workload, one.cell.precision) != kinds[0] for one in made) == 18
    assert not any(device.strikes or device.quarantined for device in end.devices.values())


KINDS = tuple(
    itertools.product((Workload.LOAD, Workload.INFERENCE, Workload.TRAINING), (Precision.FP32, Precision.BF16))
)
"""What the cells of one model may be; each at three batch sizes below."""


def of_kinds(order: Sequence[tuple[Workload, Precision]], input_sizes: tuple[int | None, ...] = (None,)) -> Plan:
    """One model on one device, its cells in this order."""
    cells = tuple(
        msgspec.structs.replace(cell("a", "GPU-0", size), workload=work, precision=precision, input_size=input_size)
        for work, precision in order
        for input_size in input_sizes
        for size in (1, 2, 4)
    )
    return Plan(cells=cells, order={"GPU-0": tuple((one.id, 0) for one in cells)})


@pytest.mark.parametrize(
    ("category", "phase", "tried"),
    [
        (Category.NOT_BUILT, Phase.BUILD, 1),
        (Category.IMPORT_ERROR, Phase.IMPORT, 1),
        (Category.IMPORT_ERROR, Phase.BUILD, 1),
        (Category.IMPORT_ERROR, Phase.WARM_UP, 18),
        (Category.EXCEPTION, Phase.IMPORT, 1),
        (Category.EXCEPTION, Phase.BUILD, 6),
        (Category.EXCEPTION, Phase.MEASURE, 18),
    ],
)
def test_how_much_a_model_is_skipped_for(category: Category, phase: Phase, tried: int) -> None:
    """What every cell does is tried once; what a workload and precision ask for, once in each; else every time."""
    end, made = run(state.begin(of_kinds(KINDS)), lambda _: failure(category, phase))
    assert len(made) == tried
    assert set(statuses(end, "a")) <= {SlotStatus.FAILED, SlotStatus.SKIPPED}


HALF = {(work, Precision.BF16) for work in (Workload.LOAD, Workload.INFERENCE)}


@pytest.mark.parametrize("unsuitable", [HALF, {KINDS[0]}, {KINDS[0], KINDS[1]}], ids=["half", "one load", "load"])
@pytest.mark.parametrize("seed", range(12))
def test_one_unsuitable_cell_costs_no_other_in_whatever_order(
    unsuitable: set[tuple[Workload, Precision]], seed: int
) -> None:
    """A complex parameter has no half, overlapping views cannot be saved: everything else is measured all the same."""
    order = random.Random(seed).sample(KINDS, len(KINDS))

    def fails(one: NextLaunch) -> Failure | None:
        bad = (one.cell.workload, one.cell.precision) in unsuitable
        return failure(Category.EXCEPTION, Phase.BUILD) if bad else None

    end, made = run(state.begin(of_kinds(order)), fails)
    measured = {slot for slot, one in end.slots.items() if one.status is SlotStatus.MEASURED}
    kinds = {slot: (end.cells[slot[0]].workload, end.cells[slot[0]].precision) for slot in end.slots}
    wanted = {slot for slot, kind in kinds.items() if kind not in unsuitable}
    assert measured == wanted
    assert len(made) == len(wanted) + len(unsuitable), "and an unsuitable one is tried once"


@pytest.mark.parametrize("order", [(64, 96), (96, 64)])
def test_an_input_size_that_cannot_be_built_costs_no_other_size(order: tuple[int, int]) -> None:
    """The network itself may depend on it."""
    end, made = run(
        state.begin(of_kinds(KINDS[:1], order)),
        lambda one: failure(Category.EXCEPTION, Phase.BUILD) if one.cell.input_size == 96 else None,
    )
    assert [one.cell.input_size for one in made].count(64) == 3
    assert len(made) == 4
    assert set(end.skipped) == {"a load fp32 at input size 96"}


def test_a_retry_that_waits_is_not_made_when_its_model_is_skipped() -> None:
    """A crash on one device is tried again there; when the model turns out to be broken meanwhile, it is not."""
    now, following = state.next_launches(state.begin(plan("a", 2)))
    for one in following:
        now = state.step(now, Started(one.launch, one.slot, one.device, 1))
    now = state.step(now, Ended(0, failure(Category.KILLED)))
    now = state.step(now, Ended(1, failure(Category.NOT_BUILT)))
    for device in ("GPU-0", "GPU-1"):
        now = state.step(now, Freed(device))
    now, following = state.next_launches(now)
    assert following == ()
    assert statuses(now, "a") == [SlotStatus.SKIPPED, SlotStatus.FAILED]


def test_host_out_of_memory_halves_what_runs_at_once() -> None:
    """Eight at once were too many: then four, then two; the cell itself is tried once more."""
    now, following = state.next_launches(state.begin(plan("abcdefgh", 8)))
    assert len(following) == 8
    for one in following:
        now = state.step(now, Started(one.launch, one.slot, one.device, 1))
    now = state.step(now, Ended(0, failure(Category.HOST_OUT_OF_MEMORY)))
    assert now.slots[following[0].slot].status is SlotStatus.WAITING
    for one in following[1:]:
        now = state.step(now, Ended(one.launch, None))
    for one in following:
        now = state.step(now, Freed(one.device))
    now, following = state.next_launches(now)
    assert len(following) == 4
    for one in following:
        now = state.step(now, Started(one.launch, one.slot, one.device, 1))
    now = state.step(now, Ended(following[0].launch, failure(Category.HOST_OUT_OF_MEMORY)))
    assert now.most == 2


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], Blame.UNTOLD),
        ([Elsewhere(measured=True, failures=(), pending=False)], Blame.DEVICE),
        ([Elsewhere(measured=False, failures=(Category.CRASHED,), pending=False)], Blame.MODEL),
        ([Elsewhere(measured=False, failures=(Category.DEADLINE,), pending=False)], Blame.UNTOLD),
        ([Elsewhere(measured=False, failures=(), pending=True)], Blame.OPEN),
        ([Elsewhere(measured=True, failures=(Category.CRASHED,), pending=False)], Blame.DEVICE),
        (
            [
                Elsewhere(measured=True, failures=(), pending=False),
                Elsewhere(measured=False, failures=(Category.CRASHED,), pending=True),
            ],
            Blame.MODEL,
        ),
    ],
)
def test_the_verdict(others: list[Elsewhere], verdict: Blame) -> None:
    """Alike elsewhere: the model. Measured elsewhere, if only at the second try: the device. Else nobody can tell."""
    assert placement.blame(Category.CRASHED, others) is verdict


def test_a_scan_of_a_skipped_model_is_not_made() -> None:
    """Neither begun nor gone on with."""
    scans = plan("a", 2, sizes=(AUTO,))
    room = Room(memory_bytes=None, largest=64, longest_s=1.0)
    now = state.begin(msgspec.structs.replace(scans, rooms={"GPU-0": room, "GPU-1": room}))
    now, (first, second) = state.next_launches(now)
    for one in (first, second):
        now = state.step(now, Started(one.launch, one.slot, one.device, one.cell.batch_size))
    now = state.step(now, Ended(first.launch, None, Figures(peak_bytes=1, items_per_second=1000.0)))
    now = state.step(now, Ended(second.launch, failure(Category.NOT_BUILT)))
    for device in ("GPU-0", "GPU-1"):
        now = state.step(now, Freed(device))
    now, following = state.next_launches(now)
    assert following == ()
    assert statuses(now, "a") == [SlotStatus.SKIPPED, SlotStatus.FAILED]


def test_a_resumed_run_skips_the_model_still_and_tries_the_devices_again() -> None:
    """What a model does will not change; what ailed a device may have been mended, and memory may have become free."""
    one_plan = plan("abcd", 2, rounds=2)
    now = state.begin(one_plan)
    records: list[Record] = [SEGMENT]
    fates: dict[str, Callable[[str], Category | None]] = {
        "a": lambda _: Category.NOT_BUILT,
        "b": lambda device: Category.CUDA_STICKY if device == "GPU-0" else None,
        "c": lambda device: Category.HOST_OUT_OF_MEMORY if device == "GPU-1" else None,
        "d": lambda device: Category.CUDA_STICKY if device == "GPU-0" else None,
    }
    while True:
        now, following = state.next_launches(now)
        if not following:
            break
        for one in following:
            now = state.step(now, Started(one.launch, one.slot, one.device, 1))
            records.append(
                Start(
                    launch=one.launch,
                    cell=one.slot[0],
                    round=one.slot[1],
                    attempt=one.attempt,
                    batch_size=1,
                    device=one.device,
                    at_ns=0,
                )
            )
        for one in following:
            category = fates[one.cell.model](one.device)
            failed = None if category is None else failure(category)
            records.append(End(launch=one.launch, at_ns=0, failure=failed))
            now = state.step(state.step(now, Ended(one.launch, failed)), Freed(one.device))
    assert now.devices["GPU-0"].quarantined
    assert now.most == 1
    resumed = recovery.restore(one_plan, [*records, SEGMENT])
    assert set(resumed.skipped) == {"a"}
    assert not resumed.devices["GPU-0"].quarantined
    assert resumed.devices["GPU-0"].strikes == ()
    assert resumed.most == 2
    assert not any(one.cell.model == "a" for one in run(resumed, lambda _: None)[1])


CATEGORIES = st.sampled_from([None, None, None, *Category])


@given(st.integers(1, 4), st.integers(1, 2), st.lists(CATEGORIES, max_size=150), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_in_whatever_order_every_slot_is_settled(
    devices: int, rounds: int, fates: list[Category | None], seed: int
) -> None:
    """No slot is lost, no device has two launches, the run ends, and its journal leads to the same decisions."""
    one_plan = plan("abc", devices, rounds=rounds, sizes=(1, 8))
    now, chance, fate = state.begin(one_plan), random.Random(seed), iter(fates)
    records: list[Record] = [SEGMENT]
    running: dict[str, int] = {}
    for _ in range(2_000):
        now, following = state.next_launches(now)
        for one in following:
            assert one.device not in running
            assert now.cells[one.slot[0]].model not in now.skipped
            assert not now.devices[one.device].quarantined
            running[one.device] = one.launch
            now = state.step(now, Started(one.launch, one.slot, one.device, one.cell.batch_size))
            records.append(
                Start(
                    launch=one.launch,
                    cell=one.slot[0],
                    round=one.slot[1],
                    attempt=one.attempt,
                    batch_size=one.cell.batch_size,
                    device=one.device,
                    at_ns=0,
                )
            )
        assert len(running) <= now.most or not following
        if not running:
            break
        device = chance.choice(sorted(running))
        category = next(fate, None)
        failed = None if category is None else failure(category, chance.choice(list(Phase)))
        launch = running.pop(device)
        records.append(End(launch=launch, at_ns=0, failure=failed))
        now = state.step(state.step(now, Ended(launch, failed)), Freed(device))
    else:
        pytest.fail("the run does not end")
    for (cell_id, _), slot in now.slots.items():
        assert slot.status in SETTLED or now.devices[now.cells[cell_id].devices[0]].quarantined
    restored, following = state.next_launches(recovery.restore(one_plan, records))
    assert following == ()
    assert restored.skipped == now.skipped
    for uuid, device in now.devices.items():
        assert (restored.devices[uuid].quarantined, restored.devices[uuid].strikes) == (
            device.quarantined,
            device.strikes,
        )
    for slot, known in now.slots.items():
        out = now.devices[now.cells[slot[0]].devices[0]].quarantined
        assert restored.slots[slot] == known or out  # there nothing is settled any more
    assert restored.at_once == now.at_once
