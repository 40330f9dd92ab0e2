"""GPUs and models that hang, are killed or meet CUDA errors: whose fault that is, also where there is one GPU alone."""

import re
from collections.abc import Callable

import msgspec
import pytest

from orchestrator.config.run_configuration import Plan
from orchestrator.state import transitions
from orchestrator.state.failure_policy import POINTS_AT_DEVICE
from orchestrator.state.replay import ReplayRules, replay
from orchestrator.state.slots import Ended, NextLaunch, Quarantined, RunState, SlotStatus, with_device
from orchestrator.store.journal_records import End, Start
from protocol.failure import Category, Failure, Phase
from tests.fakes.placing import cell, plan, statuses
from tests.fakes.steps import SEGMENT, begun, ended, failure, run

SIZED = (Category.CUDA_ERROR, Category.KILLED, Category.DEADLINE)
"""What may be the fault of the model or of the device, and tells of one size alone."""


@pytest.mark.parametrize("category", SIZED)
def test_a_size_that_is_too_slow_on_two_devices_is_not_tried_on_a_third(category: Category) -> None:
    """A deadline too short for batch 64 costs that size of that model, and nobody else anything."""
    end, _ = run(
        transitions.begin(plan("ab", 3, sizes=(1, 64))),
        lambda one: failure(category) if (one.cell.model, one.cell.batch_size) == ("a", 64) else None,
    )
    assert statuses(end, "a").count(SlotStatus.MEASURED) == 3
    assert SlotStatus.FAILED in statuses(end, "a")
    assert set(statuses(end, "b")) == {SlotStatus.MEASURED}
    (skip,) = end.skipped.values()
    assert (skip.model, re.findall(r"\d+$", skip.only)) == ("a", ["64"])
    assert not any(device.quarantined or device.strikes for device in end.devices.values())


def test_a_third_device_does_not_wait_for_a_deadline_that_two_have_missed() -> None:
    """Two GPUs have waited for it; the third one, which is behind, is spared."""
    now = transitions.begin(plan("ab", 3))
    now, following = transitions.next_launches(now)
    for one in following[:2]:
        now = ended(begun(now, one), one, failure(Category.DEADLINE))
    end, made = run(now, lambda _: None)
    assert statuses(end, "a") == [SlotStatus.FAILED, SlotStatus.FAILED, SlotStatus.SKIPPED]
    assert all(one.cell.model == "b" for one in made)


@pytest.mark.parametrize("phase", [Phase.IMPORT, Phase.BUILD])
def test_a_model_that_hangs_before_its_first_forward_pass_is_skipped_as_a_whole(phase: Phase) -> None:
    """Building has nothing to do with the batch: every size would cost a deadline on two devices."""
    end, _ = run(
        transitions.begin(plan("ab", 2, sizes=(1, 2, 4))),
        lambda one: failure(Category.DEADLINE, phase) if one.cell.model == "a" else None,
    )
    assert set(end.skipped) == {"a"}


@pytest.mark.parametrize("phase", [Phase.START, Phase.IMPORT])
def test_what_never_reached_its_device_is_not_compared_with_it(phase: Phase) -> None:
    """A cold disk makes the first import slow on whichever GPU is first: that GPU stays."""
    end, _ = run(
        transitions.begin(plan("abcd", 2)),
        lambda one: failure(Category.DEADLINE, phase) if one.device == "GPU-0" else None,
    )
    assert end.devices["GPU-0"].strikes == ()
    assert not end.devices["GPU-0"].quarantined


def test_a_worker_that_is_killed_twice_takes_no_device_out() -> None:
    """Somebody's `kill -9` of a cell and of its retry is one strike at most, whatever the other device measures."""
    kills = iter((True, True))
    end, _ = run(
        transitions.begin(plan("abc", 2)),
        lambda one: failure(Category.KILLED) if one.device == "GPU-0" and next(kills, False) else None,
    )
    assert statuses(end, "a") == [SlotStatus.FAILED, SlotStatus.MEASURED]
    assert len(end.devices["GPU-0"].strikes) == 1
    assert not end.devices["GPU-0"].quarantined


