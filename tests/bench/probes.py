"""Are the probes right? Each against a bare torch loop of the same work in another process, in turns.

    python -m tests.bench.probes [device] [turns] [probes]

The loop knows nothing of gpubench: a fresh process each time, three seconds of warm-up and three between two readings
of the clock. In under a second, tf32 products went from 316 to 345 TFLOP/s by what power allowed [H200]. Where
nvbandwidth is on the path, its figures stand beside the transfers; version 0.8 counts the bytes of a copy on the device
once, we twice.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean, median
from typing import Final

from orchestrator.config.run_configuration import Isolation
from protocol.cell import Cell, DeviceKind
from protocol.result import Result
from tests.bench.harness import Harness, arguments, default_device, harness, stored_run

ALL: Final = "gemm,hbm,h2d,d2h"
OPTIONS: Final = ("-p", "fp32,tf32,fp16,bf16", "--profile", "standard", "--launches", "1")
ON_A_CPU: Final = ("-p", "fp32,bf16", "--profile", "quick")
NVBANDWIDTH: Final = {
    "h2d": ("host_to_device_memcpy_ce", 512),
    "d2h": ("device_to_host_memcpy_ce", 512),
    "copy": ("device_local_copy", 4096),
}
"""By our names: its test, and the MiB that it moves at once."""
BARE: Final = """
import json, os, sys, time
import torch

SECONDS = 3.0
device = sys.argv[1]
wait = torch.cuda.synchronize if device == "cuda" else lambda: None

def work(kind, size, dtype):
    def numbers(*shape):
        return torch.randn(*shape, device=device, dtype=dtype)
    if kind == "gemm":
        a, b, c = numbers(size, size), numbers(size, size), numbers(size, size)
        return lambda: torch.mm(a, b, out=c)
    count = size // dtype.itemsize
    a, b = numbers(count), numbers(count)
    c = numbers(count) if kind == "triad" else torch.empty(count, dtype=dtype, pin_memory=device == "cuda")
    return {
        "copy": lambda: a.copy_(b),
        "triad": lambda: torch.add(b, c, alpha=0.5, out=a),
        "h2d": lambda: a.copy_(c, non_blocking=True),
        "d2h": lambda: c.copy_(a, non_blocking=True),
    }[kind]

def seconds(step, number):
    wait()
    begin = time.perf_counter()
    for _ in range(number):
        step()
    wait()
    return time.perf_counter() - begin

def milliseconds(step):
    done, spent = 1, seconds(step, 1)
    while spent < SECONDS:
        done, spent = done + 10, spent + seconds(step, 10)
    number = max(int(SECONDS * done / spent), 3)
    return seconds(step, number) / number * 1e3

for line in sys.stdin:
    kind, size, precision = json.loads(line)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    if os.fork() == 0:
        print(milliseconds(work(kind, size, dtype)), flush=True)
        os._exit(0)
    os.wait()
"""
"""Reads what to do, a line each, and prints milliseconds an iteration."""


def main(device: str, turns: int, probes: str | None) -> None:
    on_a_cpu = device.startswith("cpu")
    probes = probes or ("gemm,hbm" if on_a_cpu else ALL)
    stored = stored_run(device, "-m", probes, *(ON_A_CPU if on_a_cpu else OPTIONS))
    assert len(stored.devices) == 1, "one device at a time"
    environment = os.environ if on_a_cpu else {**os.environ, "CUDA_VISIBLE_DEVICES": stored.devices[0].uuid}
    kind = "cpu" if stored.devices[0].kind is DeviceKind.CPU else "cuda"
    with harness(stored) as bench, bare_loop(kind, dict(environment)) as bare:
        bench.start_zygote()
        for cell in stored.plan.cells:
            compare(bench, cell, turns, bare)
    for name, found in nvbandwidth(dict(environment)).items():
        print(f"nvbandwidth {name}: {found:.1f} GB/s")


@contextmanager
def bare_loop(device: str, environment: dict[str, str]) -> Iterator[Callable[[str, int, str], float]]:
    """A process of the bare loop, asked by kind of work, size and precision: milliseconds an iteration."""
    command = [sys.executable, "-c", BARE, device]
    with subprocess.Popen(command, text=True, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bare:
        asks, answers = bare.stdin, bare.stdout

        def ask(kind: str, size: int, precision: str) -> float:
            asks.write(json.dumps([kind, size, precision]) + "\n")
            asks.flush()
            return float(answers.readline())

        yield ask
        asks.close()


def compare(bench: Harness, cell: Cell, turns: int, bare: Callable[[str, int, str], float]) -> None:
    ratios: dict[str, list[float]] = {}
    for _ in range(turns):
        result = bench.launch(cell, Isolation.FORK).result
        for kind, size, work, probe_ms in parts(result):
            bare_ms = bare(kind, size, cell.precision)
            ratios.setdefault(kind, []).append(bare_ms / probe_ms)
            unit = "TFLOP/s" if kind == "gemm" else "GB/s"
            scale = 1e9 if kind == "gemm" else 1e6
            rates = f"probe {work / probe_ms / scale:.2f} {unit}, bare loop {work / bare_ms / scale:.2f} {unit}"
            print(f"  {cell.model} {cell.precision} {kind} {size}: {rates}", flush=True)
    for kind, found in ratios.items():
        print(f"{cell.model} {cell.precision} {kind}: probe / bare loop {median(found):.4f}, n = {len(found)}")


def parts(result: Result) -> list[tuple[str, int, float, float]]:
    """What a probe measured: kind of work, its size, operations or bytes of an iteration, and its mean time in ms."""
    if result.flops_per_iteration is not None:
        side = round((result.flops_per_iteration / 2) ** (1 / 3))
        return [("gemm", side, result.flops_per_iteration, fmean(result.times_ms("iteration")))]
    found = []
    for series, moved in result.bytes_per_iteration.items():
        kind = result.cell.model if series == "iteration" else series
        size = moved // {"copy": 2, "triad": 3}.get(series, 1)
        found.append((kind, size, float(moved), fmean(result.times_ms(series))))
    return found


def nvbandwidth(environment: dict[str, str]) -> dict[str, float]:
    """Its figures by our names, in GB/s; none where it is not installed."""
    program = shutil.which("nvbandwidth")
    if program is None or "CUDA_VISIBLE_DEVICES" not in environment:
        return {}
    found = {}
    for name, (testcase, mib) in NVBANDWIDTH.items():
        command = [program, "-t", testcase, "-b", str(mib)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        sums = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith(f"SUM {testcase}")]
        found[name] = float(sums[-1])
    return found


if __name__ == "__main__":
    main(*arguments(default_device(), 5, None))
