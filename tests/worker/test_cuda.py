"""The same, on a real GPU: each test in interpreters of its own, because a device is opened once in a process."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from protocol import codec
from protocol.cell import Device, DeviceKind, ModelSpec, Precision, Workload
from protocol.failure import Category, Phase
from protocol.messages import Measurement, Outcome
from protocol.result import Result
from tests.fakes.assignments import BERT, LSTM, RESNET, ROOT, assignment, run_apart

MEASUREMENT = Measurement(relative_half_width=0.02, block_s=0.02, warm_up_cap_s=0.5, min_s=0.1, max_s=0.5)
MODELS = pytest.mark.parametrize("model", [LSTM, BERT, RESNET], ids=lambda spec: spec.name)
PRECISIONS = pytest.mark.parametrize("precision", list(Precision))


@functools.cache
def first_gpu() -> Device | None:
    """The first GPU that a new interpreter sees, None where there is none."""
    script = "import torch; print(torch.cuda.get_device_properties(0).uuid)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        return None
    return Device(
        uuid=f"GPU-{done.stdout.strip().removeprefix('GPU-')}", gpu_id=0, kind=DeviceKind.CUDA, name="the first GPU"
    )


@pytest.fixture
def gpu() -> Device:
    """A real GPU."""
    device = first_gpu()
    if device is None:
        pytest.skip("torch finds no CUDA device on this machine")
    return device


pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]


def launch(gpu: Device, model: ModelSpec, workload: Workload, cache: Path, **options: object) -> Outcome:
    """One launch on the GPU, in a process of its own."""
    assign = assignment(model, workload, cache, device=gpu, **{"measurement": MEASUREMENT, **options})
    return run_apart(assign, {"CUDA_VISIBLE_DEVICES": gpu.uuid})


def measured(outcome: Outcome) -> Result:
    """The result, after checking what every result on a GPU has."""
    assert outcome.failure is None, outcome.failure
    result = outcome.result
    assert result is not None
    iterations = sum(block.iterations for block in result.blocks)
    assert {len(result.times_ms(name)) * result.group for name in result.series} == {iterations}
    assert all(time > 0 for time in result.times_ms("iteration"))
    assert all(block.start_ns < block.enqueued_ns <= block.end_ns for block in result.blocks)
    assert result.memory.cold_allocated_bytes is not None
    assert result.memory.warm_reserved_bytes is not None
    assert result.memory.warm_allocated_bytes is not None
    assert result.memory.warm_allocated_bytes >= result.memory.model_bytes
    assert result.memory.warm_reserved_bytes >= result.memory.warm_allocated_bytes
    assert result.ledger.context_ms > 0
    assert result.environment.cudnn is not None
    return result


@MODELS
@PRECISIONS
@pytest.mark.parametrize("workload", [Workload.INFERENCE, Workload.TRAINING])
def test_work_on_a_gpu(gpu: Device, tmp_path: Path, model: ModelSpec, precision: Precision, workload: Workload) -> None:
    """Events time every iteration; what they add up to is within the blocks' wall time."""
    result = measured(launch(gpu, model, workload, tmp_path, precision=precision))
    wall_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    assert sum(result.times_ms("iteration")) * result.group <= wall_ms * 1.001
    assert result.launch_bound is not None
    assert (result.loss is not None) == (workload is Workload.TRAINING)


def test_load_on_a_gpu(gpu: Device, tmp_path: Path) -> None:
    """The model is on the device at the end of every repetition."""
    result = measured(launch(gpu, RESNET, Workload.LOAD, tmp_path))
    assert result.launch_bound is None
    assert len(result.blocks) >= 3
    assert result.ledger.load_ms > 0


