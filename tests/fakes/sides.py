"""Sides of a comparison that nobody measured: a GPU and cells with a rate for every launch; or a fake run."""

import random
from pathlib import Path

import msgspec

from orchestrator import report as reports
from orchestrator.compare.run_figures import VERSION, Side, SideCell, SideDevice
from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.cells import Status
from orchestrator.figures.keys import CellKey
from protocol.cell import Workload
from tests.fakes.runs import FakeRun, shipped

EVERY = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
STACK = {"driver": "570.86", "torch": "2.11.0", "host": "node-01"}


def device(number: int = 0, **changes: object) -> SideDevice:
    made = SideDevice(
        gpu_uuid=f"GPU-{number}",
        label=f"GPU {number}",
        gpu_name="NVIDIA H200",
        kind="cuda",
        memory_mb=143_771.0,
        power_limit_w=700.0,
        stack={"VBIOS": "96.00"},
    )
    return msgspec.structs.replace(made, **changes)


def cell(name: str = "resnet50", *values: float, phase: Workload = Workload.INFERENCE, **changes: object) -> SideCell:
    """A cell of that model at batch 8. changes: of the cell, or of its key."""
    key = CellKey(
        phase=phase,
        model_name=name,
        precision="bf16",
        mode="loaded",
        compile_mode="none",
        input_size=224,
        memory_format="channels_last",
        new_tokens=None,
        batch_size=8,
    )
    of_key = {field: changes.pop(field) for field in key.__struct_fields__ if field in changes}
    made = SideCell(
        gpu_uuid="GPU-0",
        key=msgspec.structs.replace(key, **of_key),
        metric="model_load_time_ms" if phase is Workload.LOAD else "throughput_samples_per_sec",
        values=values or (100.0, 100.3, 99.8),
        status=Status.OK,
        ran_at=8,
        parameters=25_557_032,
        steady=True,
        throttled=False,
        contaminated=False,
        power_capped=False,
        host_bound=False,
    )
    return msgspec.structs.replace(made, **changes)


def cells(count: int, *, speed: float = 1.0, seed: int = 1, launches: int = 3, noise: float = 0.003) -> list[SideCell]:
    """Cells of as many models, whose launches repeat to `noise`."""
    chance = random.Random(seed)
    return [
        cell(f"model-{number}", *(100 * speed * (1 + chance.gauss(0, noise)) for _ in range(launches)))
        for number in range(count)
    ]


def side(*of_cells: SideCell, name: str = "before", devices: tuple[SideDevice, ...] = (), **changes: object) -> Side:
    made = Side(
        baseline_version=None,
        name=name,
        run_id="20260401-213000-1f2e3d",
        test_date="2026-04-01T21:30:00Z",
        profile="standard",
        stack=STACK,
        devices=devices or (device(),),
        cells=of_cells or (cell(),),
    )
    return msgspec.structs.replace(made, **changes)


def baseline(*of_cells: SideCell, devices: tuple[SideDevice, ...] = (), **changes: object) -> Side:
    own = {"name": "base", "run_id": "20260101-000000-000000", **changes}
    return side(*of_cells, devices=devices, **{"baseline_version": VERSION, **own})  # type: ignore[arg-type]  # mypy holds every value of **changes against `name`, which is text


def measured(folder: Path, *, launches: int = 2, forward_ms: float = 10.0) -> FakeRun:
    """A run that is over, with its report, of a model that does everything, and a probe."""
    run = FakeRun(
        folder, models=shipped("gpt2"), probes=shipped("hbm"), workloads=EVERY, batch_sizes=(1,), launches=launches
    )
    for cell in run.stored.plan.cells:
        for number in range(launches):
            moved = {"copy": 10**9, "triad": 10**9, "iteration": 2 * 10**9} if cell.model == "hbm" else {}
            run.measured(cell, number=number, forward_ms=forward_ms, bytes_per_iteration=moved)
    run.finish()
    reports.write(run.report(), run.paths, [ReportFormat.JSON])
    return run
