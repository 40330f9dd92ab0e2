"""Workloads on a real GPU: each test in new interpreters, because a process opens a device once."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from protocol import codec
from protocol.cell import Device, MemoryFormat, ModelSpec, Precision, Workload
from protocol.failure import Category, Phase
from protocol.messages import Measurement, Outcome
from protocol.own import OwnModel
from protocol.result import Result
from tests.fakes.assignments import (
    BERT,
    BERT_OPERATIONS,
    GPT2,
    LSTM,
    LSTM_OPERATIONS,
    QWEN,
    RESNET,
    RESNET_OPERATIONS,
    ROOT,
    STYLEGAN2,
    assignment,
    failure_of,
    result_of,
    run_apart,
    run_script,
)
from tests.fakes.own import LINEAR, Code

MEASUREMENT = Measurement(relative_half_width=0.02, block_s=0.02, warm_up_cap_s=0.5, min_s=0.1, max_s=0.5)
AT_ONCE = 4
"""Launches that share the GPU: no test here looks at how long anything takes, and importing torch is most of it."""


class Case(NamedTuple):
    model: str
    workload: Workload
    precision: Precision
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS

    def __str__(self) -> str:
        return "-".join(self)


MODELS = {spec.name: spec for spec in (LSTM, BERT, RESNET, GPT2, QWEN, STYLEGAN2)}
ONE_LOSS = [
    Case(model.name, workload, precision)
    for model in (LSTM, BERT, RESNET)
    for workload in (Workload.INFERENCE, Workload.TRAINING)
    for precision in Precision
]
CHANNELS_LAST = [
    Case(RESNET.name, workload, Precision.BF16, MemoryFormat.CHANNELS_LAST)
    for workload in (Workload.INFERENCE, Workload.TRAINING)
]
OBJECTIVES = [Case(STYLEGAN2.name, Workload.TRAINING, precision) for precision in (Precision.FP32, Precision.FP16)]
WRITERS = [
    Case(model.name, Workload.GENERATION, precision)
    for model in (GPT2, QWEN)
    for precision in (Precision.FP32, Precision.BF16)
]


pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]


def launch(gpu: Device, model: ModelSpec, workload: Workload, cache: Path, **options: object) -> Outcome:
    assign = assignment(model, workload, cache, device=gpu, **{"measurement": MEASUREMENT, **options})
    return run_apart(assign, {"CUDA_VISIBLE_DEVICES": gpu.uuid})


def measured(outcome: Outcome) -> Result:
    result = result_of(outcome)
    iterations = sum(block.iterations for block in result.blocks)
    for name in set(result.series) - {"latency", "first_token", "inter_token"}:
        assert len(result.times_ms(name)) * result.group == iterations
    assert all(time > 0 for time in result.times_ms("iteration"))
    assert all(block.start_ns < block.enqueued_ns <= block.end_ns for block in result.blocks)
    assert result.memory.cold_allocated_bytes is not None
    assert result.memory.warm_allocated_bytes >= result.memory.model_bytes
    assert result.memory.warm_reserved_bytes >= result.memory.warm_allocated_bytes
    assert result.ledger.context_ms > 0
    assert result.environment.cudnn is not None
    return result


@pytest.fixture(scope="module")
def launched(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Case], Result]]:
    """The results of all cases, launched several at once when the first one is needed."""
    cache = tmp_path_factory.mktemp("cache")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = {
            case: pool.submit(
                launch,
                gpu,
                MODELS[case.model],
                case.workload,
                cache,
                precision=case.precision,
                memory_format=case.memory_format,
            )
            for case in (*ONE_LOSS, *CHANNELS_LAST, *OBJECTIVES, *WRITERS)
        }
        yield lambda case: measured(outcomes[case].result())
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", [*ONE_LOSS, *CHANNELS_LAST], ids=str)
def test_work_on_a_gpu(launched: Callable[[Case], Result], case: Case) -> None:
    """Events time every iteration; what they add up to is within the blocks' wall time.

    Operations are counted, attention included, whichever kernel was chosen; an LSTM's as a whole or not at all.
    """
    result = launched(case)
    training = case.workload is Workload.TRAINING
    wall_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    assert sum(result.times_ms("iteration")) * result.group <= wall_ms * 1.001
    assert (result.launch_bound is None) == (training and case.precision is Precision.FP16)
    assert (result.loss is not None) == training
    assert bool(result.times_ms("latency")) != training
    assert result.cell.memory_format is case.memory_format
    assert result.environment.flags["cudnn.allow_tf32"] == str(case.precision is Precision.TF32)
    forward = {LSTM.name: LSTM_OPERATIONS, BERT.name: BERT_OPERATIONS, RESNET.name: RESNET_OPERATIONS}[case.model]
    if result.flops_per_iteration is None:
        assert case.model == LSTM.name
    elif training:
        assert 2.5 * forward < result.flops_per_iteration < 3.5 * forward
    else:
        assert result.flops_per_iteration == forward


@pytest.mark.parametrize("case", OBJECTIVES, ids=str)
def test_several_objectives_on_a_gpu(launched: Callable[[Case], Result], case: Case) -> None:
    """Generator and discriminator are one iteration in three parts."""
    result = launched(case)
    assert set(result.series) == {"iteration", "forward", "backward", "optimizer"}
    assert result.loss is not None


@pytest.mark.parametrize("case", WRITERS, ids=str)
def test_generation_on_a_gpu(launched: Callable[[Case], Result], case: Case) -> None:
    """Every token was seen by the host, and has a time."""
    result = launched(case)
    new, texts = result.cell.new_tokens, len(result.times_ms("iteration"))
    assert new is not None
    assert result.generated_tokens == result.cell.batch_size * new * texts
    assert len(result.times_ms("first_token")) == texts
    assert len(result.times_ms("inter_token")) == texts * (new - 1)
    assert result.launch_bound is None


@pytest.mark.parametrize("model", [RESNET, LSTM], ids=lambda model: model.name)
def test_load_on_a_gpu(gpu: Device, tmp_path: Path, model: ModelSpec) -> None:
    """Also of a model whose weights a GPU lays out as views of one buffer: an LSTM's."""
    result = measured(launch(gpu, model, Workload.LOAD, tmp_path))
    assert result.launch_bound is None
    assert len(result.blocks) >= 3
    assert result.ledger.load_ms > 0