def alone(models: str, *, sizes: tuple[int, ...] = (1,)) -> RunState:
    """A run on one GPU."""
    return transitions.begin(plan(models, 1, sizes=sizes), gpus=["GPU-0"])


def fails(category: Category, *models: str, phase: Phase = Phase.MEASURE) -> Callable[[NextLaunch], Failure | None]:
    """Every launch of these models."""
    return lambda one: failure(category, phase) if one.cell.model in models else None


@pytest.mark.parametrize("category", sorted(POINTS_AT_DEVICE))
def test_two_models_in_a_row_take_the_only_gpu_out(category: Category) -> None:
    """Nobody else can be asked, and nothing worked between them: the burn-in is not spent on deadlines."""
    end, made = run(alone("abcdef", sizes=(1, 2)), fails(category, *"abcdef"))
    assert {one.cell.model for one in made} == {"a", "b"}
    assert len({one.slot for one in made}) == 2, "the other size of a would have told nothing"
    assert end.devices["GPU-0"].quarantined.startswith("a and b ")


def test_one_model_that_hangs_takes_the_only_gpu_not_out() -> None:
    """However many of its sizes do: another model comes next after each, and works."""
    end, made = run(alone("abc", sizes=(1, 2, 4)), fails(Category.DEADLINE, "a"))
    assert not end.devices["GPU-0"].quarantined
    assert [one.cell.model for one in made][:4] == ["a", "b", "a", "b"]
    assert set(statuses(end, "b") + statuses(end, "c")) == {SlotStatus.MEASURED}


def test_a_run_of_one_model_that_hangs_says_nothing_of_its_only_gpu() -> None:
    """Two of its sizes are one model: no second one has failed."""
    end, _ = run(alone("a", sizes=(1, 2)), fails(Category.DEADLINE, "a"))
    assert not end.devices["GPU-0"].quarantined


def test_a_result_between_two_hangs_speaks_for_the_only_gpu() -> None:
    """Two slow models among sound ones are two slow models."""
    end, _ = run(alone("abcd"), fails(Category.DEADLINE, "a", "c"))
    assert statuses(end, "b") == statuses(end, "d") == [SlotStatus.MEASURED]
    assert not end.devices["GPU-0"].quarantined


@pytest.mark.parametrize(
    ("category", "phase"),
    [(Category.KILLED, Phase.MEASURE), (Category.NOT_FINITE, Phase.MEASURE), (Category.DEADLINE, Phase.IMPORT)],
)
def test_what_a_gpu_does_not_do_is_not_compared_with_the_only_one(category: Category, phase: Phase) -> None:
    """Signals come from outside, diverging is a matter of precision, and an import does not touch the GPU."""
    end, made = run(alone("abc"), fails(category, *"abc", phase=phase))
    assert {one.cell.model for one in made} == {"a", "b", "c"}
    assert not end.devices["GPU-0"].quarantined


def test_who_resumes_a_run_begins_to_count_anew() -> None:
    """A hang before resume and one after it are not two in a row, because the GPU may have been fixed between."""
    one_plan = plan("ab", 1)
    slots = one_plan.order["GPU-0"]
    hung = [
        record
        for launch, slot in enumerate(slots)
        for record in (
            SEGMENT,
            Start(launch=launch, cell=slot[0], round=0, attempt=1, batch_size=1, device="GPU-0", at_ns=0),
            End(launch=launch, at_ns=1, failure=failure(Category.DEADLINE)),
        )
    ]
    resumed = replay(one_plan, ReplayRules(accusable=frozenset({"GPU-0"})), hung).state
    at_once = replay(one_plan, ReplayRules(accusable=frozenset({"GPU-0"})), [hung[0], *hung[1:3], *hung[4:]]).state
    assert not resumed.devices["GPU-0"].quarantined
    assert at_once.devices["GPU-0"].quarantined


