"""How long and how much memory does the report of a very large run take? Real files, read, merged and rendered.

    python -m tests.bench.large_report [results] [--formats NAMES] [--profile] [--keep FOLDER]

Eight GPUs, all models in four precisions, made-up results, samples at 10 Hz, and nobody waits for the disk. Prints the
seconds and the peak of the memory, by format. samples.csv, 7 GiB, is made only where it is named.
"""

import argparse
import cProfile
import hashlib
import itertools
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orchestrator import report
from orchestrator.config import catalogue
from orchestrator.config.catalogue import is_probe
from orchestrator.config.report_formats import ReportFormat
from orchestrator.gpu.telemetry.samples import SampleFile
from orchestrator.run_reports import reporting
from orchestrator.store.journal_records import End, Left
from protocol import codec
from protocol.cell import Cell, Precision, Workload
from protocol.paths import RunPaths
from tests.fakes import runs
from tests.fakes.node import ROOT
from tests.fakes.results import result

GPUS: Final = 8
WORKLOADS: Final = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
SAMPLES_A_GPU: Final = 200_000
"""Five and a half hours at 10 Hz: 100,000 launches of a second and a half on eight GPUs."""
SAMPLE_NS: Final = 100_000_000
FORMATS: Final = tuple(kind for kind in ReportFormat if kind is not ReportFormat.SAMPLES)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("results", nargs="?", type=int, default=100_000)
    asked.add_argument("--formats", default=",".join(FORMATS))
    asked.add_argument("--profile", action="store_true")
    asked.add_argument("--keep", type=Path)
    asked.add_argument("--report", type=Path)
    given = asked.parse_args()
    if given.report is not None:
        measure(given.report, [ReportFormat(name) for name in given.formats.split(",")], profile=given.profile)
        return
    with tempfile.TemporaryDirectory(prefix="gpubench-bench-") as name:
        folder = given.keep or Path(name) / "run"
        if not folder.exists():
            begin = time.monotonic()
            print(f"{write(folder, given.results):,} results written in {time.monotonic() - begin:.0f} s", flush=True)
        options = ["--formats", given.formats, *(["--profile"] if given.profile else [])]
        subprocess.run(
            [sys.executable, "-m", "tests.bench.large_report", "--report", str(folder), *options], cwd=ROOT, check=True
        )


def write(folder: Path, wanted: int) -> int:
    """A run with so many results, or a few more, in `folder`. Returns how many."""
    os.fsync = os.fdatasync = lambda _: None  # what is measured is how files are read
    models = [model for model in catalogue.load().models if not is_probe(model)]
    asked = {"devices": runs.gpus(GPUS), "models": models, "workloads": WORKLOADS, "precisions": tuple(Precision)}
    asked["batch_sizes"] = 1, 8, 32
    with tempfile.TemporaryDirectory(prefix="gpubench-bench-") as name:
        cells = len(runs.FakeRun(Path(name) / "run", **asked).stored.plan.cells)
    run = runs.FakeRun(folder, **asked, launches=-(-wanted // cells))
    launches = run.stored.plan.launches
    print(f"{len(run.stored.plan.cells):,} cells, {launches:,} launches", flush=True)
    by_id = {cell.id: cell for cell in run.stored.plan.cells}
    written: dict[str, tuple[Path, str]] = {}
    in_turns = itertools.chain.from_iterable(zip(*run.stored.plan.order.values(), strict=True))
    for number, (cell, round_) in enumerate(in_turns):
        # Made-up time goes on for one launch after the other; eight GPUs share it.
        run.now_ns = 1_000 * runs.SECOND_NS + number * SAMPLES_A_GPU * SAMPLE_NS // launches
        launch(run, by_id[cell], round_, written)
    for device in run.stored.devices:
        samples(run, device.uuid)
    run.finish()
    return launches


def launch(run: runs.FakeRun, cell: Cell, number: int, written: dict[str, tuple[Path, str]]) -> None:
    """A good launch of a cell. All of one cell have the same file: reading it takes as long as reading another."""
    start = run._start(cell, cell.batch_size, number)
    path = run.paths.launch(cell.id, start.attempt).result
    path.parent.mkdir(parents=True)
    if cell.id in written:
        os.link(written[cell.id][0], path)
    else:
        made = result(cell, begin_ns=run.now_ns, forward_ms=2.0, blocks=5, iterations=20)
        path.write_bytes(data := codec.encode(made))
        written[cell.id] = path, hashlib.sha256(data).hexdigest()
    end_ns = run.now_ns + runs.SECOND_NS
    run._journal.append(End(launch=start.launch, at_ns=end_ns, result_sha256=written[cell.id][1]))
    run._journal.append(Left(launch=start.launch, exit_code=0, signal=None, teardown_ms=60.0))


def samples(run: runs.FakeRun, uuid: str) -> None:
    run.paths.telemetry.mkdir(exist_ok=True)
    file = SampleFile(run.paths.samples(uuid), run.boot_id)
    for first in range(0, SAMPLES_A_GPU, 1_000):
        file.append(
            [
                runs.sample(
                    1_000 * runs.SECOND_NS + number * SAMPLE_NS,
                    power_w=690 + number % 100 / 1000,
                    temperature_c=60 + number % 5,
                    sm_clock_mhz=1_500 + number % 50,
                    reasons=4,
                )
                for number in range(first, first + 1_000)
            ]
        )
    file.close()


def measure(folder: Path, formats: Sequence[ReportFormat], *, profile: bool) -> None:
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    begin = last = time.monotonic(), time.process_time()
    made = reporting.make_all(RunPaths(folder))
    last = step("read and merged", last)
    for kind in formats:
        size = sum(map(len, report.parts(made.report, kind, **made.given)))
        last = step(f"{kind}, {size / 2**20:.1f} MiB", last)
    step("all", begin)
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def step(words: str, since: tuple[float, float]) -> tuple[float, float]:
    """Print what it took since then, by the clock and of a core."""
    now = time.monotonic(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = f"{now[0] - since[0]:.1f} s, {now[1] - since[1]:.1f} s of a core"
    print(f"{words}: {took}, peak {peak:,.0f} MiB", flush=True)
    return now


if __name__ == "__main__":
    main()
