"""orchestrator/plan/probes.py: requested, added and inapplicable probes."""

import pytest

from orchestrator.config import catalogue
from orchestrator.config.run_configuration import Configuration
from orchestrator.plan import planner, probes
from protocol.cell import Cell, Device, Precision, Workload
from tests.fakes.configurations import configuration, cpu, gpu
from tests.fakes.runs import shipped

PROBES = catalogue.load().probes
BOTH = (Precision.FP32, Precision.BF16)


def named(*names: str, **changes: object) -> Configuration:
    """The configuration of `-m` with these names."""
    return configuration(models=shipped(*names), **changes)


def planned(asked: Configuration, device: Device) -> list[tuple[str, Precision]]:
    """The probes in the plan of a device, by name and precision."""
    return [(cell.model, cell.precision) for cell in probe_cells(asked, device)]


def probe_cells(asked: Configuration, device: Device) -> list[Cell]:
    """The probe cells of a device."""
    return [cell for cell in planner.make(asked, (device,)).cells if cell.workload is Workload.PROBE]


def test_every_probe_that_ships_has_a_rule() -> None:
    """Every probe of configs/ is in the table."""
    assert {spec.name for spec in PROBES} == set(probes.PROBES)
    assert {spec.type for spec in PROBES} == {"probe"}


FP32, BF16 = Precision.FP32, Precision.BF16
REFERENCES = [("gemm", FP32), ("gemm", BF16), ("hbm", FP32)]


@pytest.mark.parametrize(
    ("asked", "device", "expected"),
    [
        (configuration(precisions=BOTH), gpu(0), [*REFERENCES, ("h2d", FP32), ("d2h", FP32)]),
        (named("resnet50", workloads=(Workload.INFERENCE,), precisions=BOTH), gpu(0), REFERENCES),
        (named("resnet50", workloads=(Workload.TRAINING,), precisions=BOTH), gpu(0), REFERENCES),
        (named("resnet50", "hbm"), gpu(0), [("hbm", FP32), ("gemm", FP32)]),
        (named("resnet50", workloads=(Workload.LOAD,)), gpu(0), []),
        (named("d2h"), gpu(0), [("d2h", FP32)]),
        (named("resnet50"), cpu(0), []),
        (configuration(), cpu(0), [("gemm", FP32), ("hbm", FP32)]),
    ],
    ids=["all", "inference", "training", "requested", "load", "probe alone", "model on CPU", "all on CPU"],
)
def test_a_device_gets_requested_probes_and_references(
    asked: Configuration, device: Device, expected: list[tuple[str, Precision]]
) -> None:
    """Products in each precision, bytes once; references only on a GPU that measures models, each described."""
    assert planned(asked, device) == expected
    assert all(asked.by_name[name].name == name for name, _ in expected)


def test_bandwidth_probes_are_the_same_cell_in_any_run() -> None:
    """Its precision is fixed, so that figures of two runs compare."""
    cells = [probe_cells(named("hbm", precisions=(precision,)), gpu(0)) for precision in BOTH]
    assert [cell.precision for cell in cells[0]] == [Precision.FP32]
    assert cells[0] == cells[1]


def test_probes_have_no_batch_and_no_input_size() -> None:
    """These are dimensions of models."""
    asked = configuration(batch_sizes=(8, 32), workloads=(Workload.TRAINING,), input_sizes=(512,))
    assert {(cell.batch_size, cell.input_size) for cell in probe_cells(asked, gpu(0))} == {(1, None)}


def test_transfers_are_excluded_on_a_cpu_device() -> None:
    """The plan has the reason."""
    excluded = planner.make(configuration(), (cpu(0), gpu(0))).excluded
    assert [(one.device, one.model, "CPU device" in one.why) for one in excluded] == [
        ("cpu:0", name, True) for name in ("h2d", "d2h")
    ]
