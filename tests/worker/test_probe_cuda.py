"""Probes on a real GPU, each in an interpreter of its own."""

from pathlib import Path

import pytest

from protocol.cell import Device, Precision, Workload
from protocol.result import Result
from tests.fakes.assignments import assignment, result_of, run_apart, run_script
from tests.worker.test_cuda import MEASUREMENT
from tests.worker.test_probe import SHIPPED
from worker.probes import gemm, traffic

PRECISIONS = pytest.mark.parametrize("precision", list(Precision))


pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]


def measure(gpu: Device, tmp_path: Path, name: str, precision: Precision = Precision.FP32) -> Result:
    """One probe on the GPU, in a process of its own, after checking what every probe there has."""
    cell = {"precision": precision, "batch_size": 1}
    assign = assignment(SHIPPED[name], Workload.PROBE, tmp_path, device=gpu, measurement=MEASUREMENT, **cell)
    result = result_of(run_apart(assign, {"CUDA_VISIBLE_DEVICES": gpu.uuid}))
    assert result.launch_bound is False
    assert result.memory.warm_allocated_bytes >= result.memory.model_bytes
    wall_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    assert sum(result.times_ms("iteration")) * result.group <= wall_ms * 1.001
    return result


@PRECISIONS
def test_gemm_on_a_gpu(gpu: Device, tmp_path: Path, precision: Precision) -> None:
    """A shape of the table, with the precision's own switches; what was tried before does not stay in memory."""
    result = measure(gpu, tmp_path, "gemm", precision)
    width = 2 if precision in (Precision.FP16, Precision.BF16) else 4
    sides = {2.0 * side**3: side for side in gemm.SIDES["cuda"]}
    assert result.flops_per_iteration in sides
    assert result.memory.model_bytes == 3 * sides[result.flops_per_iteration] ** 2 * width
    assert result.memory.warm_allocated_bytes < 1.1 * result.memory.model_bytes + 2**28
    assert all(time > 0 for time in result.times_ms("best"))
    assert result.environment.flags["cuda.matmul.allow_tf32"] == str(precision is Precision.TF32)


def test_memory_on_a_gpu(gpu: Device, tmp_path: Path) -> None:
    """Three buffers of the size that the table says, or of what there is room for."""
    result = measure(gpu, tmp_path, "hbm")
    size = result.memory.model_bytes // 3
    assert 0 < size <= traffic.BUFFER["cuda"]
    assert result.bytes_per_iteration == {"copy": 2 * size, "triad": 3 * size}


@pytest.mark.parametrize("name", ["h2d", "d2h"])
def test_transfers_on_a_gpu(gpu: Device, tmp_path: Path, name: str) -> None:
    """Bytes between pinned memory and the device, timed on the device."""
    result = measure(gpu, tmp_path, name)
    assert result.bytes_per_iteration == {"iteration": traffic.TRANSFER}
    assert set(result.series) == {"iteration"}


REALLY_CARRIED = """
import torch
from worker.probes import traffic
from worker.probes.base import Bench
from worker.timing import CudaClock

device = torch.device("cuda", 0)
generator = torch.Generator(device=device).manual_seed(1)
bench = Bench(device=device, dtype=torch.float32, generator=generator, clock=CudaClock(), burst_s=0.01)
here, there = traffic._buffers(bench)
assert here.is_pinned() and not here.is_cuda
traffic._buffers = lambda _: (here, there)
for prepare, target in ((traffic.to_device, there), (traffic.to_host, here)):
    target.zero_()
    source = here if target is there else there
    source.copy_(torch.randn(source.shape))
    prepare(bench).steps["iteration"]()
    torch.cuda.synchronize()
    assert torch.equal(target.cpu(), source.cpu()) and target.any()
"""


def test_transfers_carry_the_bytes() -> None:
    """From pinned memory to the device and back: what is timed is the copy itself."""
    run_script(REALLY_CARRIED)
