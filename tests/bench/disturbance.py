"""Does gpubench disturb what it measures? One cell as it is, without telemetry, and beside a busy orchestrator.

    python -m tests.bench.disturbance [device] [rounds] [warm-up] [iterations] [model:precision:batch]

A round is a launch of each kind, in random order, compared with its plain launch (the GPU read at 10 Hz, the
orchestrator waiting). "busy": a thread of the orchestrator spins, all of a core where eight cells take 1 % of one, and
keeps the loop from its work. Equivalence is shown when the interval lies within 0.5 % of 1.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean, median
from typing import Final

import psutil

from orchestrator.config.run_configuration import Isolation
from protocol.cell import Cell
from protocol.messages import Sample
from protocol.result import Result
from tests.bench import cells
from tests.bench.harness import Harness, arguments, default_device, harness
from tests.bench.pairs import equivalence

MARGIN: Final = 0.005
PLAIN, SILENT, BUSY = KINDS = ("plain", "no telemetry", "busy")
CELL: Final = "bert-base:bf16:128"


def main(device: str, rounds: int, warm_up: str, iterations: str, name: str) -> None:
    stored, (cell,) = cells.inference(device, name, "-w", warm_up, "-i", iterations, "--profile", "standard")
    order = random.Random(1)
    found: dict[str, list[Result]] = {kind: [] for kind in KINDS}
    shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with harness(stored) as bench:
        bench.start_zygote()
        launch(bench, cell, PLAIN)  # the first launch brings files into the page cache
        for _ in range(rounds):
            for kind in order.sample(KINDS, len(KINDS)):
                result, share = launch(bench, cell, kind)
                found[kind].append(result)
                shares[kind].append(share)
            medians = (f"{kind} {median(results[-1].times_ms('iteration')):.4f}" for kind, results in found.items())
            print(f"  median iteration in ms: {', '.join(medians)}", flush=True)
        bench.telemetry(wanted=False)
        samples = bench.samples()
    bound = ", ".join(sorted({str(result.launch_bound) for results in found.values() for result in results}))
    print(f"{cells.short(cell)}, n = {rounds}, launch-bound: {bound}")
    for kind, results in found.items():
        read = [readings(result, samples) for result in results]
        words = f"the GPU was read {min(read)} to {max(read)} times while a launch measured"
        print(f"  {kind}: {words}, the orchestrator took {median(shares[kind]):.1%} of a core")
    for kind in (SILENT, BUSY):
        for called, figure in (("median", median), ("mean", fmean)):
            one, other = ([figure(result.times_ms("iteration")) for result in found[of]] for of in (kind, PLAIN))
            print(f"  {called} of the iterations: {equivalence(f'{kind} / plain', one, other, MARGIN)}")


def launch(bench: Harness, cell: Cell, kind: str) -> tuple[Result, float]:
    """One launch of a kind, and what share of a core this process took from its request to its end."""
    bench.telemetry(wanted=kind != SILENT)
    before = _cpu_s()
    with spinning(wanted=kind == BUSY):
        timed = bench.launch(cell, Isolation.FORK)
    return timed.result, (_cpu_s() - before) * 1e3 / timed.wall_ms


def _cpu_s() -> float:
    times = psutil.Process().cpu_times()
    return times.user + times.system


@contextmanager
def spinning(*, wanted: bool) -> Iterator[None]:
    """A thread that never waits, if wanted."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=spin)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if wanted:
            thread.join()


def readings(result: Result, samples: tuple[Sample, ...]) -> int:
    """How often the GPU was read in the measured blocks."""
    return sum(any(block.start_ns <= sample.at_ns <= block.end_ns for block in result.blocks) for sample in samples)


if __name__ == "__main__":
    main(*arguments(default_device(), 10, "60", "100", CELL))
