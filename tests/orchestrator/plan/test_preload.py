"""plan/preload.py: what is imported ahead of which cells."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.plan import preload
from protocol.cell import Cell, Precision, Workload
from tests.fakes.runs import FakeRun, cpus, gpus

TRITON = "worker.verify.triton_ahead"
GPU, CPU = gpus(1)[0].uuid, cpus(1)[0].uuid


def cell(workload: Workload, device: str) -> Cell:
    """A cell of products on a device."""
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
def test_triton_is_made_ready_where_digests_are_made_on_a_gpu(
    tmp_path: Path, workload: Workload, device: str, *, ahead: bool
) -> None:
    """It takes a second, which a run without digests, or without GPUs, does not wait for."""
    stored = FakeRun(tmp_path, devices=(*gpus(1), *cpus(1))).stored
    assert (TRITON in preload.modules(stored, [cell(workload, device)])) is ahead


def test_the_same_in_the_same_order_whoever_asks(tmp_path: Path) -> None:
    """The zygote asks for all cells, a new interpreter for its own: a replay has its model and the digests."""
    stored = FakeRun(tmp_path).stored
    replay = msgspec.structs.replace(cell(Workload.REPLAY, GPU), model="resnet50")
    alone, all_of_them = (preload.modules(stored, cells) for cells in ([replay], [*stored.plan.cells, replay]))
    assert alone == ("worker.workloads.replay", "worker.models.torchvision", "torchvision.models.resnet", TRITON)
    assert [module for module in all_of_them if module in alone] == list(alone)
