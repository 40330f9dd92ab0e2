"""orchestrator/plan/load_windows.py: which launches have a load window."""

import pytest
from msgspec.structs import replace

from orchestrator.config.run_configuration import Configuration
from orchestrator.engine.kind import configured_terms
from orchestrator.kinds.gate import settings as gate
from orchestrator.plan import planner
from orchestrator.plan.load_windows import window_s
from protocol.cell import AUTO, Device, Precision, Workload
from tests.fakes.configurations import configuration, cpu, gpu, options, resolved
from tests.fakes.runs import shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


def asked(**changes: object) -> Configuration:
    """Two models, one of which can write, in two precisions, measured as in a standard run."""
    return configuration(
        **{
            "models": shipped("resnet50", "gpt2"),
            "workloads": EVERYTHING,
            "precisions": (Precision.FP32, Precision.BF16),
            "batch_sizes": (8, 32, 1),
            "generation_batch_sizes": (1, 4),
            "measurement": replace(configuration().measurement, load_s=5.0),
            **changes,
        }
    )


def windows(run: Configuration, device: Device, round_: int = 0) -> set[tuple[str, Workload, Precision, int]]:
    """Cells with a window, whose length is the configured one."""
    found = {cell: window_s(cell, run, device, round_) for cell in planner.make(run, (device,)).cells}
    assert {*found.values()} <= {0.0, run.measurement.load_s}
    return {(cell.model, cell.workload, cell.precision, cell.batch_size) for cell, seconds in found.items() if seconds}


def test_the_largest_batch_of_each_model_phase_and_precision_has_a_window() -> None:
    """Loading and probes have none."""
    largest = {("resnet50", Workload.INFERENCE, 32), ("resnet50", Workload.TRAINING, 32)}
    largest |= {("gpt2", Workload.INFERENCE, 32), ("gpt2", Workload.TRAINING, 32), ("gpt2", Workload.GENERATION, 4)}
    both = {(model, phase, precision, batch) for model, phase, batch in largest for precision in asked().precisions}
    assert windows(asked(), gpu(0)) == both


@pytest.mark.parametrize("size", [AUTO, 8])
def test_a_scan_for_the_batch_size_has_none(size: int) -> None:
    """Its steps are many."""
    sizes = {"batch_sizes": (size,), "training_batch_sizes": (size,), "generation_batch_sizes": (size,)}
    run = asked(**sizes)
    cells = [replace(cell, batch_size=16) for cell in planner.make(run, (gpu(0),)).cells if cell.batch_size == size]
    assert {window_s(cell, run, gpu(0), 0) for cell in cells} == ({0.0} if size == AUTO else {5.0})


def test_half_of_a_batch_that_did_not_fit_has_one_above_the_next_planned_size() -> None:
    """The figures of 32 are those of 16 then; those of 8 have their own cell."""
    run = asked()
    large = next(
        cell for cell in planner.make(run, (gpu(0),)).cells if (cell.workload, cell.batch_size) == ("inference", 32)
    )
    halves = {size: window_s(replace(large, batch_size=size), run, gpu(0), 0) for size in (16, 8, 4)}
    assert halves == {16: 5.0, 8: 0.0, 4: 0.0}


def test_nothing_is_read_of_later_launches_and_cpu_devices() -> None:
    """Nor without telemetry, nor where it is turned off, nor in a gate."""
    assert windows(asked(), gpu(0), 1) == set()
    assert windows(asked(), cpu(0)) == set()
    assert windows(asked(monitor=False), gpu(0)) == set()
    assert windows(asked(measurement=replace(asked().measurement, load_s=0.0)), gpu(0)) == set()
    assert windows(gate.gated(asked(), None, None), gpu(0)) == set()


def test_a_launch_is_told_the_length_of_its_window() -> None:
    """In its terms, which a worker gets; zero for a launch without one. A standard run has 5 s, and 0 turns it off."""
    for given, expected in ((None, 5.0), (0, 0.0), (2.5, 2.5)):
        words = {"profile": "standard"} if given is None else {"profile": "standard", "load_window": given}
        run = resolved(command_line=options(benchmark=words))
        cells = [cell for cell in planner.make(run, (gpu(0),)).cells if cell.workload is Workload.INFERENCE]
        told = {
            (cell.batch_size, round_): configured_terms(run, gpu(0), (cell.id, round_), cell).measurement.load_s
            for cell in cells
            for round_ in (0, 1)
        }
        assert told == {
            (size, round_): expected * (size == 32 and not round_) for size in (1, 8, 32) for round_ in (0, 1)
        }
