"""The two times of an operator.

    real   one call on an idle device, from the host's call until the device is done, as a caller waits (rounds.py)
    pure   calls back to back, each on its own copy of the inputs, so that the L2 cache does not hold them

On a GPU the calls of a pure round are one CUDA graph, so that the host does not limit the speed. Calls that cannot be
captured are enqueued by the host, which waits after each round (ShapeResult.graphed is False).
"""

import math
import time
from collections.abc import Sequence

import torch

from worker import devices, timing
from worker.operators import rounds
from worker.timing import HostClock, Step, TimedBlock


def pure_ms(
    calls: Sequence[Step], device: torch.device, window_s: float, given: Sequence[torch.Tensor]
) -> tuple[list[float], TimedBlock, bool]:
    """Time rounds of calls back to back: as many rounds as fit in about `window_s` seconds, but 5 to 2000.

    calls: one for each copy of the inputs. A round makes all of them, in order. If such a round would take longer than
    `window_s`, each round makes only as many of the last calls as fit, but at least two. given: inputs of the last
    call. They show which of its outputs are views of an input, which is allowed. Returns the mean milliseconds of a
    call in each round, the timed block of all rounds, and True if the calls ran as a CUDA graph.
    """
    begin = time.monotonic()
    calls[0]()
    devices.synchronize(device)
    call_s = max(time.monotonic() - begin, 1e-9)
    calls = calls[-max(rounds.LEAST_COPIES, round(window_s / call_s)) :]  # a round lasts at most about a window

    def plain() -> object:
        for call in calls:
            output = call()
        return output

    def waited() -> None:
        plain()
        devices.synchronize(device)

    graph = _captured(plain, device, given)
    # CUDA events time one stream, and a user's function may use another. So without a graph the host waits.
    one_round, clock = (waited, HostClock()) if graph is None else (graph.replay, devices.clock_for(device))
    first = timing.time_block(clock, (one_round,), 2)
    block = timing.time_block(clock, (one_round,), rounds.calls(window_s, first.wall_ms / 2))
    return [span_ms / len(calls) for span_ms in block.spans_ms], block, graph is not None


def _captured(plain: Step, device: torch.device, given: Sequence[torch.Tensor]) -> torch.cuda.CUDAGraph | None:
    """Return the calls that `plain` makes as a CUDA graph; None on a CPU device or if the graph does not work.

    A graph works if it can be captured, and a replay writes every output of the last call again. given: inputs of that
    call. An output that is a view of one of them is not tested.
    """
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
        torch.cuda.synchronize()  # raises if more than the capture has failed
        return None
    return graph if _repeats(graph, made if isinstance(made, tuple) else (made,), given) else None


def _repeats(graph: torch.cuda.CUDAGraph, outputs: Sequence[object], given: Sequence[torch.Tensor]) -> bool:
    """Whether a replay of `graph` writes all `outputs` of its last call again.

    A capture may miss work on another stream. given: inputs of that call. An output that is a view of one of them is
    not tested. False if an output is neither a tensor nor None.
    """
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
