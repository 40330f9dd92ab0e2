"""`python -m tests.bench.orchestrator_load`: CPU and memory of the orchestrator with eight cells; start of commands."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from tests.fakes import faults
from tests.fakes.node import ROOT, Node

SECONDS = 20.0
STARTS = 7


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        load(Path(folder) / "run")
    bare = start(sys.executable, "-c", "pass")
    for words in (("--help",), ("info",), ("list-models",)):
        wall = start(sys.executable, "-m", "orchestrator", *words)
        print(f"{words[0]}: {wall:.3f} s, {wall / bare:.1f} times a bare interpreter ({bare:.3f} s)")


def load(folder: Path) -> None:
    """CPU time of the orchestrator's process between two moments in the middle of eight cells."""
    faults.prepare(folder, faults.model("sleep", seconds=SECONDS + 4), devices=8)
    node = Node(folder)
    node.until(lambda: len(node.children()) > 8)
    time.sleep(2)  # the launches have begun; from here on nothing happens but the seconds going by
    process = psutil.Process(node.process.pid)
    before, begin = process.cpu_times(), time.monotonic()
    time.sleep(SECONDS - 2)
    after, wall = process.cpu_times(), time.monotonic() - begin
    used = (after.user - before.user) + (after.system - before.system)
    print(f"eight cells running: {used / wall:.2%} of a core, {process.memory_info().rss / 2**20:.0f} MiB resident")
    node.wait()


def start(*command: str) -> float:
    times = []
    for _ in range(STARTS):
        begin = time.monotonic()
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, env={**os.environ})
        times.append(time.monotonic() - begin)
    return median(times)


if __name__ == "__main__":
    main()
