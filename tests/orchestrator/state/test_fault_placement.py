"""Attribution of a failure: the same cell on another device shows it, and the run acts on it."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.state import fault_placement, transitions
from orchestrator.state.fault_placement import Blame, Elsewhere
from orchestrator.state.replay import BENCHMARK_RULES, replay
from orchestrator.state.slots import SETTLED, Ended, NextLaunch, Quarantined, SlotStatus
from orchestrator.store.journal_records import End, Record, Start
from protocol.failure import Category, Phase
from tests.fakes.placing import cell, plan, statuses
from tests.fakes.steps import SEGMENT, begun, ended, failure, record, run

WHOLE = (Category.CUDA_STICKY, Category.CRASHED, Category.NOT_FINITE)
"""What may be the fault of the model or of the device, and tells of every size of the model."""
WHOSE = (*WHOLE, Category.CUDA_ERROR, Category.KILLED, Category.DEADLINE)
"""Beside them what tells of one size alone (test_hangs.py)."""


@pytest.mark.parametrize("category", WHOLE)
def test_what_fails_on_two_devices_is_the_models_fault(category: Category) -> None:
    """Nothing more of the model is launched on any device; no device is taken out; other models are measured."""
    end, made = run(
        transitions.begin(plan("ab", 3, sizes=(1, 2, 4, 8))),
        lambda one: failure(category) if one.cell.model == "a" else None,
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
    end, made = run(
        transitions.begin(plan("abcdef", 2)), lambda one: failure(category) if one.device == "GPU-0" else None
    )
    assert end.devices["GPU-0"].quarantined.startswith("2 cells ")
    assert end.skipped == {}
    assert not end.devices["GPU-1"].quarantined
    assert all(end.slots[slot].status is SlotStatus.MEASURED for slot in end.slots if "gpu-1" in slot[0])
    assert len({one.slot for one in made if one.device == "GPU-0"}) < 6


def test_one_failure_that_follows_a_device_does_not_take_it_out() -> None:
    """A single one may be chance."""
    end, _ = run(
        transitions.begin(plan("abc", 2)),
        lambda one: failure(Category.CUDA_STICKY) if one.device == "GPU-0" and one.cell.model == "a" else None,
    )
    assert len(end.devices["GPU-0"].strikes) == 1
    assert not end.devices["GPU-0"].quarantined
    assert statuses(end, "b") == statuses(end, "c") == [SlotStatus.MEASURED, SlotStatus.MEASURED]


def test_the_same_cell_is_next_on_the_other_device() -> None:
    """The question is answered before anything else is run there, with the same cell and the same seed."""
    now, following = transitions.next_launches(transitions.begin(plan("abcd", 2)))
    now = begun(now, *following)
    now, (second,) = transitions.next_launches(ended(now, following[1]))  # GPU-1 has measured "a", and begins "b"
    now = ended(begun(now, second), following[0])
    for model in "bc":  # GPU-0 overtakes, and fails at "c"
        now, (one,) = transitions.next_launches(now)
        assert one.cell.model == model
        now = ended(begun(now, one), one, failure(Category.CUDA_STICKY) if model == "c" else None)
    now = transitions.step(now, Quarantined("GPU-0", "to look at the other alone"))
    now, (asked,) = transitions.next_launches(ended(now, second))
    assert asked.cell == cell("c", "GPU-1")


def test_a_single_device_cannot_tell() -> None:
    """Its failures are kept as such: no model is skipped for them and the device is not taken out."""
    one_plan = plan("abc", 1)
    end, _ = run(transitions.begin(one_plan), lambda _: failure(Category.CUDA_STICKY))
    assert fault_placement.judge(end, next(iter(end.slots))) is Blame.UNKNOWN
    assert end.skipped == {}
    assert not end.devices["GPU-0"].quarantined
    assert set(statuses(end, "a")) == {SlotStatus.FAILED}


def test_a_device_of_another_kind_is_not_asked() -> None:
    """A model that fails on one GPU model and works on another blames no device: a library may be at fault."""
    kinds = {"GPU-0": "NVIDIA L4", "GPU-1": "NVIDIA H200", "GPU-2": "NVIDIA H200"}
    end, _ = run(
        transitions.begin(plan("abcd", 3), kinds),
        lambda one: failure(Category.CRASHED) if one.device == "GPU-0" else None,
    )
    assert not end.devices["GPU-0"].quarantined
    assert end.skipped == {}
    assert sum(slot.status is SlotStatus.FAILED for slot in end.slots.values()) == 4


def test_host_out_of_memory_halves_what_runs_at_once() -> None:
    """Eight at once were too many: then four, then two; the cell itself is tried once more."""
    now, following = transitions.next_launches(transitions.begin(plan("abcdefgh", 8)))
    assert len(following) == 8
    now = begun(now, *following)
    now = transitions.step(now, Ended(0, failure(Category.HOST_OUT_OF_MEMORY)))
    assert now.slots[following[0].slot].status is SlotStatus.WAITING
    for one in following:
        now = ended(now, one)
    now, following = transitions.next_launches(now)
    assert len(following) == 4
    now = begun(now, *following)
    now = transitions.step(now, Ended(following[0].launch, failure(Category.HOST_OUT_OF_MEMORY)))
    assert now.most == 2


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], Blame.UNKNOWN),
        ([(True, (), False)], Blame.DEVICE),
        ([(False, (Category.CRASHED,), False)], Blame.MODEL),
        ([(False, (Category.DEADLINE,), False)], Blame.UNKNOWN),
        ([(False, (), True)], Blame.OPEN),
        ([(True, (Category.CRASHED,), False)], Blame.DEVICE),
        ([(True, (), False), (False, (Category.CRASHED,), True)], Blame.MODEL),
    ],
)
def test_the_verdict(others: list[tuple[bool, tuple[Category, ...], bool]], verdict: Blame) -> None:
    """Alike elsewhere: the model. Measured elsewhere, if only at the second try: the device. Else nobody can tell."""
    assert fault_placement.blame(Category.CRASHED, [Elsewhere(*one) for one in others]) is verdict


def test_a_resumed_run_skips_the_model_still_and_tries_the_devices_again() -> None:
    """After resume a faulty model stays skipped. Devices are tried again: a fault may be fixed and memory free."""
    one_plan = plan("abcd", 2, rounds=2)
    now = transitions.begin(one_plan)
    records: list[Record] = [SEGMENT]
    fates: dict[str, Callable[[str], Category | None]] = {
        "a": lambda _: Category.NOT_BUILT,
        "b": lambda device: Category.CUDA_STICKY if device == "GPU-0" else None,
        "c": lambda device: Category.HOST_OUT_OF_MEMORY if device == "GPU-1" else None,
        "d": lambda device: Category.CUDA_STICKY if device == "GPU-0" else None,
    }
    while True:
        now, following = transitions.next_launches(now)
        if not following:
            break
        for one in following:
            now = begun(now, one)
            records.append(record(one))
        for one in following:
            category = fates[one.cell.model](one.device)
            failed = None if category is None else failure(category)
            records.append(End(launch=one.launch, at_ns=0, failure=failed))
            now = ended(now, one, failed)
    assert now.devices["GPU-0"].quarantined
    assert now.most == 1
    resumed = replay(one_plan, BENCHMARK_RULES, [*records, SEGMENT]).state
    assert set(resumed.skipped) == {"a"}
    assert not resumed.devices["GPU-0"].quarantined
    assert resumed.devices["GPU-0"].strikes == ()
    assert resumed.most == 2
    assert not any(one.cell.model == "a" for one in run(resumed, lambda _: None)[1])


CATEGORIES = st.sampled_from([None, None, None, *Category])


@given(st.integers(1, 4), st.integers(1, 2), st.lists(CATEGORIES, max_size=150), st.integers(0, 10**6))
def test_whatever_happens_in_whatever_order_every_slot_is_settled(
    devices: int, rounds: int, fates: list[Category | None], seed: int
) -> None:
    """No slot is lost, no device has two launches, the run ends, and its journal leads to the same decisions."""
    one_plan = plan("abc", devices, rounds=rounds, sizes=(1, 4, 32))
    now, chance, fate = transitions.begin(one_plan), random.Random(seed), iter(fates)
    records: list[Record] = [SEGMENT]
    running: dict[str, NextLaunch] = {}
    for _ in range(2_000):
        now, following = transitions.next_launches(now)
        for one in following:
            assert one.device not in running
            assert now.cells[one.slot[0]].model not in now.skipped
            assert not now.devices[one.device].quarantined
            running[one.device] = one
            now = begun(now, one)
            records.append(record(one))
        assert len(running) <= now.most or not following
        if not running:
            break
        ends = running.pop(chance.choice(sorted(running)))
        category = next(fate, None)
        failed = None if category is None else failure(category, chance.choice(list(Phase)))
        records.append(End(launch=ends.launch, at_ns=0, failure=failed))
        now = ended(now, ends, failed)
    else:
        pytest.fail("the run does not end")
    starts = [one for one in records if isinstance(one, Start)]
    assert len({(one.cell, one.attempt) for one in starts}) == len(starts), "each attempt has a folder of its own"
    assert Counter(now.tally) == Counter(slot.status for slot in now.slots.values())
    assert {slot.refers_to for slot in now.slots.values()} - {None} <= now.cells.keys()
    restored, following = transitions.next_launches(replay(one_plan, BENCHMARK_RULES, records).state)
    assert following == ()
    for uuid, device in now.devices.items():
        again = restored.devices[uuid]
        assert (again.quarantined, again.strikes) == (device.quarantined, device.strikes)
    for slot, known in now.slots.items():
        out = now.devices[now.cells[slot[0]].devices[0]].quarantined  # there nothing is settled any more
        assert known.status in SETTLED or out
        assert restored.slots[slot] == known or out
    for name in ("skipped", "at_once", "too_large", "attempts"):
        assert getattr(restored, name) == getattr(now, name)
