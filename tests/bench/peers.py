"""The other side of tests/bench/reference.py: times a model by somebody else's benchmark, each time in a fresh process.

    reference.py ── Opening, Question, Question, … ──▶ this process ── fork ──▶ one process a question ── Answer ──▶

Of gpubench it takes the models and their inputs alone. Forked, as our launches are: a new interpreter would leave the
GPU idle for ten seconds before each reference.
"""

import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import torch

from protocol.cell import DeviceKind, MemoryFormat, Precision
from tests.bench.questions import Answer, Opening, Question
from worker import devices, preload
from worker.models import registry
from worker.models.base import Batch, Feed

Forward = Callable[[], object]
Measure = Callable[[Forward, int, float], float]
"""Takes what is to be timed, about how many iterations, and what one takes in milliseconds; gives the median."""


def do_bench() -> Measure:
    """triton.testing.do_bench as it comes: events around each call, and before each a write to all of the L2 cache."""
    from triton import runtime, testing  # type: ignore[import-untyped]  # triton has no types

    runtime.driver.active.get_device_interface()  # made, and on a new machine compiled, when it is first asked for

    def measure(forward: Forward, iterations: int, iteration_ms: float) -> float:
        return float(testing.do_bench(forward, rep=round(iterations * iteration_ms), return_mode="median"))

    return measure


def bare_loop() -> Measure:
    """The same without that write: a pair of events around each call, one wait at the end."""

    def measure(forward: Forward, iterations: int, _iteration_ms: float) -> float:
        event = partial(torch.cuda.Event, enable_timing=True)
        pairs = [(event(), event()) for _ in range(iterations)]
        for begin, end in pairs:
            begin.record()
            forward()
            end.record()
        torch.cuda.synchronize()
        return float(median(begin.elapsed_time(end) for begin, end in pairs))

    return measure


def host_loop() -> Measure:
    """For CPU devices: the host's clock around each call."""

    def measure(forward: Forward, iterations: int, _iteration_ms: float) -> float:
        times_ms = []
        for _ in range(iterations):
            begin = time.perf_counter()
            forward()
            times_ms.append((time.perf_counter() - begin) * 1e3)
        return median(times_ms)

    return measure


def timer() -> Measure:
    """torch.utils.benchmark: the host's clock around all calls, the GPU waited for at both ends. A mean.

    Not `blocked_autorange`, which may time blocks of a single call: 27.6 ms of gpt2, batch 64, bf16, that takes 26.6 ms
    in blocks of 40 [H200]. Imported after the fork, because it asks CUDA for a GPU.
    """
    from torch.utils import benchmark

    def measure(forward: Forward, iterations: int, _iteration_ms: float) -> float:
        one = benchmark.Timer("forward()", globals={"forward": forward}, num_threads=torch.get_num_threads())
        return float(one.timeit(iterations).mean * 1e3)

    return measure


MEASURES: Final = {"do_bench": do_bench, "bare loop": bare_loop, "host loop": host_loop, "Timer": timer}
DTYPES: Final = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16}


def answer(question: Question) -> Answer:
    """Make ready, build the model, warm up, measure. Raises KeyError for a precision that is not of these benches."""
    cell = question.cell
    os.environ["CUDA_VISIBLE_DEVICES"] = cell.devices[0] if question.kind is DeviceKind.CUDA else ""
    if question.cpus:
        os.sched_setaffinity(0, question.cpus)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    measure = MEASURES[question.method]()
    device, dtype = torch.device(question.kind), DTYPES[cell.precision]
    torch.manual_seed(cell.seed)
    family = registry.family(question.model)
    module = family.build(question.model, device, cell.input_size).to(dtype).eval()
    if cell.memory_format is MemoryFormat.CHANNELS_LAST:
        module = module.to(memory_format=torch.channels_last)
    feed = Feed(batch_size=cell.batch_size, input_size=cell.input_size, device=device, dtype=dtype, seed=cell.seed)
    with torch.inference_mode():
        batch = family.batch(question.model, feed)
        if cell.memory_format is MemoryFormat.CHANNELS_LAST:
            batch = _by_pixel(batch)

        def forward() -> object:
            return family.forward(module, batch)

        iteration_ms = warm_up(forward, question.warm_up, device)
        return Answer(measure(forward, question.iterations, iteration_ms))


def _by_pixel(batch: Batch) -> Batch:
    return {
        name: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
        for name, tensor in batch.items()
    }


def warm_up(forward: Forward, iterations: int, device: torch.device) -> float:
    """Do so many; milliseconds that one took in the second half."""
    late = max(iterations // 2, 1)
    for _ in range(iterations - late):
        forward()
    devices.synchronize(device)
    begin = time.perf_counter()
    for _ in range(late):
        forward()
    devices.synchronize(device)
    return (time.perf_counter() - begin) * 1e3 / late


def main() -> None:
    """Answer each line of standard input with one of standard output."""
    for module in preload.modules(msgspec.json.decode(sys.stdin.buffer.readline(), type=Opening).modules):
        importlib.import_module(module)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"{threads} threads: a fork would lose all but one"
    assert not devices.gpu_descriptors(), "a fork would inherit a GPU"
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            _reply(line)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            _say(Answer(None))


def _reply(line: bytes) -> None:
    """The forked process, to its end."""
    status = 1
    try:
        _say(answer(msgspec.json.decode(line, type=Question)))
        status = 0
    except Exception:  # noqa: BLE001 - somebody else's benchmark may raise anything; the others are still wanted
        traceback.print_exc()
    finally:
        os._exit(status)


def _say(what: Answer) -> None:
    os.write(sys.stdout.fileno(), msgspec.json.encode(what) + b"\n")


if __name__ == "__main__":
    main()
