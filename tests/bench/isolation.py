"""Do forked and exec'd launches measure the same? Interleaved pairs, the ratio of their means with its 90 % interval.

    python -m tests.bench.isolation [device] [pairs] [launch-bound | gpu-bound]

A launch-bound cell (resnet50 at batch 1: the GPU waits for the host) and a GPU-bound one (bert-base at batch 64).
Equivalence is shown when the interval lies within 1 % of 1 (two one-sided tests at 5 %).
"""

import math
import random
import sys
from statistics import fmean, stdev

from orchestrator.configuration import Isolation
from protocol.cell import Cell
from protocol.result import Result
from tests.bench.harness import Harness, default_device, harness, stored_run

MARGIN = 0.01
T_95 = {4: 2.132, 5: 2.015, 9: 1.833, 10: 1.812, 19: 1.729, 20: 1.725, 24: 1.711, 29: 1.699}
"""One-sided 95 % points of Student's t by degrees of freedom."""


CELLS = {"launch-bound": ("resnet50", 1), "gpu-bound": ("bert-base", 64)}
OPTIONS = ("-m", "resnet50,bert-base", "-b", "1,64", "-p", "bf16", "--phases", "inference", "-w", "100", "-i", "400")


def main(device: str, pairs: int, kinds: tuple[str, ...]) -> None:
    """Measure and print."""
    stored = stored_run(device, *OPTIONS)
    cells = {(cell.model, cell.batch_size): cell for cell in stored.plan.cells}
    with harness(stored) as bench:
        bench.start_zygote()
        for kind in kinds:
            compare(bench, cells[CELLS[kind]], pairs)


def compare(bench: Harness, cell: Cell, pairs: int) -> None:
    """Pairs of launches in random order; prints each pair and the equivalence."""
    order = random.Random(1)
    logs = []
    bound = set()
    for _ in range(pairs):
        both = list(Isolation)
        order.shuffle(both)
        results = {isolation: bench.launch(cell, isolation).result for isolation in both}
        bound |= {result.launch_bound for result in results.values()}
        forked, executed = mean_ms(results[Isolation.FORK]), mean_ms(results[Isolation.EXEC])
        logs.append(math.log(forked / executed))
        print(f"  {cell.model} b{cell.batch_size}: forked {forked:.4f} ms, exec'd {executed:.4f} ms", flush=True)
    half = T_95[pairs - 1] * stdev(logs) / math.sqrt(pairs)
    low, high = (math.exp(fmean(logs) + sign * half) for sign in (-1, 1))
    same = low > 1 - MARGIN and high < 1 + MARGIN
    print(
        f"{cell.id}: forked / exec'd = {math.exp(fmean(logs)):.4f}, 90 % interval {low:.4f} to {high:.4f}, "
        f"n = {pairs}, launch-bound {sorted(map(str, bound))}: {'equivalent' if same else 'NOT SHOWN'} within 1 %"
    )


def mean_ms(result: Result) -> float:
    """Mean time of an iteration."""
    return fmean(result.times_ms("iteration"))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        arguments[0] if arguments else default_device(),
        int(arguments[1]) if len(arguments) > 1 else 20,
        (arguments[2],) if len(arguments) > 2 else tuple(CELLS),
    )
