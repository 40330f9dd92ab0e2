"""The two times of an operator.

    real   one call on an idle device, from the host's call until the device is done: what a caller waits for
    pure   calls back to back, each on its own copy of the inputs, so that the L2 cache has none of them

On a GPU the calls of a pure round are one CUDA graph, so that the host does not decide the time. Calls that cannot be
captured are enqueued by the host, which waits after each round (`graphed` is false).
"""

import math
import time
from collections.abc import Sequence
from typing import Final

import torch

from worker import devices, timing
from worker.timing import HostClock, Step, TimedBlock

ROTATED_BYTES: Final = {"cuda": 2**30, "cpu": 4 * 2**20}
"""Inputs of a round together: eight times the largest L2 cache of a GPU (126 MB), which does not evict the oldest data
first: with five times its size, a sum was still 18 % faster than from memory [H100]. A little for a CPU device."""
MOST_COPIES: Final = 256
_LEAST_COPIES: Final = 2
_LEAST_CALLS: Final = 5
_MOST_CALLS: Final = 2000


def copies(input_bytes: int, room_bytes: int, kind: str) -> int:
    """Return the number of copies of the inputs to rotate: at least one, within a quarter of the free memory."""
    wanted = math.ceil(ROTATED_BYTES[kind] / max(input_bytes, 1))
    return max(1, min(wanted, MOST_COPIES, room_bytes // 4 // max(input_bytes, 1)))


def real_ms(call: Step, device: torch.device, window_s: float) -> list[float]:
    """Times of single calls in milliseconds."""

    def whole() -> None:
        call()
        devices.synchronize(device)

    clock = HostClock()
    whole()
    first = timing.time_block(clock, (whole,), _LEAST_CALLS)
    return timing.time_block(clock, (whole,), _calls(window_s, first.wall_ms / _LEAST_CALLS)).spans_ms


def pure_ms(
    calls: Sequence[Step], device: torch.device, window_s: float, given: Sequence[torch.Tensor]
) -> tuple[list[float], TimedBlock, bool]:
    """Times of a call in milliseconds, a mean over each round; the block of the rounds; and whether it was graphed.

    given: the tensors that the last call gets, which its outputs may share.
    """
    begin = time.monotonic()
    calls[0]()
    devices.synchronize(device)
    call_s = max(time.monotonic() - begin, 1e-9)
    calls = calls[-max(_LEAST_COPIES, round(window_s / call_s)) :]  # a round lasts about a window

    def plain() -> object:
        for call in calls:
            output = call()
        return output

    def waited() -> None:
        plain()
        devices.synchronize(device)

    graph = _captured(plain, device, given)
    # Events see one stream alone, and a function of the user's may use another: without a graph the host waits.
    one_round, clock = (waited, HostClock()) if graph is None else (graph.replay, devices.clock_for(device))
    first = timing.time_block(clock, (one_round,), 2)
    block = timing.time_block(clock, (one_round,), _calls(window_s, first.wall_ms / 2))
    return [span_ms / len(calls) for span_ms in block.spans_ms], block, graph is not None


def _calls(window_s: float, call_ms: float) -> int:
    return min(max(timing.iterations_for(window_s * 1e3, call_ms), _LEAST_CALLS), _MOST_CALLS)


def _captured(plain: Step, device: torch.device, given: Sequence[torch.Tensor]) -> torch.cuda.CUDAGraph | None:
    """The calls as a graph; None where they cannot be captured, or not all of their work was."""
    if device.type != "cuda":
        return None
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch does not annotate it
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        plain()  # libraries make their workspaces for this stream before the capture
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=side):
            made = plain()
    except RuntimeError:
        torch.cuda.synchronize()  # raises where more than the capture is broken
        return None
    return graph if _repeats(graph, made if isinstance(made, tuple) else (made,), given) else None


def _repeats(graph: torch.cuda.CUDAGraph, outputs: Sequence[object], given: Sequence[torch.Tensor]) -> bool:
    """Whether a replay makes the outputs anew: work on another stream is not captured, and would cost no time."""
    shared = {tensor.untyped_storage().data_ptr() for tensor in given}
    tensors = [one for one in outputs if isinstance(one, torch.Tensor)]
    if len(tensors) < sum(one is not None for one in outputs):
        return False
    own = [one for one in tensors if one.untyped_storage().data_ptr() not in shared]
    for one in own:
        one.detach().fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    return not any(bool(one.isnan().any()) for one in own)
