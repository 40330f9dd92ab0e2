"""orchestrator/plan/priority.py: the order of launches under a time limit."""

import itertools

from orchestrator.config import catalogue
from orchestrator.config.run_configuration import Configuration
from orchestrator.plan import planner, priority
from protocol.cell import Cell, Precision, Workload
from tests.fakes.configurations import configuration, cpu, gpu

ASKED = configuration(
    workloads=(Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION),
    precisions=(Precision.FP32, Precision.BF16),
    batch_sizes=(1, 8, 32),
    training_batch_sizes=(8, 32),
    time_limit_s=60.0,
)


def ordered(asked: Configuration = ASKED) -> list[Cell]:
    """The cells of a GPU in the order of the plan."""
    made = planner.make(asked, (gpu(0),))
    cells = {cell.id: cell for cell in made.cells}
    return [cells[cell_id] for cell_id, _ in made.order[gpu(0).uuid]]


DEFAULT = [model.name for model in catalogue.load().models if model.family != "probe" and not model.on_request]
"""The models of a default run."""


def test_inference_of_every_model_comes_first() -> None:
    """Inference at the smallest batch in the first precision, cheap models first."""
    first = ordered()[: len(DEFAULT)]
    names = [cell.model for cell in first]
    assert sorted(names) == sorted(DEFAULT)
    assert {(cell.workload, cell.batch_size, cell.precision) for cell in first} == {
        (Workload.INFERENCE, 1, Precision.FP32)
    }
    assert names.index("resnet50") < names.index("bert-large") < names.index("qwen2.5-0.5b")


def test_then_come_probes_training_and_the_largest_batch() -> None:
    """In the first precision, then all of it in the second."""
    kinds = [
        (cell.workload, cell.batch_size)
        for cell in ordered()
        if cell.precision is Precision.FP32 and cell.workload is not Workload.GENERATION
    ]
    groups = [kind for kind, _ in itertools.groupby(kinds)]
    assert groups[:5] == [
        (Workload.INFERENCE, 1),
        (Workload.PROBE, 1),
        (Workload.TRAINING, 8),
        (Workload.INFERENCE, 32),
        (Workload.LOAD, 1),
    ]
    assert set(groups[5:]) == {(Workload.INFERENCE, 8), (Workload.TRAINING, 32)}
    precisions = [precision for precision, _ in itertools.groupby(cell.precision for cell in ordered())]
    assert precisions == [Precision.FP32, Precision.BF16]


def test_a_further_round_waits_for_the_one_before() -> None:
    """Each cell has its first launch before any has its second."""
    made = planner.make(configuration(launches=2, time_limit_s=60.0), (cpu(0),))
    rounds = [number for _, number in made.order["cpu:0"]]
    assert rounds == sorted(rounds)


def test_identical_gpus_keep_the_same_order() -> None:
    """Otherwise their results would differ by it."""
    made = planner.make(ASKED, (gpu(0), gpu(1)))
    cells = {cell.id: cell for cell in made.cells}
    one, other = (
        [(cells[cell].model, cells[cell].workload, cells[cell].batch_size) for cell, _ in order]
        for order in made.order.values()
    )
    assert one == other


def test_without_a_limit_the_order_stays_random() -> None:
    """Priorities have no effect."""
    asked = configuration(batch_sizes=(1, 8, 32), time_limit_s=None)
    numbers = [priority.number(cell, asked) for cell in ordered(asked)]
    assert numbers != sorted(numbers)