def test_a_cell_of_several_gpus_is_not_brought_forward() -> None:
    """It has its place among the others of each of them, or they would wait for each other for ever."""
    kinds = {"GPU-0": "NVIDIA L4", "GPU-1": "NVIDIA H200"}
    single = {name: [cell(model, name) for model in "ab"] for name in kinds}
    both = msgspec.structs.replace(cell("links", "GPU-0"), devices=tuple(kinds))
    order = {name: ((a.id, 0), (both.id, 0), (b.id, 0)) for name, (a, b) in single.items()}
    now = transitions.begin(Plan(cells=(*single["GPU-0"], *single["GPU-1"], both), order=order), kinds, gpus=["GPU-0"])
    now, (one, _) = transitions.next_launches(now)
    now = begun(now, one)
    now = transitions.step(now, Ended(one.launch, failure(Category.DEADLINE)))
    assert now.devices["GPU-0"].queue == ((single["GPU-0"][1].id, 0), (both.id, 0))


def test_a_gpu_whose_sibling_is_out_is_alone() -> None:
    """The other one was taken out: it answers nothing any more, and another model is asked instead."""
    now = transitions.begin(plan("abcd", 2), gpus=["GPU-0", "GPU-1"])
    end, made = run(transitions.step(now, Quarantined("GPU-1", "lost")), fails(Category.DEADLINE, *"abcd"))
    assert len(made) == 2
    assert end.devices["GPU-0"].quarantined.startswith("a and b ")


def test_a_sibling_that_comes_back_answers_what_was_asked_before() -> None:
    """`resume` gives the lost GPU another chance: what it measures then is a strike against the first one."""
    now = transitions.step(transitions.begin(plan("ab", 2)), Quarantined("GPU-1", "lost"))
    now, (one,) = transitions.next_launches(now)
    now = ended(begun(now, one), one, failure(Category.DEADLINE))
    assert now.unattributed == (one.slot,)
    end, _ = run(with_device(now, "GPU-1", quarantined=""), lambda _: None)
    assert end.devices["GPU-0"].strikes == (one.slot,)


STOPPED = msgspec.structs.replace(failure(Category.DEADLINE), stopped=True)
"""A deadline that was missed because somebody had stopped the process."""


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_that_are_stopped_take_no_gpu_out(devices: int) -> None:
    """However many of them: no strike where the other GPU measures the same cells, no doubt where there is none."""
    now = transitions.begin(plan("abcd", devices), gpus={"GPU-0", "GPU-1"})
    end, _ = run(now, lambda one: STOPPED if one.device == "GPU-0" and one.cell.model != "d" else None)
    assert not any(device.quarantined or device.strikes or device.doubts for device in end.devices.values())
    assert (end.unattributed, end.skipped) == ((), {})
    assert statuses(end, "d") == [SlotStatus.MEASURED] * devices


def test_one_that_is_stopped_says_nothing_of_a_hang_elsewhere() -> None:
    """The same cell hangs on one GPU and is stopped on the other: not twice the same, so nothing is skipped."""
    end, _ = run(
        transitions.begin(plan("ab", 2), gpus={"GPU-0", "GPU-1"}),
        lambda one: None if one.cell.model == "b" else STOPPED if one.device == "GPU-0" else failure(Category.DEADLINE),
    )
    assert end.skipped == {}
    assert not any(device.quarantined or device.strikes for device in end.devices.values())


def test_what_failed_before_one_was_stopped_counts() -> None:
    """A CUDA error on both GPUs is the model's, though the second try on one of them was stopped."""
    met = set[str]()

    def decide(one: NextLaunch) -> Failure | None:
        if one.cell.model == "b":
            return None
        again = one.device in met
        met.add(one.device)
        return STOPPED if again and one.device == "GPU-0" else failure(Category.CUDA_ERROR)

    end, _ = run(transitions.begin(plan("ab", 2), gpus={"GPU-0", "GPU-1"}), decide)
    assert [(skip.model, skip.category) for skip in end.skipped.values()] == [("a", Category.CUDA_ERROR)]
    assert not any(device.quarantined or device.strikes for device in end.devices.values())
