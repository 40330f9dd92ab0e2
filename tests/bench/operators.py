"""Do the pure times of operators agree with `triton.testing.do_bench`? In turns, on one GPU; ratios within a turn.

    python -m tests.bench.operators [turns]

Both read inputs from memory: ours rotate copies, do_bench empties the L2 cache before each call. Ours are calls back to
back in a CUDA graph, so that the end of one call and the start of the next are one: operators count that take 50 µs
and more.
"""

import sys
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Final

import torch
from triton import testing

from orchestrator.kinds.ops import catalogue
from protocol.cell import DeviceKind, InputSpec, OperatorSpec, Precision
from worker import devices
from worker.operators import times
from worker.operators.functions import FUNCTIONS

OPERATORS: Final = (
    "add", "exp", "gelu", "sum", "softmax", "layer_norm", "matmul_square", "attention", "conv2d", "transpose",
)  # fmt: skip
LEAST_MS: Final = 0.05
MARGIN: Final = 0.02
WINDOW_S: Final = 0.05


def made(spec: InputSpec) -> torch.Tensor:
    """Normally distributed numbers in bf16."""
    return torch.randn(tuple(map(int, spec.shape)), device="cuda", dtype=torch.bfloat16)


def turn(spec: OperatorSpec, device: torch.device, *, theirs_first: bool) -> tuple[float, float]:
    """Our pure time of the large shape and that of do_bench, medians in milliseconds."""
    function = FUNCTIONS[spec.name]
    inputs = [made(one) for one in spec.shapes[DeviceKind.CUDA][-1].inputs]
    count = times.copies(sum(one.nbytes for one in inputs), torch.cuda.mem_get_info()[0], "cuda")
    rotated = [inputs, *([one.clone() for one in inputs] for _ in range(count - 1))]
    with torch.no_grad():
        theirs = testing.do_bench(lambda: function(*inputs), return_mode="median") if theirs_first else 0.0
        ours, _, _ = times.pure_ms([partial(function, *copy) for copy in rotated], device, WINDOW_S, inputs)
        theirs = theirs or testing.do_bench(lambda: function(*inputs), return_mode="median")
    return median(ours), float(theirs)


def compared(turns: int) -> Iterator[tuple[str, float, float]]:
    """Operator, our time in milliseconds, and the median of the ratios to do_bench's."""
    device = torch.device("cuda", 0)
    devices.set_tf32(wanted=False)
    specs = catalogue.load()
    for name in OPERATORS:
        assert Precision.BF16 in specs[name].tolerance
        found = [turn(specs[name], device, theirs_first=number % 2 == 1) for number in range(turns)]
        yield name, median(ours for ours, _ in found), median(ours / theirs for ours, theirs in found)
        torch.cuda.empty_cache()


def main() -> int:
    """Print a line for each operator; 1 where one that counts is beyond the margin."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    beyond = 0
    for name, ours_ms, ratio in compared(turns):
        counts = ours_ms >= LEAST_MS
        beyond += counts and abs(ratio - 1) > MARGIN
        print(f"{name:16} {ours_ms * 1e3:9.1f} µs  {ratio:.3f} of do_bench{'' if counts else ' (does not count)'}")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
