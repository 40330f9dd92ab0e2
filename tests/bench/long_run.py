"""Does a long run stay flat? A real orchestrator over so many cells that return at once, watched from outside.

    python -m tests.bench.long_run [cells]

Four CPU devices, 100 batch sizes a model, no torch. Prints where it stood at 10, 50 and 100 % of the cells, what each
1,000 further cells added, and the peak while the report is made.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from protocol.paths import RunPaths
from tests.bench.harness import arguments
from tests.fakes import faults
from tests.fakes.node import ROOT, name_of

DEVICES: Final = 4
SIZES: Final = 100
LOOK_EVERY_S: Final = 0.2
MARKS: Final = (0.1, 0.5, 1.0)
_MIB: Final = 2**20
_END: Final = b"\xa4type\xa3End"
"""How the journal's record of an ended launch begins, in MessagePack."""


@dataclass(frozen=True)
class Look:
    """One moment of orchestrator and zygote. at_s: monotonic; cpu_s: so far; peak: most ever resident."""

    at_s: float
    cells: int
    resident: int
    peak: int
    descriptors: int
    threads: int
    cpu_s: float
    zygote_resident: int
    zygote_descriptors: int


def main(cells: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gpubench-bench-") as name:
        folder = Path(name) / "run"
        models = max(1, round(cells / (DEVICES * SIZES)))
        sizes = tuple(range(1, SIZES + 1))
        stored = faults.prepare(
            folder, *(faults.model(f"model{number}") for number in range(models)), devices=DEVICES, batch_sizes=sizes
        )
        planned = len(stored.plan.cells)
        print(f"{planned:,} cells on {DEVICES} devices", flush=True)
        begin = time.monotonic()
        looks, sizes_on_disk, code = follow(folder, planned)
        print(f"over after {time.monotonic() - begin:.0f} s with exit code {code}", flush=True)
        if code != 0:
            raise SystemExit((folder.parent / "output").read_text()[-2000:])
        show(looks, sizes_on_disk, planned, begin)


def follow(folder: Path, planned: int) -> tuple[list[Look], dict[float, int], int]:
    """Run it to its end. What was seen, the bytes in the run's folder at each mark, and the exit code."""
    command = [sys.executable, "-m", "orchestrator", "resume", str(folder)]
    looks: list[Look] = []
    on_disk: dict[float, int] = {}
    with (folder.parent / "output").open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        seen = psutil.Process(process.pid)
        ended = counted(RunPaths(folder).journal)
        while process.poll() is None:
            number = next(ended)
            try:
                looks.append(look(seen, number))
            except psutil.Error:
                continue  # it is ending just now
            for mark in MARKS:
                if mark not in on_disk and number >= mark * planned:
                    on_disk[mark] = bytes_in(folder)
            time.sleep(LOOK_EVERY_S)
    return looks, on_disk, process.returncode


def counted(journal: Path) -> Iterator[int]:
    """How many launches have ended, as the journal grows; each byte is read once."""
    number, offset, rest = 0, 0, b""
    while True:
        if journal.exists():
            with journal.open("rb") as file:
                file.seek(offset)
                data = rest + file.read()
                offset = file.tell()
            number += data.count(_END)
            rest = data[1 - len(_END) :]
        yield number


def look(process: psutil.Process, cells: int) -> Look:
    with process.oneshot():
        times = process.cpu_times()
        zygotes = [child for child in process.children() if name_of(child) == "gpubench-zygote"]
        zygote = min(zygotes, key=lambda child: child.create_time(), default=None)
        status = Path(f"/proc/{process.pid}/status")
        peak_kb = next((line.split()[1] for line in lines(status) if line.startswith("VmHWM:")), "0")
        return Look(
            at_s=time.monotonic(),
            cells=cells,
            resident=process.memory_info().rss,
            peak=int(peak_kb) * 1024,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            cpu_s=times.user + times.system,
            zygote_resident=0 if zygote is None else zygote.memory_info().rss,
            zygote_descriptors=0 if zygote is None else zygote.num_fds(),
        )


def lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def show(looks: list[Look], on_disk: dict[float, int], planned: int, begin: float) -> None:
    """A line for each mark, the slope between the first and the last, and the report."""
    first = next(one for one in looks if one.cells)
    print(f"first cell ended after {first.at_s - begin:.1f} s, {first.resident / _MIB:.1f} MiB resident")
    marked: list[Look] = []
    previous = first
    working = [one for one in looks if one.zygote_descriptors]  # it ends with the last cell
    for mark in MARKS:
        here = next((one for one in working if one.cells >= mark * planned), working[-1])
        wall_s = max(here.at_s - previous.at_s, LOOK_EVERY_S)
        cells, cpu_s = max(here.cells - previous.cells, 1), here.cpu_s - previous.cpu_s
        print(
            f"{mark:4.0%}: {here.resident / _MIB:.1f} MiB, {here.descriptors} descriptors, {here.threads} threads, "
            f"since the line before {cells / wall_s:.1f} cells/s and {cpu_s / cells * 1e3:.2f} ms of CPU a cell, "
            f"{cpu_s / wall_s:.0%} of a core; "
            f"{on_disk.get(mark, 0) / max(here.cells, 1) / 1024:.1f} KiB of disk a cell; "
            f"zygote {here.zygote_resident / _MIB:.1f} MiB, {here.zygote_descriptors} descriptors"
        )
        marked.append(here)
        previous = here
    low, high = marked[0], marked[-1]
    thousands = max(high.cells - low.cells, 1) / 1000
    print(
        f"each 1,000 cells more: {(high.resident - low.resident) / 1024 / thousands:+.0f} KiB resident, "
        f"{(high.descriptors - low.descriptors) / thousands:+.2f} descriptors, "
        f"{(high.threads - low.threads) / thousands:+.2f} threads; "
        f"zygote {(high.zygote_resident - low.zygote_resident) / 1024 / thousands:+.0f} KiB"
    )
    last = looks[-1]
    print(
        f"the report: {last.at_s - high.at_s:.1f} s, {last.cpu_s - high.cpu_s:.1f} s of a core, "
        f"peak {last.peak / _MIB:.1f} MiB (before it {high.peak / _MIB:.1f})"
    )


if __name__ == "__main__":
    main(*arguments(20_000))
