"""How far do runs of the same command lie apart? So many of it, each in full, the medians of each cell side by side.

    python -m tests.bench.repeat [device] [runs] [options of `run`]

The probes gemm and hbm are compared like any cell. Only launches with steady times count: with `-w N` none does.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from orchestrator.state import archive
from protocol.paths import RunPaths
from protocol.result import Result, SteadyState
from tests.bench.harness import default_device
from tests.fakes.node import ROOT

MARGIN: Final = 0.01
OPTIONS: Final = (
    *("-m", "bert-base,resnet50", "-p", "bf16", "-b", "128", "--phases", "inference"),
    *("--profile", "quick", "--launches", "1"),
)


def main(device: str, runs: int, options: tuple[str, ...]) -> None:
    found: dict[str, list[Result]] = {}
    print(f"gpubench-orchestrate run --gpu-ids {device} {' '.join(options)}", flush=True)
    for number in range(runs):
        begin = time.monotonic()
        results = one_run(device, options)
        print(f"run {number + 1}, {time.monotonic() - begin:.1f} s", flush=True)
        for result in results:
            found.setdefault(result.cell.id, []).append(result)
            words = f"{median(result.times_ms('iteration')):.4f} ms, steady state: {result.warm_up.steady_state}"
            print(f"  {result.cell.id}: {words}", flush=True)
    for cell, results in found.items():
        print(f"{cell}: {spread(results)}")


def one_run(device: str, options: tuple[str, ...]) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="gpubench-bench-") as name:
        folder = Path(name)
        own = ("--runs-folder", str(folder / "runs"), "-o", str(folder / "report.json"), "--quiet")
        command = [sys.executable, "-m", "orchestrator", "run", "--gpu-ids", device, *options, *own]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        (run,) = (path.parent for path in (folder / "runs").glob("*/run.yaml"))
        kept = archive.load(RunPaths(run))
        return [kept.result(attempt) for attempt in kept.attempts if attempt.promised is not None]


def spread(results: list[Result]) -> str:
    """Of the medians of steady launches: largest less smallest as a share of the median, held against the margin."""
    steady = [result for result in results if result.warm_up.steady_state is SteadyState.REACHED]
    told = f"{len(steady)} of {len(results)} runs steady"
    if len(steady) < 2:
        return f"{told}: nothing to compare"
    medians_ms = [median(result.times_ms("iteration")) for result in steady]
    middle, least, most = median(medians_ms), min(medians_ms), max(medians_ms)
    bound = ", ".join(sorted({str(result.launch_bound) for result in steady}))
    share = (most - least) / middle
    return (
        f"median {middle:.4f} ms, runs / median {least / middle:.4f} to {most / middle:.4f}, spread {share:.2%} "
        f"({told}, launch-bound: {bound}): {'below' if share < MARGIN else 'NOT below'} 1 %"
    )


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        arguments[0] if arguments else default_device(),
        int(arguments[1]) if len(arguments) > 1 else 10,
        tuple(arguments[2:]) or OPTIONS,
    )