@pytest.mark.parametrize("workload", [Workload.LOAD, Workload.INFERENCE, Workload.TRAINING])
def test_own_model_on_a_gpu(gpu: Device, tmp_path: Path, workload: Workload) -> None:
    """Built and fed on the host by its own code; model and nested inputs are moved, and cast where weights are."""
    own = OwnModel(target=f"{ROOT}/docs/examples/own_model.py:TwoTowers", allowed=True)
    model = msgspec.structs.replace(LSTM, name="own", family="own", sizes=None, inputs=(), own=own)
    result = measured(launch(gpu, model, workload, tmp_path, precision=Precision.BF16))
    assert result.memory.model_bytes == result.parameters * (4 if workload is Workload.TRAINING else 2)


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


@pytest.mark.parametrize("model", [LSTM, BERT, RESNET], ids=lambda spec: spec.name)
def test_late_imports_on_a_gpu(gpu: Device, tmp_path: Path, model: ModelSpec) -> None:
    """A launch after the preload imports a handful of modules, though torch has more to import late for a GPU."""
    assign = assignment(model, Workload.TRAINING, tmp_path, device=gpu, precision=Precision.BF16)
    late = run_script(LATE_IMPORTS, stdin=codec.encode(assign), CUDA_VISIBLE_DEVICES=gpu.uuid)
    assert len(json.loads(late)) <= 5, late


def test_another_gpu_than_the_requested_one_is_refused(gpu: Device, tmp_path: Path) -> None:
    """CUDA opened a GPU, but not this one."""
    other = msgspec.structs.replace(gpu, uuid="GPU-00000000-1111-2222-3333-444444444444")
    assign = assignment(LSTM, Workload.INFERENCE, tmp_path, device=other)
    failure = failure_of(run_apart(assign, {"CUDA_VISIBLE_DEVICES": gpu.uuid}))
    assert failure.category is Category.DEVICE_UNAVAILABLE
    assert gpu.uuid.removeprefix("GPU-") in failure.message


def test_batch_too_large_for_the_gpu_is_out_of_memory(gpu: Device, tmp_path: Path) -> None:
    """In the warm-up phase, so that a smaller batch is tried, and with the device's memory as evidence."""
    failure = failure_of(launch(gpu, RESNET, Workload.TRAINING, tmp_path, batch_size=8_000_000))
    assert (failure.category, failure.phase) == (Category.OUT_OF_MEMORY, Phase.WARM_UP)
    assert "device_total_bytes" in failure.evidence


