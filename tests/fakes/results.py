"""Results as a worker would send them, for runs that never ran: made up, and always the same."""

import math
import random
from collections.abc import Sequence

import msgspec

from protocol import floats
from protocol.cell import Cell, Workload
from protocol.result import Block, Environment, Ledger, LoadWindow, Memory, Result, SteadyState, StopReason, WarmUp

MIB = 1024 * 1024
PARTS = {
    Workload.TRAINING: ("forward", "backward", "optimizer"),
    Workload.LOAD: ("instantiate", "weights"),
    Workload.GENERATION: ("whole",),
    Workload.PROBE: ("copy", "triad"),
}
WEIGHTS = {
    **{"forward": 1.0, "backward": 2.0, "optimizer": 0.25, "instantiate": 3.0, "weights": 5.0},
    **{"whole": 20.0, "copy": 2.0, "triad": 3.0},
}
"""Series of each workload, and how long each takes in forward passes."""


def result(
    cell: Cell,
    *,
    begin_ns: int = 0,
    forward_ms: float = 10.0,
    blocks: int = 10,
    iterations: int = 40,
    noise: float = 0.002,
    steady_state: SteadyState = SteadyState.REACHED,
    loss: float | None = None,
    suspended_s: float = 0.0,
    load_s: float = 0.0,
    **changes: object,
) -> Result:
    """A worker's result: `blocks` of `iterations` around `forward_ms`, always the same.

    suspended_s: at the end. load_s: length of a load window that begins with the blocks.
    """
    chance = random.Random(f"{cell.model} {cell.workload} {cell.batch_size} {cell.devices}")
    series: dict[str, list[float]] = {}
    for name in PARTS.get(cell.workload, ("forward",)):
        mean = forward_ms * WEIGHTS[name]
        series[name] = [chance.gauss(mean, noise * mean) for _ in range(blocks * iterations)]
    series["iteration"] = [sum(times) for times in zip(*series.values(), strict=True)]
    tokens = None
    if cell.workload is Workload.GENERATION and cell.new_tokens is not None:
        tokens = blocks * iterations * cell.batch_size * cell.new_tokens
        series |= _tokens(series["iteration"], cell.new_tokens)
    if cell.workload is Workload.INFERENCE:
        series["latency"] = [1.5 * time_ms for time_ms in series["iteration"][:5]]
    on_gpu = not cell.devices[0].startswith("cpu:")
    measured = _blocks(series["iteration"], begin_ns, iterations, round(suspended_s * 1e9))
    made = Result(
        cell=cell,
        parameters=25_557_032,
        items_per_iteration=cell.batch_size,
        ledger=Ledger(
            start_ms=40.0,
            import_ms=5.0,
            context_ms=240.0,
            build_ms=120.0,
            load_ms=0.0,
            warm_up_ms=900.0,
            measure_ms=sum(series["iteration"]),
            count_ms=30.0,
        ),
        warm_up=WarmUp(steady_state=steady_state, iterations=20, first_iteration_ms=300.0, second_iteration_ms=12.0),
        stop_reason=StopReason.TARGET,
        blocks=measured,
        load=_load(measured, load_s) if load_s else None,
        host_cpu=1.02,
        series={name: floats.pack(times) for name, times in series.items()},
        launch_bound=False if on_gpu else None,
        generated_tokens=tokens,
        memory=Memory(
            model_bytes=98 * MIB,
            cold_allocated_bytes=900 * MIB if on_gpu else None,
            cold_reserved_bytes=1_000 * MIB if on_gpu else None,
            warm_allocated_bytes=850 * MIB if on_gpu else None,
            warm_reserved_bytes=1_000 * MIB if on_gpu else None,
            resident_bytes=700 * MIB,
        ),
        loss=2.5 if cell.workload is Workload.TRAINING else loss,
        environment=Environment(
            python="3.11.2",
            torch="2.15.0",
            cuda="13.0" if on_gpu else None,
            torchvision="0.30.0",
            threads=1,
            collector_enabled=False,
            isolation="fork",
        ),
    )
    return msgspec.structs.replace(made, **changes)


def _load(blocks: Sequence[Block], load_s: float) -> LoadWindow:
    first, last = blocks[0], blocks[-1]
    iteration_ns = (first.end_ns - first.start_ns) / first.iterations
    more = max(0, math.ceil((load_s * 1e9 - (last.end_ns - first.start_ns)) / iteration_ns))
    return LoadWindow(start_ns=first.start_ns, end_ns=last.end_ns + round(more * iteration_ns), iterations=more)


def _tokens(texts_ms: Sequence[float], new_tokens: int) -> dict[str, list[float]]:
    """The first token takes a quarter of each text, the others share what is left."""
    between = [text_ms * 0.75 / (new_tokens - 1) for text_ms in texts_ms for _ in range(new_tokens - 1)]
    return {"first_token": [text_ms / 4 for text_ms in texts_ms], "inter_token": between}


def _blocks(times_ms: Sequence[float], begin_ns: int, iterations: int, suspended_ns: int) -> tuple[Block, ...]:
    blocks: list[Block] = []
    now_ns = begin_ns
    for first in range(0, len(times_ms), iterations):
        taken_ns = round(sum(times_ms[first : first + iterations]) * 1e6)
        if first + iterations >= len(times_ms):
            taken_ns += suspended_ns
        blocks.append(
            Block(start_ns=now_ns, enqueued_ns=now_ns + taken_ns // 2, end_ns=now_ns + taken_ns, iterations=iterations)
        )
        now_ns += taken_ns
    return tuple(blocks)
