"""orchestrator/plan/preload.py: modules imported ahead of cells."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.plan import preload
from protocol.cell import Cell, CompileMode, Precision, Workload
from tests.fakes.runs import FakeRun, cpus, gpus

TRITON = "worker.verify.triton_ahead"
INDUCTOR = "worker.inductor_ahead"
GPU, CPU = gpus(1)[0].uuid, cpus(1)[0].uuid


def cell(workload: Workload, device: str) -> Cell:
    """A cell of matrix products."""
    return Cell(devices=(device,), model="gemm", workload=workload, precision=Precision.BF16, batch_size=1)


@pytest.mark.parametrize(
    ("workload", "device", "ahead"),
    [
        (Workload.SOAK, GPU, True),
        (Workload.STEPS, GPU, True),
        (Workload.SOAK, CPU, False),
        (Workload.TRUTH, GPU, False),
        (Workload.PROBE, GPU, False),
    ],
)
def test_triton_is_preloaded_for_digests_on_a_gpu(
    tmp_path: Path, workload: Workload, device: str, *, ahead: bool
) -> None:
    """It takes a second, which runs without digests or GPUs save."""
    stored = FakeRun(tmp_path, devices=(*gpus(1), *cpus(1))).stored
    assert (TRITON in preload.modules(stored, [cell(workload, device)])) is ahead


def test_inductor_is_preloaded_for_compiled_cells(tmp_path: Path) -> None:
    """It takes seconds, which runs of eager cells save."""
    stored = FakeRun(tmp_path).stored
    eager = msgspec.structs.replace(cell(Workload.INFERENCE, GPU), model="resnet50")
    compiled = msgspec.structs.replace(eager, compile_mode=CompileMode.DEFAULT)
    assert INDUCTOR not in preload.modules(stored, [eager])
    assert INDUCTOR in preload.modules(stored, [eager, compiled])


def test_modules_have_a_fixed_order(tmp_path: Path) -> None:
    """For the zygote and for a single cell; a replay needs its model and the digests."""
    stored = FakeRun(tmp_path).stored
    replay = msgspec.structs.replace(cell(Workload.REPLAY, GPU), model="resnet50")
    alone, all_of_them = (preload.modules(stored, cells) for cells in ([replay], [*stored.plan.cells, replay]))
    assert alone == ("worker.workloads.replay", "worker.models.torchvision", "torchvision.models.resnet", TRITON)
    assert [module for module in all_of_them if module in alone] == list(alone)
