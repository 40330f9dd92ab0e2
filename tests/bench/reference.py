"""Do our medians agree with those of independent benchmarks? Each in a fresh process, in turns, in random order.

    python -m tests.bench.reference [device] [rounds] [warm-up] [iterations] [model:precision:batch,…]

Three others (tests/bench/peers.py) with the same model, weights, inputs, switches and warm-up; ratios within a round.

do_bench    events around each call, and before each a write of 256 MB that empties the L2 cache: 25 µs in 10 ms
bare loop   the same without the write: the like of what we do
Timer       the host's clock around all calls: a mean, compared with our mean. Where power is the limit it differs from
            the median: of 40 passes of vit-base in bf16 the last ten took 14.1 ms, the others 12.4 [H200].

Cells count that take 5 ms or more and in which the GPU is the limit; on a CPU device (host loop, Timer) none does.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean, median
from typing import IO, Final

import msgspec

from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.plan import preload
from orchestrator.system import process_start
from protocol.cell import Cell
from protocol.result import Result
from tests.bench import cells
from tests.bench.harness import arguments, default_device, harness
from tests.bench.questions import METHODS, Answer, Opening, Question

LEAST_MS: Final = 5.0
MARGIN: Final = 0.01
OURS: Final = "gpubench"
OUR_MEAN: Final = "its mean"
MEANS: Final = frozenset({"Timer"})
"""Those that give a mean."""
CELLS: Final = (
    "bert-base:fp32:32,bert-base:bf16:128,resnet50:fp32:64,resnet50:bf16:256,"
    "gpt2:fp32:8,gpt2:bf16:64,vit-base:fp32:16,vit-base:bf16:128"
)
"""10 to 25 ms each on an H200, estimated by their operations: a slow host takes 4 to 10 ms to enqueue a pass."""


class Peers:
    """The process that answers for the other benchmarks. lengths: iterations of warm-up, and of measuring."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes], stored: StoredRun, lengths: tuple[int, int]) -> None:
        self._questions, self._answers = questions, answers
        self._models = stored.configuration.by_name
        self._device = stored.devices[0]
        self._lengths = lengths
        self._say(Opening(preload.modules(stored, stored.plan.cells)))

    def time_ms(self, cell: Cell, method: str) -> float | None:
        """What a method says of a cell, a median or a mean; None where it failed."""
        model, device = self._models[cell.model], self._device
        self._say(Question(method, cell, model, device.kind, device.cpus, *self._lengths))
        line = self._answers.readline()
        if not line:
            raise SystemExit("the process of the other benchmarks has ended; what it said is above")
        return msgspec.json.decode(line, type=Answer).ms

    def _say(self, line: Opening | Question) -> None:
        self._questions.write(msgspec.json.encode(line) + b"\n")
        self._questions.flush()


@contextmanager
def answering(stored: StoredRun, lengths: tuple[int, int]) -> Iterator[Peers]:
    command = [sys.executable, "-m", "tests.bench.peers"]
    environment = {**os.environ, **process_start.ONE_THREAD}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        yield Peers(process.stdin, process.stdout, stored, lengths)


def main(device: str, rounds: int, warm_up: int, iterations: int, names: str) -> None:
    lengths = warm_up, iterations
    fixed = ("-w", str(warm_up), "-i", str(iterations))
    stored, chosen = cells.inference(device, names, *fixed, "--profile", "standard")
    methods = (OURS, *METHODS[stored.devices[0].kind])
    order = random.Random(1)
    found: dict[str, list[dict[str, float | None]]] = {cell.id: [] for cell in chosen}
    bound: dict[str, set[bool | None]] = {cell.id: set() for cell in chosen}
    with harness(stored) as bench, answering(stored, lengths) as others:
        bench.start_zygote()

        def ours_ms(cell: Cell) -> dict[str, float]:
            result: Result = bench.launch(cell, Isolation.FORK).result
            bound[cell.id].add(result.launch_bound)
            times_ms = result.times_ms("iteration")
            return {OURS: median(times_ms), OUR_MEAN: fmean(times_ms)}

        for _ in range(rounds):
            for cell in order.sample(chosen, len(chosen)):
                times_ms: dict[str, float | None] = {}
                for method in order.sample(methods, len(methods)):
                    times_ms |= ours_ms(cell) if method == OURS else {method: others.time_ms(cell, method)}
                found[cell.id].append(times_ms)
                words = ", ".join(f"{method} {_number(ms)}" for method, ms in times_ms.items())
                print(f"  {cells.short(cell)}, ms: {words}", flush=True)
    for cell in chosen:
        report(cell, found[cell.id], methods[1:], bound[cell.id])


def _number(value: float | None) -> str:
    return "failed" if value is None else f"{value:.4f}"


def report(
    cell: Cell, rounds: list[dict[str, float | None]], methods: tuple[str, ...], bound: set[bool | None]
) -> None:
    """Ours against each method: median of the rounds' ratios, smallest and largest, and whether within the margin."""
    ours_ms = median(ms for one in rounds if (ms := one[OURS]) is not None)
    reasons = {"launch-bound": True in bound, "a CPU device": None in bound, "below 5 ms": ours_ms < LEAST_MS}
    why = ", ".join(reason for reason, holds in reasons.items() if holds)
    print(f"{cells.short(cell)}: {ours_ms:.3f} ms{f' (does not count: {why})' if why else ''}")
    for method in methods:
        ratios = [
            ours / other
            for one in rounds
            if (ours := one[OUR_MEAN if method in MEANS else OURS]) is not None and (other := one[method]) is not None
        ]
        print(f"  ours / {method}: {within(ratios) if ratios else 'it failed'}")


def within(ratios: list[float]) -> str:
    middle, furthest = median(ratios), max(abs(ratio - 1) for ratio in ratios)
    shown = "all within 1 %" if furthest < MARGIN else "the median within 1 %, not all"
    words = shown if abs(middle - 1) < MARGIN else "NOT within 1 %"
    return f"{middle:.4f} ({min(ratios):.4f} to {max(ratios):.4f}, n = {len(ratios)}), {words}"


if __name__ == "__main__":
    main(*arguments(default_device(), 3, 40, 40, CELLS))
