"""orchestrator/kinds/gate/planning.py: the cells of a gate, and the order of its launches."""

from collections import Counter
from itertools import pairwise

import pytest
from msgspec.structs import replace

from orchestrator.cli.decorators import OPTIONS
from orchestrator.cli.gate import DEFAULTS
from orchestrator.config.run_configuration import Configuration
from orchestrator.errors import ConfigError
from orchestrator.kinds.gate import planning, settings
from orchestrator.plan import planner
from protocol.cell import AUTO, Mode, Precision, Workload
from tests.fakes import gates, sides
from tests.fakes.configurations import configuration, cpu, gpu
from tests.fakes.runs import shipped

GPUS = (gpu(0), gpu(1))


def asked(**changes: object) -> Configuration:
    small = {"models": shipped("resnet50", "lstm"), "workloads": (Workload.INFERENCE,), "batch_sizes": (1, 8)}
    return configuration(**small | changes)


def test_both_sides_of_a_cell_follow_each_other_and_take_turns_to_be_first() -> None:
    """A drift of the machine meets both alike. Both have the same seeds, so the same weights and inputs."""
    gate = gates.of_two(asked())
    plan = planning.make(gate, GPUS)
    others = planning.partners(planning.requested(gate), plan)
    cells = {cell.id: cell for cell in plan.cells}
    assert len(others) == 8
    assert all(cells[one].seed == cells[other].seed for one, other in others.items())
    for uuid, queue in plan.order.items():
        both = [queue[place : place + 2] for place in range(0, len(queue), 2)]
        assert len(both) == 4 * planning.FIRST_ROUNDS
        for (first, number), (second, same) in both:
            assert number == same
            assert cells[first].devices == (uuid,)
            assert (second == others.get(first)) is (number % 2 == 0)
            assert (first == others.get(second)) is (number % 2 == 1)


def test_a_setting_alone_differs_between_the_sides() -> None:
    """Models of both sides are told apart by their words; their specifications are the same."""
    gate = gates.of_two(asked())
    plan = planning.make(gate, GPUS[:1])
    found = {(cell.model, cell.precision) for cell in plan.cells}
    assert found == {
        (f"{model} (precision={precision})", precision)
        for model in ("resnet50", "lstm")
        for precision in (Precision.FP32, Precision.BF16)
    }
    assert {cell.model for cell in plan.cells} <= set(gate.by_name)


def test_own_models_keep_their_names() -> None:
    """They are told apart already."""
    first, second = (asked(models=shipped(name)) for name in ("resnet50", "lstm"))
    gate = settings.with_sides(gates.SIDES, [first, second], None, None)
    assert [side.models for side in planning.requested(gate).sides] == [("resnet50",), ("lstm",)]


def test_the_cells_of_the_baseline_are_measured_and_no_others() -> None:
    """Each at its own sizes, as far as the options leave them."""
    whole = planner.make(asked(), GPUS)
    keys = {planning.key(cell) for cell in whole.cells if (cell.model, cell.batch_size) == ("lstm", 1)}
    before = sides.side(*(replace(sides.cell(), key=key) for key in keys))
    gate = settings.with_cells(asked(), before, None, None)
    found = planning.make(gate, GPUS)
    assert {(cell.model, cell.batch_size) for cell in found.cells} == {("lstm", 1)}
    assert all(len(queue) == planning.FIRST_ROUNDS for queue in found.order.values())
    with pytest.raises(ConfigError):
        planning.make(replace(gate, models=shipped("resnet50")), GPUS)
    with pytest.raises(ConfigError):
        planning.make(gate, GPUS[:1])  # which works alone, and the baseline is of GPUs at work together