LATE_IMPORTS = """
import importlib, json, sys
from pathlib import Path
from protocol import codec
from protocol.messages import Assign
from tests.fakes import assignments
from worker import preload

assign = codec.decode(sys.stdin.buffer.read(), Assign)
for module in (*preload.COMMON, *assign.model.preload):
    importlib.import_module(module)
before = set(sys.modules)
assignments.run_here(assign)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@MODELS
def test_launch_after_the_preload_imports_a_handful_of_modules(gpu: Device, tmp_path: Path, model: ModelSpec) -> None:
    """On a GPU too, where torch has more to import late."""
    assign = assignment(model, Workload.TRAINING, tmp_path, device=gpu, precision=Precision.BF16)
    done = subprocess.run(
        [sys.executable, "-c", LATE_IMPORTS],
        input=codec.encode(assign),
        stdout=subprocess.PIPE,
        check=True,
        timeout=200,
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid},
    )
    assert len(json.loads(done.stdout)) <= 5, done.stdout


def test_another_gpu_than_the_one_asked_for_is_refused(gpu: Device, tmp_path: Path) -> None:
    """CUDA opened a GPU, but not this one."""
    other = msgspec.structs.replace(gpu, uuid="GPU-00000000-1111-2222-3333-444444444444")
    assign = assignment(LSTM, Workload.INFERENCE, tmp_path, device=other)
    failure = run_apart(assign, {"CUDA_VISIBLE_DEVICES": gpu.uuid}).failure
    assert failure is not None
    assert failure.category is Category.DEVICE_UNAVAILABLE
    assert gpu.uuid.removeprefix("GPU-") in failure.message


def test_batch_too_large_for_the_gpu_is_out_of_memory(gpu: Device, tmp_path: Path) -> None:
    """In the warm-up phase, so that a smaller batch is tried, and with the device's memory as evidence."""
    failure = launch(gpu, RESNET, Workload.TRAINING, tmp_path, batch_size=8_000_000).failure
    assert failure is not None
    assert (failure.category, failure.phase) == (Category.OUT_OF_MEMORY, Phase.WARM_UP)
    assert "device_total_bytes" in failure.evidence


def test_index_out_of_bounds_poisons_the_process(gpu: Device, tmp_path: Path) -> None:
    """A device-side assert is a sticky error with its code."""
    (tokens,) = LSTM.inputs
    model = msgspec.structs.replace(LSTM, inputs=(msgspec.structs.replace(tokens, high=5_000),))
    failure = launch(gpu, model, Workload.INFERENCE, tmp_path, batch_size=64).failure
    assert failure is not None
    assert (failure.category, failure.code) == (Category.CUDA_STICKY, 710)


SCRIPT = """
import json, sys, time
import torch
from protocol.messages import Measurement
from tests.fakes.assignments import Listener
from worker import measure
from worker.timing import CudaClock

asked = Measurement(relative_half_width=0.02, block_s=0.05, warm_up_cap_s=1, min_s=0.2, max_s=1)
small, large = torch.ones(8, device="cuda"), torch.randn(4096, 4096, device="cuda")

def tiny():
    small.add_(1)

def many_tiny():
    for _ in range(600):
        small.add_(1)

def heavy():
    torch.mm(large, large)

answers = {}
for step in (tiny, many_tiny, heavy):
    work, clock, stage = measure.Work({"forward": step}), CudaClock(), Listener().stage
    _, iteration_ms = measure.warm_up(work, clock, asked, stage)
    result = measure.measured(work, clock, asked, stage, iteration_ms)
    answers[step.__name__] = {"group": result.group, "launch_bound": result.launch_bound}
print(json.dumps(answers))
"""


def test_launch_bound_and_groups_on_a_gpu() -> None:
    """Tiny kernels wait for the host, a large product does not; what is far below a millisecond is timed in groups."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, check=True, timeout=120, cwd=ROOT
    )
    answers = json.loads(done.stdout)
    assert answers["tiny"]["group"] > 1
    assert answers["many_tiny"] == {"group": 1, "launch_bound": True}
    assert answers["heavy"] == {"group": 1, "launch_bound": False}
