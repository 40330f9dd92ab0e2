"""Whether `gate --ab` finds twice the work beside other work, and never calls an unchanged model slower.

    python -m tests.bench.gate Twice 20
    python -m tests.bench.gate Same 20 --time-limit 1m

A small network on a CPU device, beside a process that computes all the time. Each gate is a command of its own.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MODEL: Final = """
import torch

class Old(torch.nn.Module):
    layers = 4

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(self.layers)))

    def forward(self, x):
        return self.net(x)

    def get_example_inputs(self, batch_size):
        return torch.randn(batch_size, 512)

class Same(Old):
    pass

class Twice(Old):
    layers = 8
"""
OPTIONS: Final = ("--gpu-ids", "cpu:0", "--phases", "inference", "-b", "64", "--allow-code", "--no-history", "--quiet")


def gates(folder: Path, second: str, times: int, options: list[str]) -> Counter[int]:
    """Compare Old with `second` so often; return how often each exit code came."""
    codes: Counter[int] = Counter()
    for number in range(times):
        began = time.monotonic()
        words = ("gate", "--ab", "net.py:Old", f"net.py:{second}", *OPTIONS, *options)
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=folder,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
            check=False,
            capture_output=True,
            text=True,
        )
        codes[done.returncode] += 1
        print(f"{second} {number + 1}: exit code {done.returncode}, {time.monotonic() - began:.0f} s", flush=True)
        if done.returncode not in (0, 1, 4):
            print(done.stdout, done.stderr, flush=True)
    return codes


def main(second: str, times: int, options: list[str]) -> None:
    """Print the exit codes of gates beside a process that computes."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: sum(range(100_000))"])
    try:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "net.py").write_text(MODEL)
            codes = gates(Path(place), second, times, options)
    finally:
        busy.terminate()
        busy.wait()
    print(f"{second}: {codes[1]} of {times} SLOWER, {codes[0]} passed, {codes[4]} undecided")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
