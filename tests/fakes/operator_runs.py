"""Runs of operators that never ran: as tests/fakes/runs.py, each cell with the shapes that a test makes up."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from orchestrator import TOOL_VERSION
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.run_configuration import Configuration, Plan, StoredRun
from orchestrator.figures.operators import TimeName
from orchestrator.kinds.ops import planning, settings
from orchestrator.store import run_files
from protocol import floats
from protocol.cell import Cell, Device, Precision, Workload
from protocol.paths import RunPaths
from protocol.result import ShapeResult
from tests.fakes.configurations import configuration, cpu
from tests.fakes.runs import FakeRun, gpus, shipped

SHAPES = ("small", "medium", "large")
_WORK: dict[str, dict[str, object]] = {
    "hbm": {"bytes_per_iteration": {"copy": 10**10, "triad": 10**10}},
    "gemm": {"flops_per_iteration": 1e12},
}
"""Of an iteration of each probe."""


def of_operators(
    configuration: Configuration, names: Sequence[str], implementations: Sequence[str], *, fast: bool = False
) -> Configuration:
    own = msgspec.structs.replace(configuration, preset=settings.NAME)
    return settings.with_operators(own, settings.chosen((), names), (), implementations, fast=fast)


def prepare(folder: Path, *names: str) -> StoredRun:
    """Write a real run of these operators in eager, ready for `gpubench-orchestrate resume`, on a CPU device."""
    folder.mkdir(parents=True)
    asked = configuration(
        probes=(),
        precisions=(Precision.FP32,),
        profile="quick",
        launches=1,
        gpu_ids="cpu:0",
        cache_folder=str(folder / "cache"),
        runs_folder=str(folder.parent),
        output_path=str(folder / "out" / "report.json"),
        formats=(ReportFormat.JSON, ReportFormat.HTML),
    )
    asked = of_operators(asked, names, (settings.EAGER,), fast=True)
    machines = (cpu(0),)
    stored = StoredRun(
        tool_version=TOOL_VERSION,
        run_id=folder.name,
        command=("a", "test"),
        configuration=asked,
        devices=machines,
        plan=planning.make(asked, machines),
    )
    run_files.store(stored, RunPaths(folder))
    return stored


class OperatorRun(FakeRun):
    """A run of these operators, in eager and compiled, with the probes of the roofs."""

    def __init__(
        self, folder: Path, *names: str, devices: Sequence[Device] = (), launches: int = 1, run_id: str = ""
    ) -> None:
        self._names = names
        own_id = {"run_id": run_id} if run_id else {}
        super().__init__(
            folder,
            devices=devices or gpus(1),
            models=(),
            probes=shipped("hbm", "gemm"),
            launches=launches,
            **own_id,
        )

    def asked(self, configuration: Configuration) -> Configuration:
        return of_operators(configuration, self._names, settings.IMPLEMENTATIONS)

    def planned(self, configuration: Configuration, devices: tuple[Device, ...]) -> Plan:
        return planning.make(configuration, devices)

    @property
    def operators(self) -> list[Cell]:
        return [cell for cell in self.stored.plan.cells if cell.workload is Workload.OPERATOR]

    def probed(self) -> None:
        """All launches of the probes."""
        for number in range(self.stored.configuration.launches):
            for cell in self.stored.plan.cells:
                if cell.workload is Workload.PROBE:
                    self.measured(cell, number=number, **_WORK[cell.model])

    def did(self, cell: Cell, *shapes: ShapeResult, number: int = 0) -> None:
        """A launch of an operator with these shapes."""
        self.measured(cell, number=number, blocks=1, iterations=4, shapes=shapes)


def right(shape: str, pure_ms: float, calls: int = 3) -> ShapeResult:
    """A shape that is right: its calls take `pure_ms` on the device, and with the host twice as long."""
    factors = zip(TimeName, (1, 2, 3, 6), strict=True)
    series = {name.value: floats.pack([pure_ms * factor] * calls) for name, factor in factors}
    return ShapeResult(shape=shape, deviation=1e-6, series=series, graphed=True)


def failing(shape: str) -> ShapeResult:
    """A shape that ends with an error."""
    return ShapeResult(shape=shape, error="AcceleratorError: CUDA error: device-side assert triggered")


def wrong(shape: str) -> ShapeResult:
    """A shape with another result than the reference."""
    return ShapeResult(shape=shape, wrong="values deviate by 0.5, allowed 2e-05", deviation=0.5)
