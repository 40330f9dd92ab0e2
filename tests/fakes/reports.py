"""Reports of every kind of run, made of folders that never ran, and the same with other figures in every place."""

import functools
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.figures.cells import Status
from orchestrator.figures.launch_samples import LaunchSamples, Samples, Series
from orchestrator.figures.report import Report
from orchestrator.report.as_json import to_json
from orchestrator.report.lines import lines
from protocol.cell import AUTO, Workload
from protocol.failure import Category
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.runs import FakeRun, gpus, shipped

EVERY: Final = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
PHASES: Final = {"inference_metrics": "inference", "training_metrics": "training", "generation_metrics": "generation"}
"""By the name in JSON."""
MAIN: Final = {
    "load": ("model_load_time_ms",),
    "inference": ("throughput_samples_per_sec",),
    "training": ("throughput_samples_per_sec",),
    "generation": ("tokens_per_second",),
    "probe": ("sustained_tflops", "copy_gb_per_sec", "transfer_gb_per_sec"),
}
"""What cells are compared by: the first figure that is known."""
_WORK: Final[dict[str, dict[str, Any]]] = {
    "hbm": {"bytes_per_iteration": {"copy": 10**9, "triad": 10**9}},
    "gemm": {"flops_per_iteration": 1e12},
}
"""Of an iteration of each probe."""
_REASONS: Final = ("", "a | b `c` <d>\n=e", "\x1b[31mx")


def measured_run(folder: Path) -> FakeRun:
    """Two models that do everything and two probes on two GPUs, every seventh cell failed; two launches of the rest."""
    run = FakeRun(
        folder,
        devices=gpus(2),
        models=shipped("gpt2", "resnet50"),
        probes=shipped("hbm", "gemm"),
        workloads=EVERY,
        batch_sizes=(1, 8),
        launches=2,
    )
    for place, cell in enumerate(run.stored.plan.cells):
        if place % 7 == 3:
            run.failed(cell, Category.CRASHED, message="killed by SIGSEGV")
            continue
        for launch in range(2):
            work = _WORK.get(cell.model, {})
            run.measured(cell, number=launch, forward_ms=10 + place + launch / 10, **work)
    run.samples()
    run.finish()
    return run


def scanned_run(folder: Path) -> FakeRun:
    """Scans for the batch size on two GPUs: curves of three sizes and one that does not fit, and one without any."""
    run = FakeRun(folder, devices=gpus(2), batch_sizes=(AUTO,), workloads=EVERY[:3])
    for place, cell in enumerate(run.stored.plan.cells):
        if cell.batch_size != AUTO:
            run.measured(cell)
        elif place == 1:
            run.failed(cell, batch_size=1, message="boom")
        else:
            for batch_size, forward_ms in ((1, 4.0), (2, 5.0), (4, 16.0)):
                run.measured(cell, batch_size=batch_size, forward_ms=forward_ms + place)
            run.failed(cell, Category.OUT_OF_MEMORY, batch_size=5, message="CUDA out of memory")
    run.finish()
    return run


def burnt_in_run(folder: Path) -> FakeRun:
    burn_in_run = FakeBurnIn(folder, gpus(2), "10m")
    burn_in_run.work()
    burn_in_run.well()
    burn_in_run.finish()
    return burn_in_run


@functools.cache
def measured() -> Report:
    return _report(measured_run)


@functools.cache
def scanned() -> Report:
    return _report(scanned_run)


def _report(make: Callable[[Path], FakeRun]) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return make(Path(folder) / "run").report()


def launches_of(report: Report) -> Samples:
    """The launches that a report knows, without the times of their iterations: for reports whose run never was."""
    known = {line.entry.cell: line for line in lines(report)}

    def of_cell(cell: str) -> Iterator[LaunchSamples]:
        metric = known[cell].metric
        for launch, value in enumerate(() if metric is None else metric.launch_values):
            once = (Series("iteration", (value,), 1, None),)
            yield LaunchSamples(launch, launch, 1, ("GPU-1",), "", once, value, 40)

    return of_cell


def changed(report: Report, seed: int) -> Report:
    """The report with other figures, statuses and messages; some figures are not known."""
    chance = random.Random(seed)
    made = json.loads(to_json(report))
    by_id = {entry["cell"]: entry for entry in made["cells"]}
    for entry in made["cells"]:
        entry["status"], entry["reason"] = chance.choice([str(one) for one in Status]), chance.choice(_REASONS)
    metrics = [result["load_metrics"] for result in made["results"] if result["load_metrics"]]
    metrics += [metric for result in made["results"] for name in PHASES for metric in result[name].values()]
    for metric in (*metrics, *made["probes"]):
        _change(metric, chance)
        workload = by_id[metric["cell"]]["workload"]
        main = next((name for name in MAIN[workload] if metric[name] is not None), MAIN[workload][0])
        value = metric[main]
        metric["launch_values"] = [] if value is None else [value * factor for factor in (0.9, 1.0, 1.2)]
    for point in (point for scan in made["batch_scans"] for point in scan["points"]):
        _change(point, chance)
    for told in (*metrics, *made["probes"], *made["batch_scans"]):
        told["status"], told["reason"] = by_id[told["cell"]]["status"], by_id[told["cell"]]["reason"]
    kept = chance.sample(made["failures"], chance.randrange(len(made["failures"]) + 1))
    made["failures"] = kept * chance.choice([1, 30])
    made["verdict"]["word"] = chance.choice(["complete", "incomplete", "a hardware verdict FAIL"])
    return msgspec.convert(made, Report)


def _change(figures: dict[str, Any], chance: random.Random) -> None:
    figures |= {
        name: chance.choice([None, 10 ** chance.uniform(-4, 5)])
        for name, value in figures.items()
        if isinstance(value, float) and name != "relative_half_width"
    }
