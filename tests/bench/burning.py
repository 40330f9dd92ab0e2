"""What does verifying every product cost a burn-in? Its soak against a bare loop, and against gpu-burn, in turns.

    python -m tests.bench.burning [devices] [pairs] [duration] [gpu-burn's program]

A pair is ABBA: bare, soak, soak, bare; the first pair warms up and does not count. All devices do the same at once,
each from its own process. duration: as of `--burn-in`. The bare loop is that of tests/bench/probes.py. gpu-burn has
fp32, and tf32 with -tc; its rate is that between its first and last line, with results in 10 % of the memory. Rates of
soak are by the wall clock, gaps between blocks included. Power is the board's at 10 Hz, without the first quarter.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import fmean, median
from typing import Final, NamedTuple

from orchestrator.config.run_configuration import Isolation
from protocol.cell import Cell, DeviceKind, Precision, Workload
from tests.bench.harness import Harness, arguments, default_device, harness, stored_run
from tests.bench.probes import bare_loop

GPU_BURN: Final = {Precision.FP32: (), Precision.TF32: ("-tc",)}
MEMORY: Final = ("-m", "10%")
SECONDS: Final = 10
PROGRESS: Final = re.compile(r"proc'd: (\d+)")


class Segment(NamedTuple):
    """Products a second, and watts of the board; None where none can be read."""

    rate: float
    watts: float | None

    def __str__(self) -> str:
        return f"{self.rate:.2f} products/s" + (f" at {self.watts:.0f} W" if self.watts else "")


def main(devices: str, pairs: int, duration: str, program: str | None) -> None:
    stored = stored_run(devices, "--burn-in", duration, "--level", "standard")
    if len(stored.devices) > 1:
        command = [sys.executable, "-m", "tests.bench.burning"]
        rest = [str(pairs), duration, *([program] if program else [])]
        started = [subprocess.Popen([*command, device.uuid, *rest]) for device in stored.devices]
        sys.exit(max([process.wait() for process in started]))
    (device,) = stored.devices
    on_a_gpu = device.kind is DeviceKind.CUDA
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": device.uuid} if on_a_gpu else dict(os.environ)
    with ExitStack() as opened:
        power = opened.enter_context(closing(Power(device.uuid))) if on_a_gpu else None
        bare = opened.enter_context(bare_loop("cuda" if on_a_gpu else "cpu", environment))
        bench = opened.enter_context(harness(stored, telemetry=False))
        bench.start_zygote()
        for cell in stored.plan.cells:
            if cell.workload is not Workload.SOAK:
                continue
            soak = partial(soaked, bench, cell, power)
            what = f"{device.label} {cell.precision}"
            compare(f"{what} soak / bare loop", soak, partial(looped, bare, cell, power), pairs)
            if program is not None and cell.precision in GPU_BURN:
                burning = [program, *GPU_BURN[cell.precision], *MEMORY, str(SECONDS)]
                compare(f"{what} soak / gpu-burn", soak, partial(burned, burning, environment, power), pairs)


def compare(what: str, ours: Callable[[], Segment], other: Callable[[], Segment], pairs: int) -> None:
    """Both in turns; prints each pair, and the medians of the ratios of rates and of power."""
    rates, watts = [], []
    for pair in range(pairs + 1):
        before, first, second, after = other(), ours(), ours(), other()
        us, them = _mean(first, second), _mean(before, after)
        print(f"  {what}, pair {pair}: {us} / {them}", flush=True)
        if pair:
            rates.append(us.rate / them.rate)
            watts += [us.watts / them.watts] if us.watts and them.watts else []
    power = f", of their power {median(watts):.4f}" if watts else ""
    print(f"{what}: rate {median(rates):.4f} ({min(rates):.4f} to {max(rates):.4f}){power}, n = {len(rates)}")


def soaked(bench: Harness, cell: Cell, power: "Power | None") -> Segment:
    blocks = bench.launch(cell, Isolation.FORK).result.blocks
    begin, end = blocks[0].start_ns / 1e9, blocks[-1].end_ns / 1e9
    return Segment(sum(block.iterations for block in blocks) / (end - begin), _watts(power, begin, end))


def looped(bare: Callable[[str, int, str], float], cell: Cell, power: "Power | None") -> Segment:
    """The bare loop, of products as large."""
    begin = time.monotonic()
    milliseconds = bare("gemm", cell.input_size or 0, cell.precision)
    return Segment(1000 / milliseconds, _watts(power, begin, time.monotonic()))


def burned(command: Sequence[str], environment: Mapping[str, str], power: "Power | None") -> Segment:
    """gpu-burn on the visible GPU. Raises RuntimeError where it prints fewer than two lines of progress."""
    told: list[tuple[float, int]] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as burning:
        for line in burning.stdout:
            if found := PROGRESS.search(line):
                told.append((time.monotonic(), int(found[1])))
    if burning.returncode or len(told) < 2:
        raise RuntimeError(f"{command[0]}: exit code {burning.returncode}, {len(told)} lines of progress")
    (begin, first), (end, last) = told[0], told[-1]
    return Segment((last - first) / (end - begin), _watts(power, begin, end))


class Power:
    """Reads a GPU's power in the background, until it is closed."""

    def __init__(self, uuid: str) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml, self._handle = pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._read: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def between(self, begin: float, end: float) -> float | None:
        """Watts on average, of seconds of the monotonic clock, without the first quarter; None where none was read."""
        steady = begin + (end - begin) / 4
        found = [watts for when, watts in self._read if steady <= when <= end]
        return fmean(found) if found else None

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(0.1):
            fields = self._nvml.nvmlDeviceGetFieldValues(self._handle, [self._nvml.NVML_FI_DEV_POWER_INSTANT])
            self._read.append((time.monotonic(), fields[0].value.uiVal / 1000))


def _watts(power: Power | None, begin: float, end: float) -> float | None:
    return None if power is None else power.between(begin, end)


def _mean(one: Segment, other: Segment) -> Segment:
    known = [watts for watts in (one.watts, other.watts) if watts is not None]
    return Segment(fmean((one.rate, other.rate)), fmean(known) if known else None)


if __name__ == "__main__":
    main(*arguments(default_device(), 3, "10m", None))