def test_a_gate_measures_as_its_baseline_did() -> None:
    """Unless told otherwise: these are defaults, over which options go."""
    stack = {"iterations": "20", "warm-up iterations": "3", "isolation": "exec", "seed": "7"}
    found = settings.of_baseline(sides.side(sides.cell(), stack=stack), "main", 300.0, OPTIONS).settings
    taken = {key: found.values[f"benchmark.{key}"] for key in ("iterations", "warmup", "isolation", "seed")}
    assert taken == {"iterations": 20, "warmup": 3, "isolation": "exec", "seed": 7}
    assert set(found.values) <= found.defaults
    named = {option.name for option in OPTIONS if option.key in found.values}
    assert {name for name in named if name} | {"launches"} == DEFAULTS.keys()
    assert DEFAULTS["launches"].startswith(f"{planning.FIRST_ROUNDS}, ")
    adaptive = settings.of_baseline(sides.side(sides.cell(), stack={}), "main", 300.0, OPTIONS).settings
    assert "benchmark.iterations" not in adaptive.values


@pytest.mark.parametrize(
    ("first", "second"),
    [({}, {"precisions": (Precision.BF16, Precision.FP16)}), ({"batch_sizes": (AUTO,)}, {"batch_sizes": (AUTO,)})],
)
def test_sides_that_cannot_be_paired_are_refused(first: dict[str, object], second: dict[str, object]) -> None:
    """As many values on both sides, and no scan, which has no verdict."""
    gate = settings.with_sides(gates.SIDES, [asked(**first), asked(**second)], None, None)
    with pytest.raises(ConfigError):
        planning.make(gate, GPUS)


def test_rounds_stay_apart() -> None:
    """With two modes too: a round is over before the next one begins."""
    gate = gates.of_two(asked(modes=(Mode.LOADED, Mode.SOLO)))
    for queue in planning.make(gate, GPUS).order.values():
        assert all(one <= other for (_, one), (_, other) in pairwise(queue))


def test_all_rounds_of_one_cell_come_first() -> None:
    """They show how much launches vary, within the first minute; the others follow in rounds."""
    gate = gates.of_two(asked(workloads=(Workload.LOAD, Workload.INFERENCE)))
    plan = planning.make(gate, GPUS)
    cells = {cell.id: cell for cell in plan.cells}
    for queue in plan.order.values():
        first, rest = queue[: planning.NOISE_LAUNCHES], queue[planning.NOISE_LAUNCHES :]
        (one, other), *others = [tuple(cell for cell, _ in first[place : place + 2]) for place in (0, 2, 4)]
        assert others == [(other, one), (one, other)]
        assert [number for _, number in first] == [0, 0, 1, 1, 2, 2]
        assert cells[one].workload is not Workload.LOAD  # differs by the page cache
        assert all(earlier <= later for (_, earlier), (_, later) in pairwise(rest))


def test_cells_that_do_not_fit_into_a_minute_come_in_rounds() -> None:
    """Their launches are too few to show anything soon: the next pair is first, if there is one."""
    slow, quick = "bert-base", "lstm"
    gate = gates.of_two(asked(models=shipped(slow, quick), workloads=(Workload.TRAINING,), training_batch_sizes=(32,)))
    plan = planning.make(gate, (cpu(0),))
    cells = {cell.id: cell for cell in plan.cells}
    models = [cells[cell].model.partition(" ")[0] for cell, _ in plan.order["cpu:0"]]
    assert models == [quick] * planning.NOISE_LAUNCHES + [slow] * planning.NOISE_LAUNCHES
    alone = gates.of_two(asked(models=shipped(slow), workloads=(Workload.TRAINING,), training_batch_sizes=(16, 32)))
    numbers = [number for _, number in planning.make(alone, (cpu(0),)).order["cpu:0"]]
    assert numbers == sorted(numbers)


def test_two_cells_of_a_baseline_come_first() -> None:
    """They have one side here, so half the launches."""
    whole = planner.make(asked(), GPUS)
    before = sides.side(*(replace(sides.cell(), key=planning.key(cell)) for cell in whole.cells))
    gate = settings.with_cells(asked(), before, None, None)
    for queue in planning.make(gate, GPUS).order.values():
        first = [cell for cell, _ in queue[: planning.NOISE_LAUNCHES]]
        assert sorted(Counter(first).values()) == [planning.FIRST_ROUNDS] * 2
