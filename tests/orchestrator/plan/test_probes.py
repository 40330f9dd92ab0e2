"""Which probes a device gets: asked for, added as a reference, or not applicable."""

import pytest

from orchestrator.config import catalogue
from orchestrator.config.run_configuration import Configuration
from orchestrator.errors import ConfigError
from orchestrator.plan import planner, probes
from protocol.cell import Cell, Device, Precision, Workload
from tests.fakes.configurations import configuration, cpu, gpu
from tests.fakes.runs import shipped

PROBES = catalogue.load().probes
BOTH = (Precision.FP32, Precision.BF16)


def named(*names: str, **changes: object) -> Configuration:
    """What `-m` with these names asks for."""
    return configuration(models=shipped(*names), **changes)


def planned(asked: Configuration, device: Device) -> list[tuple[str, Precision]]:
    """The probes in the plan of a device, by name and precision."""
    return [(cell.model, cell.precision) for cell in probe_cells(asked, device)]


def probe_cells(asked: Configuration, device: Device) -> list[Cell]:
    """The cells of a device that measure no model."""
    return [cell for cell in planner.make(asked, (device,)).cells if cell.workload is Workload.PROBE]


def test_every_probe_that_ships_has_a_rule() -> None:
    """What configs/ describes, the plan knows where to run."""
    assert {spec.name for spec in PROBES} == set(probes.PROBES)
    assert {spec.type for spec in PROBES} == {"probe"}


def test_all_is_every_probe_on_a_gpu() -> None:
    """`-m all` measures the device too: products in each precision of the run, bytes once."""
    asked = configuration(precisions=BOTH)
    once = [(name, Precision.FP32) for name in ("hbm", "h2d", "d2h")]
    assert planned(asked, gpu(0)) == [("gemm", Precision.FP32), ("gemm", Precision.BF16), *once]


def test_what_moves_bytes_is_the_same_cell_in_any_run() -> None:
    """Its precision is not that of the run, which has no part in it: figures of two runs compare."""
    cells = [probe_cells(named("hbm", precisions=(precision,)), gpu(0)) for precision in BOTH]
    assert [cell.precision for cell in cells[0]] == [Precision.FP32]
    assert cells[0] == cells[1]


def test_probes_have_no_batch_and_no_input_size() -> None:
    """Batch sizes, phases and sizes are dimensions of models."""
    asked = configuration(batch_sizes=(8, 32), workloads=(Workload.TRAINING,), input_sizes=(512,))
    assert {(cell.batch_size, cell.input_size) for cell in probe_cells(asked, gpu(0))} == {(1, None)}


@pytest.mark.parametrize("workload", [Workload.INFERENCE, Workload.TRAINING])
def test_a_gpu_that_measures_models_gets_its_references(workload: Workload) -> None:
    """Whoever names models alone gets gemm in the run's precisions, and hbm: plausibility is held against them."""
    asked = named("resnet50", workloads=(workload,), precisions=BOTH)
    assert planned(asked, gpu(0)) == [("gemm", Precision.FP32), ("gemm", Precision.BF16), ("hbm", Precision.FP32)]


def test_a_reference_that_was_asked_for_is_measured_once() -> None:
    """Naming a probe beside a model does not measure it twice."""
    assert planned(named("resnet50", "hbm"), gpu(0)) == [("hbm", Precision.FP32), ("gemm", Precision.FP32)]


def test_nothing_is_added_where_nothing_is_held_against_it() -> None:
    """Not to loading alone, not to a probe by itself, and not on a CPU device."""
    assert planned(named("resnet50", workloads=(Workload.LOAD,)), gpu(0)) == []
    assert planned(named("d2h"), gpu(0)) == [("d2h", Precision.FP32)]
    assert planned(named("resnet50"), cpu(0)) == []


def test_a_cpu_device_computes_and_copies_but_nothing_is_transferred_to_it() -> None:
    """h2d and d2h are not applicable there: no cell and so no failure, and the plan has the reason."""
    asked = configuration()
    assert planned(asked, cpu(0)) == [("gemm", Precision.FP32), ("hbm", Precision.FP32)]
    excluded = planner.make(asked, (cpu(0), gpu(0))).left_out
    assert [(one.device, one.model, "CPU device" in one.why) for one in excluded] == [
        ("cpu:0", name, True) for name in ("h2d", "d2h")
    ]


def test_a_device_on_which_nothing_can_be_measured_is_an_error() -> None:
    """Before anything is started, with the reason: a run of no cells would pass without evidence."""
    with pytest.raises(ConfigError, match=r"^cpu:0: .* h2d: .*CPU"):
        planner.make(named("h2d"), (gpu(0), cpu(0)))


def test_references_can_be_run() -> None:
    """A cell that nobody asked for finds its description where those that were asked for have theirs."""
    asked = named("resnet50")
    names = {cell.model for cell in planner.make(asked, (gpu(0),)).cells}
    assert names == {"resnet50", "gemm", "hbm"}
    assert {asked.by_name[name].name for name in names} == names
