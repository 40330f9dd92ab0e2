"""Do forked and exec'd launches of a launch-bound cell measure the same? Many of both at once, measured in turns.

    python -m tests.bench.turns [device] [launches of each kind] [turns] [crowds] [same | random]

    start all ─▶ each is stopped (SIGSTOP) when it begins to measure ─▶ turns, in random order: SIGCONT, 0.2 s, SIGSTOP

On a shared host single launches differ by a factor of two, by core and minute: all take turns on one core within
seconds. Of a launch counts the 10th percentile of its iterations: what disturbs only adds. The layout of addresses
makes a process faster or slower by percents for good: all have the same, and the same seed of hashes, unless `random`
is given, which takes hundreds of launches to average out. One launch in thirty, of either kind, is slower by 20 to 50
%: the verdict is by the median of all ratios of a forked and an exec'd launch (Hodges and Lehmann 1963), with its
interval by ranks. With more than 45 launches of each kind the contexts, 1.2 GiB each, fill the GPU.
"""

import ctypes
import math
import os
import random
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median, variance
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.engine.launches.fleet import Fleet
from orchestrator.engine.launches.live import Concluded, Happening, Live
from orchestrator.state.slots import NextLaunch
from protocol.cell import Cell, Workload
from protocol.failure import Phase
from protocol.result import Result
from tests.bench.harness import Harness, arguments, default_device, harness, stored_run

TURN_S: Final = 0.2
LISTENS_EVERY_S: Final = 0.01
MODEL: Final = "tests/bench/chain.py:Chain"
ITERATIONS_A_TURN: Final = 300
"""More than a turn has time for: a launch that measured faster would be done before it was stopped."""
NO_RANDOM_LAYOUT: Final = 0x0040000
"""ADDR_NO_RANDOMIZE of personality(2)."""
HOURS_S: Final = 36_000.0
Z_90: Final = 1.645


def main(device: str, launches: int, turns: int, crowds: int, layouts: str) -> None:
    if layouts == "same":
        ctypes.CDLL(None).personality(NO_RANDOM_LAYOUT)
        os.environ["PYTHONHASHSEED"] = "0"
    options = ("-m", MODEL, "--allow-code", "-b", "1", "-p", "bf16", "--phases", "inference", "-w", "20")
    stored = _patient(stored_run(device, *options, "-i", str(ITERATIONS_A_TURN * turns)))
    cell = next(cell for cell in stored.plan.cells if cell.workload is Workload.INFERENCE)
    lows_ms: dict[Isolation, list[float]] = {isolation: [] for isolation in Isolation}
    bound = set()
    for number in range(crowds):
        with ExitStack() as opened:
            benches = [opened.enter_context(harness(stored, telemetry=False)) for _ in range(launches)]
            crowd = Crowd(benches, random.Random(number))
            crowd.gather(cell)
            for isolation, results in crowd.take_turns().items():
                lows_ms[isolation] += [low(one, crowd.gathered_ns) for one in results]
                bound |= {str(one.launch_bound) for one in results}
        report(cell.id, lows_ms)
    print("launch-bound:", ", ".join(sorted(bound)))


def _patient(stored: StoredRun) -> StoredRun:
    """A launch that waits for its turn must not run into its deadline."""
    deadlines = msgspec.structs.replace(stored.configuration.deadlines, measure=HOURS_S, warm_up=HOURS_S)
    return msgspec.structs.replace(
        stored, configuration=msgspec.structs.replace(stored.configuration, deadlines=deadlines)
    )


