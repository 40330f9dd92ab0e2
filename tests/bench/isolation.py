"""Do forked and exec'd launches measure the same? Interleaved pairs, the ratio of their means with its 90 % interval.

    python -m tests.bench.isolation [device] [pairs] [launch-bound | gpu-bound]

Launch-bound: resnet50 at batch 1. GPU-bound: bert-base at batch 128. Equivalence is shown when the interval lies within
1 % of 1 (two one-sided tests at 5 %), for the mean and the 10th percentile of the iterations, and for mean and median
of the ratios: what else happens on a shared host only ever adds to a time.
"""

import random
from statistics import fmean

from orchestrator.config.run_configuration import Isolation
from protocol.cell import Cell
from tests.bench.harness import Harness, arguments, default_device, harness, stored_run
from tests.bench.pairs import equivalence

MARGIN = 0.01
RATIO = "forked / exec'd"
CELLS = {"launch-bound": ("resnet50", 1), "gpu-bound": ("bert-base", 128)}
OPTIONS = ("-m", "resnet50,bert-base", "-b", "1,128", "-p", "bf16", "--phases", "inference", "-w", "20", "-i", "100")


def main(device: str, pairs: int, kind: str | None) -> None:
    stored = stored_run(device, *OPTIONS)
    cells = {(cell.model, cell.batch_size): cell for cell in stored.plan.cells}
    with harness(stored) as bench:
        bench.start_zygote()
        for one in [kind] if kind else CELLS:
            compare(bench, cells[CELLS[one]], pairs)


def compare(bench: Harness, cell: Cell, pairs: int) -> None:
    """Pairs of launches in random order; prints each pair and the equivalence."""
    order = random.Random(1)
    times: dict[Isolation, list[list[float]]] = {isolation: [] for isolation in Isolation}
    bound = set()
    for _ in range(pairs):
        both = list(Isolation)
        order.shuffle(both)
        for isolation in both:
            result = bench.launch(cell, isolation).result
            times[isolation].append(result.times_ms("iteration"))
            bound.add(str(result.launch_bound))
        words = (f"{isolation} {fmean(found[-1]):.4f} / {low(found[-1]):.4f}" for isolation, found in times.items())
        print(f"  {cell.model} b{cell.batch_size}, mean / 10th percentile in ms: {', '.join(words)}", flush=True)
    print(f"{cell.id}, n = {pairs}, launch-bound: {', '.join(sorted(bound))}")
    for name, figure in (("mean", fmean), ("10th percentile", low)):
        forked, executed = (list(map(figure, times[isolation])) for isolation in Isolation)
        print(f"  {name}: {equivalence(RATIO, forked, executed, MARGIN)}")


def low(times_ms: list[float]) -> float:
    return sorted(times_ms)[len(times_ms) // 10]


if __name__ == "__main__":
    main(*arguments(default_device(), 20, None))
