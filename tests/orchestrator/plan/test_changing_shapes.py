"""Which launches meet input sizes that change."""

import pytest

from orchestrator.config.run_configuration import Configuration
from orchestrator.plan import planner
from orchestrator.plan.changing_shapes import forms, of_launch
from orchestrator.plan.estimate import COMPILE_S, launch_s
from protocol.cell import AUTO, CompileMode, Workload
from protocol.messages import ChangingShapes
from tests.fakes.configurations import configuration, cpu, options, resolved
from tests.fakes.runs import shipped

SHAPES = ChangingShapes(sizes=(128, 160, 192), bucket=64)


def asked(**changes: object) -> Configuration:
    modes = (CompileMode.EAGER, CompileMode.DEFAULT)
    workloads = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
    run = {"models": shipped("resnet50"), "workloads": workloads, "compile_modes": modes, "shapes": SHAPES}
    return configuration(**run | changes)


def test_the_first_launch_of_compiled_inference_meets_the_sizes() -> None:
    """No eager cell, no training, no later launch; its estimate has the graphs that are compiled at most."""
    run = asked()
    for cell in planner.make(run, (cpu(0),)).cells:
        meets = cell.compiles and cell.workload is Workload.INFERENCE
        assert (of_launch(cell, run, 0), of_launch(cell, run, 1)) == (SHAPES if meets else None, None)
        assert forms(cell, run, 0) == (7 if meets else 0)
        longer = launch_s(cell, run, cpu(0)) - launch_s(cell, asked(shapes=None), cpu(0))
        assert longer == pytest.approx(7 * COMPILE_S if meets else 0)


def test_a_scan_meets_none() -> None:
    """Each of its steps would."""
    run = asked(batch_sizes=(AUTO,))
    assert not any(of_launch(cell, run, 0) for cell in planner.make(run, (cpu(0),)).cells)


def test_sizes_and_buckets_are_options() -> None:
    """There are no sizes by default, and then the buckets mean nothing."""
    assert resolved(command_line=options(**{"benchmark.buckets": 32})).shapes is None
    found = resolved(command_line=options(**{"benchmark.compile_shapes": (160, 128)})).shapes
    assert found == ChangingShapes(sizes=(160, 128), bucket=64)
