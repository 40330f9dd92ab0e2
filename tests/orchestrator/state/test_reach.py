"""How far a fault of a model reaches: what is skipped for it, and what is measured all the same."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from orchestrator.config.run_configuration import Plan, Room
from orchestrator.plan.batch_scan import Figures
from orchestrator.state import transitions
from orchestrator.state.slots import Ended, NextLaunch, SlotStatus
from protocol.cell import AUTO, Precision, Workload
from protocol.failure import Category, Failure, Phase
from tests.fakes.placing import cell, plan, plan_of, statuses
from tests.fakes.steps import begun, ended, failure, freed, run


def test_an_import_error_skips_the_model_at_once() -> None:
    """One launch is enough to know; what else runs of it at that moment may end."""
    end, made = run(
        transitions.begin(plan("ab", 2, rounds=3, sizes=(1, 2, 4))),
        lambda one: failure(Category.IMPORT_ERROR, Phase.IMPORT) if one.cell.model == "a" else None,
    )
    assert sum(one.cell.model == "a" for one in made) == 2
    assert set(statuses(end, "b")) == {SlotStatus.MEASURED}


def test_nan_skips_the_model_in_its_precision_alone() -> None:
    """NaN in fp16 training skips neither fp32 nor inference, which has no loss: both are measured everywhere."""
    kinds = [
        (Workload.TRAINING, Precision.FP16),
        (Workload.TRAINING, Precision.FP32),
        (Workload.INFERENCE, Precision.FP16),
    ]

    def diverges(one: NextLaunch) -> Failure | None:
        bad = (one.cell.workload, one.cell.precision) == kinds[0]
        return failure(Category.NOT_FINITE) if bad else None

    end, made = run(transitions.begin(of_kinds(kinds, devices=3)), diverges)
    tried = [one.cell for one in made]
    assert set(end.skipped) == {"a training fp16"}
    assert end.skipped["a training fp16"].only == "training fp16"
    made_of, planned = (
        Counter((one.workload, one.precision) for one in cells) for cells in (tried, end.cells.values())
    )
    assert made_of[kinds[0]] < planned[kinds[0]]
    assert all(made_of[kind] == planned[kind] for kind in kinds[1:])
    assert not any(device.strikes or device.quarantined for device in end.devices.values())


KINDS = tuple(
    itertools.product((Workload.LOAD, Workload.INFERENCE, Workload.TRAINING), (Precision.FP32, Precision.BF16))
)
"""What the cells of one model may be; each at three batch sizes below."""


def of_kinds(
    order: Sequence[tuple[Workload, Precision]], input_sizes: tuple[int | None, ...] = (None,), devices: int = 1
) -> Plan:
    """One model on these devices, its cells in this order."""
    cells = {
        uuid: [
            msgspec.structs.replace(cell("a", uuid, size), workload=work, precision=precision, input_size=input_size)
            for work, precision in order
            for input_size in input_sizes
            for size in (1, 2, 4)
        ]
        for uuid in (f"GPU-{number}" for number in range(devices))
    }
    return plan_of(cells)


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
    """A fault of the whole model is tried once, a fault of a workload and precision once in each, others every time."""
    end, made = run(transitions.begin(of_kinds(KINDS)), lambda _: failure(category, phase))
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

    end, made = run(transitions.begin(of_kinds(order)), fails)
    measured = {slot for slot, one in end.slots.items() if one.status is SlotStatus.MEASURED}
    kinds = {slot: (end.cells[slot[0]].workload, end.cells[slot[0]].precision) for slot in end.slots}
    wanted = {slot for slot, kind in kinds.items() if kind not in unsuitable}
    assert measured == wanted
    assert len(made) == len(wanted) + len(unsuitable), "and an unsuitable one is tried once"


@pytest.mark.parametrize("order", [(64, 96), (96, 64)])
def test_an_input_size_that_cannot_be_built_costs_no_other_size(order: tuple[int, int]) -> None:
    """The network itself may depend on it."""
    end, made = run(
        transitions.begin(of_kinds(KINDS[:1], order)),
        lambda one: failure(Category.EXCEPTION, Phase.BUILD) if one.cell.input_size == 96 else None,
    )
    assert [one.cell.input_size for one in made].count(64) == 3
    assert len(made) == 4
    [skipped] = end.skipped
    assert re.match(r"a load fp32\b.* 96$", skipped)


def test_a_retry_that_waits_is_not_made_when_its_model_is_skipped() -> None:
    """A crash on one device is tried again there; when the model turns out to be broken meanwhile, it is not."""
    now, following = transitions.next_launches(transitions.begin(plan("a", 2)))
    now = begun(now, *following)
    now = transitions.step(now, Ended(0, failure(Category.KILLED)))
    now = transitions.step(now, Ended(1, failure(Category.NOT_BUILT)))
    now, following = transitions.next_launches(freed(now, "GPU-0", "GPU-1"))
    assert following == ()
    assert statuses(now, "a") == [SlotStatus.SKIPPED, SlotStatus.FAILED]


def test_a_scan_of_a_skipped_model_is_not_made() -> None:
    """Neither begun nor gone on with."""
    scans = plan("a", 2, sizes=(AUTO,))
    room = Room(memory_bytes=None, largest=64, longest_s=1.0)
    now = transitions.begin(msgspec.structs.replace(scans, rooms={"GPU-0": room, "GPU-1": room}))
    now, (first, second) = transitions.next_launches(now)
    now = ended(begun(now, first, second), first, None, Figures(peak_bytes=1, items_per_second=1000.0))
    now, following = transitions.next_launches(ended(now, second, failure(Category.NOT_BUILT)))
    assert following == ()
    assert statuses(now, "a") == [SlotStatus.SKIPPED, SlotStatus.FAILED]