def test_index_out_of_bounds_poisons_the_process(gpu: Device, tmp_path: Path) -> None:
    """A device-side assert is a sticky error with its code."""
    (tokens,) = LSTM.inputs
    model = msgspec.structs.replace(LSTM, inputs=(msgspec.structs.replace(tokens, high=5_000),))
    failure = failure_of(launch(gpu, model, Workload.INFERENCE, tmp_path, batch_size=64))
    assert (failure.category, failure.code) == (Category.CUDA_STICKY, 710)


FAR_AWAY = """\
        from worker.verify import triton_digest
        words = torch.zeros(64, 1024, dtype=torch.int32, device=x.device)
        weights = torch.ones(1024, dtype=torch.int64, device=x.device)
        triton_digest.add(words, weights[:64], weights, torch.zeros(1, dtype=torch.int64, device=x.device), 1 << 40)
        return self.layer(x)
"""
"""A kernel of ours adds its sum 8 TiB behind a tensor of one element, where no GPU has any memory."""


def test_an_illegal_address_poisons_the_process(gpu: Device, tmp_path: Path) -> None:
    """Written to by a kernel in the middle of a model: a sticky error with its code."""
    model = Code(tmp_path)(LINEAR.replace("        return self.layer(x)\n", FAR_AWAY))
    failure = failure_of(launch(gpu, model, Workload.INFERENCE, tmp_path))
    assert (failure.category, failure.code) == (Category.CUDA_STICKY, 700)


ROUND_TRIP = """
import json
import torch
from worker import latency

device = torch.device("cuda")
weights = torch.randn(1000, 3000, device=device)
inputs = torch.randn(2000, 1000, device=device)
latency._BUFFER_BYTES = 1_000_000

def forward():
    return {"product": inputs @ weights, "sums": [inputs.sum(0)]}

forward()
torch.cuda.reset_peak_memory_stats()
forward()
peak = torch.cuda.max_memory_allocated()
trip = latency._RoundTrip(forward, [inputs], device)
((_, source),) = trip._inputs
source.fill_(2.0)
trip.once()
sent = bool((inputs == 2.0).all())
torch.cuda.reset_peak_memory_stats()
times = latency.times_ms(forward, [inputs], device, 0.6, [])
held = inputs.sum(0)
trip._fetch(held)
torch.cuda.synchronize()
same = torch.equal(trip._buffer[: held.nbytes].view(torch.float32), held.cpu())
print(json.dumps({
    "sent": sent, "same": same, "times": len(times), "buffer": trip._buffer.numel(),
    "pinned": trip._buffer.is_pinned() and source.is_pinned(),
    "more": torch.cuda.max_memory_allocated() - peak,
}))
"""


def test_latency_copies_there_and_back_without_more_memory_on_the_gpu() -> None:
    """Inputs are those of the host's pinned copy; outputs come piece by piece; the device's peak is that of a pass."""
    answers = json.loads(run_script(ROUND_TRIP))
    assert answers.pop("times") > 1
    assert answers.pop("more") <= 1 << 20
    assert answers == {"sent": True, "same": True, "buffer": 1_000_000, "pinned": True}


SCRIPT = """
import json, sys, time
import torch
from protocol.messages import Measurement
from tests.fakes.assignments import Listener
from worker import measure
from worker.timing import CudaClock

asked = Measurement(relative_half_width=0.02, block_s=0.05, warm_up_cap_s=1, min_s=0.2, max_s=1)
small, large = torch.ones(8, device="cuda"), torch.randn(4096, 4096, device="cuda")
wide = torch.ones(1 << 24, device="cuda")

def tiny():
    small.add_(1)

def many_tiny():
    for _ in range(600):
        small.add_(1)

def many_heavy():
    for _ in range(3000):
        wide.add_(1)

def heavy():
    torch.mm(large, large)

answers = {}
for step in (tiny, many_tiny, many_heavy, heavy):
    work, clock, stage = measure.Work({"forward": step}), CudaClock(), Listener().stage
    _, iteration_ms = measure.warm_up(work, clock, asked, stage)
    result = measure.measured(work, clock, asked, stage, iteration_ms)
    answers[step.__name__] = {"group": result.group, "launch_bound": result.launch_bound}
print(json.dumps(answers))
"""


def test_launch_bound_and_groups_on_a_gpu() -> None:
    """Tiny kernels wait for the host, a large product does not, nor do more kernels than CUDA lets wait.

    What is far below a millisecond is timed in groups.
    """
    answers = json.loads(run_script(SCRIPT))
    assert answers["tiny"]["group"] > 1
    assert answers["many_tiny"] == {"group": 1, "launch_bound": True}
    assert answers["many_heavy"] == {"group": 1, "launch_bound": False}
    assert answers["heavy"] == {"group": 1, "launch_bound": False}
