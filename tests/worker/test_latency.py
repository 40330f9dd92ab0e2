"""Latency of inference, end to end, with the CPU as device; tests/worker/test_cuda.py has a real one."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from protocol.cell import Workload
from tests.fakes.assignments import BERT, LSTM, assignment, run_here
from tests.fakes.spies import spy
from worker import devices, flops, latency, memory
from worker.models import lstm
from worker.stage import Stage
from worker.stopping import LEAST_ITERATIONS

CPU = torch.device("cpu")


def test_passes_are_repeated_for_a_limited_time() -> None:
    """A pass of 20 ms is repeated for half the profile's least time, 0.3 s at most; one of 0.2 s thrice."""
    meta = torch.device("meta")
    for least_s, most in ((0.3, 8), (5.0, 15)):
        short = latency.times_ms(lambda: time.sleep(0.02), [], meta, least_s, [])
        assert 3 <= len(short) <= most
        assert min(short) >= 20
    assert len(latency.times_ms(lambda: time.sleep(0.2), [], meta, 0.1, [])) == LEAST_ITERATIONS


def test_latency_on_a_cpu_is_the_measured_pass(tmp_path: Path) -> None:
    """Nothing is copied there, and other passes would be faster than it in half of all launches."""
    result = run_here(assignment(LSTM, Workload.INFERENCE, tmp_path))
    assert result.times_ms("latency") == result.times_ms("forward")


def test_nothing_is_copied_on_a_cpu_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and outputs are in the host's memory already."""
    monkeypatch.setattr(latency._RoundTrip, "_fetch", lambda *_: pytest.fail("an output was copied"))
    trip = latency._RoundTrip(lambda: torch.ones(3), [torch.ones(3)], CPU)
    trip.once()
    assert trip._inputs == []


class OnDevice(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def test_each_pass_copies_its_inputs_there_and_all_outputs_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fake GPU on which every pass overwrites its inputs: the awaited output is on the host."""
    honest, pinned = torch.empty, list[torch.Tensor]()

    def empty(*size: int, pin_memory: bool = False, **options: object) -> torch.Tensor:
        made = honest(*size, **options)
        if pin_memory:
            pinned.append(made)
        return made

    inputs, passes, arrived = torch.arange(6.0), [0.0], list[list[float]]()

    def forward() -> dict[str, torch.Tensor]:
        if len(passes) > 1:
            assert inputs.tolist() == [0, 1, 2, 3, 4, 5], "the first pass finds out how large outputs are"
        inputs.zero_()
        passes.append(passes[-1] + 1)
        return {"y": torch.full((5,), passes[-1]).as_subclass(OnDevice)}

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(latency, "_pinned", torch.clone)
    monkeypatch.setattr(devices, "synchronize", lambda _: arrived.append(pinned[-1].view(torch.float32).tolist()))
    times = latency.times_ms(forward, [inputs], torch.device("cuda"), 0.01, [])
    assert arrived == [[number] * 5 for number in passes[2:]]
    assert len(times) == len(arrived) - 1, "the first copies of a process take longer"


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24, dtype=torch.float32).reshape(2, 3, 4),
        torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.randn(6, 8)[:, ::2],
        torch.tensor(3.0, dtype=torch.bfloat16),
        torch.empty(0),
    ],
    ids=["contiguous", "channels last", "with holes", "one number", "empty"],
)
def test_all_bytes_of_an_output_are_fetched_once(tensor: torch.Tensor) -> None:
    """In the order in which they lie in memory, and without a copy where they lie together."""
    data = latency._bytes_of(tensor)
    assert (data.dtype, data.numel()) == (torch.uint8, tensor.numel() * tensor.element_size())
    assert sorted(data.view(tensor.dtype).tolist()) == sorted(tensor.flatten().tolist())
    shared = data.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    assert shared == (tensor.stride() != (8, 2))


def test_output_larger_than_the_buffer_comes_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is copied, through a buffer that is smaller."""
    trip = latency._RoundTrip(lambda: None, [], CPU)
    trip._buffer = torch.empty(5, dtype=torch.uint8)
    pieces: list[int] = []
    monkeypatch.setattr(torch.Tensor, "copy_", lambda to, piece, non_blocking: pieces.extend(piece.tolist()))
    trip._fetch(torch.arange(13, dtype=torch.uint8))
    assert pieces == list(range(13))


def test_latency_is_measured_after_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a number of values of its own, none of them in a measured block, and the ledger knows its time."""
    honest = latency.times_ms
    monkeypatch.setattr(
        latency, "times_ms", lambda forward, inputs, _, *rest: honest(forward, inputs, torch.device("meta"), *rest)
    )
    result = run_here(assignment(LSTM, Workload.INFERENCE, tmp_path))
    assert result.times_ms("latency") != result.times_ms("forward")
    iterations = sum(block.iterations for block in result.blocks)
    assert len(result.times_ms("iteration")) * result.group == iterations
    blocks_ms = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e6
    assert result.ledger.measure_ms >= blocks_ms + sum(result.times_ms("latency"))


@pytest.mark.parametrize("workload", [Workload.INFERENCE, Workload.TRAINING])
def test_counting_is_not_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """Operations are counted once, at the speed of Python, with their own entry in the ledger."""
    spans = defaultdict[str, list[tuple[int, int]]](list)
    honest = Stage.timed

    @contextmanager
    def timed(stage: Stage, entry: str) -> Iterator[None]:
        with honest(stage, entry):
            begin_ns = time.monotonic_ns()
            yield
            spans[entry].append((begin_ns, time.monotonic_ns()))

    def slow(*_: object) -> None:
        begin_ns = time.monotonic_ns()
        time.sleep(0.2)
        spans["counting"].append((begin_ns, time.monotonic_ns()))

    monkeypatch.setattr(Stage, "timed", timed)
    monkeypatch.setattr(flops, "count", slow)
    result = run_here(assignment(LSTM, workload, tmp_path))
    assert result.ledger.count_ms >= 200
    ((begin_ns, end_ns),) = spans["counting"]
    assert spans["measure"]
    assert all(measured_ns <= begin_ns or end_ns <= since_ns for since_ns, measured_ns in spans["measure"])


def test_peak_of_memory_excludes_latency_and_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned buffers are made after the peaks are read, on the host too."""
    now = {"peak": 1}
    monkeypatch.setattr(memory, "resident_peak", lambda: now["peak"])
    monkeypatch.setattr(latency, "times_ms", lambda *_: now.update(peak=2) or [1.0])
    assert run_here(assignment(LSTM, Workload.INFERENCE, tmp_path)).memory.resident_bytes == 1
    assert now["peak"] == 2


def test_only_what_the_model_reads_is_sent_to_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has labels, which inference does not need; a family that names no inputs sends all of it."""
    sent = spy(
        monkeypatch, latency, "times_ms", lambda _, _forward, inputs, *_rest: [tuple(one.shape) for one in inputs]
    )
    run_here(assignment(BERT, Workload.INFERENCE, tmp_path))
    assert sent == [[(2, 10)]]
    monkeypatch.setattr(lstm, "batch", lambda spec, feed: {"other": feed.classes(50, (2, 12))})
    monkeypatch.setattr(lstm, "forward", lambda module, batch: module(batch["other"]))
    run_here(assignment(LSTM, Workload.INFERENCE, tmp_path))
    assert sent[1] == [(2, 12)]
