"""Do the pure times of operators agree with `triton.testing.do_bench`? In turns, on one GPU; ratios within a turn.

    python -m tests.bench.operators [turns]

Both read inputs from memory: ours rotate copies, do_bench fills the L2 cache with zeros before each call. Two things in
do_bench's times are not the operator's:

  - its events: 3 µs a call [H100], read here with an operator of one number and subtracted
  - the zeros, which the cache writes back during the call: up to 10 µs for an operator that only reads, as a sum
"""

import sys
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Final

import torch
from triton import testing

from orchestrator.config import operators
from protocol.cell import DeviceKind, InputSpec
from worker import devices
from worker.operators import rounds, times
from worker.operators.functions import FUNCTIONS, Function

OPERATORS: Final = (
    "add", "exp", "gelu", "sum", "softmax", "layer_norm", "matmul_square", "attention", "conv2d", "transpose",
)  # fmt: skip
LEAST_MS: Final = 0.05
MARGIN: Final = 0.02
WINDOW_S: Final = 0.05


Pair = tuple[float, float]


def turn(function: Function, inputs: list[torch.Tensor], device: torch.device, *, theirs_first: bool) -> Pair:
    """Our pure time and that of do_bench, medians in milliseconds."""
    count = rounds.copies(sum(one.nbytes for one in inputs), torch.cuda.mem_get_info()[0], "cuda")
    rotated = [inputs, *([one.clone() for one in inputs] for _ in range(count - 1))]
    with torch.no_grad():
        theirs = testing.do_bench(lambda: function(*inputs), return_mode="median") if theirs_first else 0.0
        ours, _, _ = times.pure_ms([partial(function, *copy) for copy in rotated], device, WINDOW_S, inputs)
        theirs = theirs or testing.do_bench(lambda: function(*inputs), return_mode="median")
    return median(ours), float(theirs)


def turns(function: Function, inputs: list[torch.Tensor], count: int) -> list[Pair]:
    """Several turns; every other begins with do_bench."""
    device = torch.device("cuda", 0)
    return [turn(function, inputs, device, theirs_first=number % 2 == 1) for number in range(count)]


def compared(count: int) -> Iterator[tuple[str, float, float, float]]:
    """Operator, our time, do_bench's less its events, both in milliseconds, and the median of their ratios."""
    devices.set_tf32(wanted=False)
    specs = operators.load()
    events_ms = median(theirs - ours for ours, theirs in turns(torch.abs, [torch.ones(1, device="cuda")], count))
    yield "events", 0.0, events_ms, 1.0
    for name in OPERATORS:
        inputs = [made(one) for one in specs[name].shapes[DeviceKind.CUDA][-1].inputs]
        found = [(ours, theirs - events_ms) for ours, theirs in turns(FUNCTIONS[name], inputs, count)]
        ours_ms, theirs_ms = (median(times_ms) for times_ms in zip(*found, strict=True))
        yield name, ours_ms, theirs_ms, median(ours / theirs for ours, theirs in found)
        torch.cuda.empty_cache()


def made(spec: InputSpec) -> torch.Tensor:
    """Normally distributed numbers in bf16."""
    return torch.randn(tuple(map(int, spec.shape)), device="cuda", dtype=torch.bfloat16)


def main() -> int:
    """Print a line for each operator; 1 where one that counts is beyond the margin."""
    beyond = 0
    for name, ours_ms, theirs_ms, ratio in compared(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        beyond += ours_ms >= LEAST_MS and abs(ratio - 1) > MARGIN
        print(f"{name:16} {ours_ms * 1e3:9.1f} µs, do_bench {theirs_ms * 1e3:9.1f} µs: ratio {ratio:.3f}")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