class Crowd:
    """Launches of both kinds, all alive at once: in each harness one of each."""

    def __init__(self, benches: Sequence[Harness], chance: random.Random) -> None:
        self._benches = benches
        self._chance = chance
        self._core = min(os.sched_getaffinity(0))
        self._waiting: dict[int, tuple[Isolation, Live]] = {}
        self._results: dict[Isolation, list[Result]] = {isolation: [] for isolation in Isolation}
        self.gathered_ns = 0

    def gather(self, cell: Cell) -> None:
        """Start all, wait until each is about to measure, and stop it there."""
        for bench in self._benches:
            bench.nursery.start(time.monotonic())
        for bench in self._benches:
            bench.await_zygote()
            for number, isolation in enumerate(Isolation):
                following = NextLaunch(slot=(cell.id, 0), cell=cell, launch=number, attempt=number + 1)
                self._handle(bench, isolation, bench.fleets[isolation].request(following, time.monotonic()))
            self._hear_and_park(0.0)
        while len(self._waiting) < len(self._benches) * len(Isolation):
            self._hear_and_park(0.05)
        self.gathered_ns = time.monotonic_ns()
        print(f"{len(self._waiting)} launches wait for their turns", flush=True)

    def take_turns(self) -> dict[Isolation, list[Result]]:
        """Let them measure one after the other, again and again, until all have a result."""
        rounds = 0
        while self._waiting:
            pids = list(self._waiting)
            self._chance.shuffle(pids)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
                self._listen(TURN_S)
                if pid in self._waiting:
                    _stop(pid)
            rounds += 1
        print(f"{rounds} rounds", flush=True)
        return self._results

    def _hear_and_park(self, seconds: float) -> None:
        if self._listen(seconds):
            raise RuntimeError("a launch was done before it could be stopped; give it more turns")
        for bench in self._benches:
            for isolation, fleet in bench.fleets.items():
                self._park(isolation, fleet)

    def _park(self, isolation: Isolation, fleet: Fleet) -> None:
        for live in fleet.live.values():
            if live.pid is not None and live.pid not in self._waiting and live.launch.phase is Phase.MEASURE:
                _stop(live.pid)
                for thread in Path(f"/proc/{live.pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {self._core})
                self._waiting[live.pid] = (isolation, live)

    def _listen(self, seconds: float) -> bool:
        """Hear what there is to hear, for so long; less, and True, when a launch tells its outcome."""
        until = time.monotonic() + seconds
        while True:
            for bench in self._benches:
                for isolation, happening in bench.wait_for_any(0.0):
                    if self._handle(bench, isolation, [happening]):
                        return True
            if time.monotonic() >= until:
                return False
            time.sleep(LISTENS_EVERY_S)

    def _handle(self, bench: Harness, isolation: Isolation, happenings: Iterable[Happening]) -> bool:
        concluded = [one for one in happenings if isinstance(one, Concluded)]
        for happening in concluded:
            if not isinstance(happening.outcome, Result):
                raise RuntimeError(f"{isolation}: {happening.outcome}")
            self._results[isolation].append(happening.outcome)
            self._waiting.pop(happening.live.pid or 0, None)
            bench.fleets[isolation].acknowledge(happening.live, time.monotonic_ns())
        return bool(concluded)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


def low(result: Result, since_ns: int) -> float:
    """10th percentile, in ms, of the iterations in blocks that began after `since_ns`, when all others had started."""
    times, at = [], 0
    for block in result.blocks:
        if block.start_ns > since_ns:
            times += result.times_ms("iteration")[at : at + block.iterations]
        at += block.iterations
    return sorted(times)[len(times) // 10]


def report(cell: str, lows_ms: dict[Isolation, list[float]]) -> None:
    """The values, and forked / exec'd: by geometric means, and by the median of all ratios, which has the verdict."""
    forked, executed = lows_ms[Isolation.FORK], lows_ms[Isolation.EXEC]
    print(f"{cell}, {len(forked)} launches of each kind, 10th percentile of the iterations in ms")
    for isolation, values in lows_ms.items():
        print(f"  {isolation}: median {median(values):.4f}; {' '.join(f'{value:.4f}' for value in sorted(values))}")
    middle, lower, upper = ratio_of_means(forked, executed)
    print(f"  forked / exec'd, geometric means {middle:.4f}, 90 % interval {lower:.4f} to {upper:.4f}")
    middle, lower, upper = ratio_by_ranks(forked, executed)
    shown = "equivalent" if lower > 0.99 and upper < 1.01 else "NOT SHOWN"
    print(f"  forked / exec'd, by ranks {middle:.4f}, 90 % interval {lower:.4f} to {upper:.4f}: {shown} within 1 %")


def ratio_of_means(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    logs, other_logs = list(map(math.log, ones)), list(map(math.log, others))
    difference = fmean(logs) - fmean(other_logs)
    half = Z_90 * math.sqrt(variance(logs) / len(logs) + variance(other_logs) / len(other_logs))
    return math.exp(difference), math.exp(difference - half), math.exp(difference + half)


def ratio_by_ranks(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """Median of all ratios, and the 90 % interval of Mann and Whitney's test (Hollander, Wolfe and Chicken, 4.3)."""
    ratios = sorted(one / other for one in ones for other in others)
    spread = math.sqrt(len(ratios) * (len(ones) + len(others) + 1) / 12)
    outer = max(math.floor(len(ratios) / 2 - Z_90 * spread), 1)
    return median(ratios), ratios[outer - 1], ratios[-outer]


if __name__ == "__main__":
    main(*arguments(default_device(), 42, 6, 1, "same"))
