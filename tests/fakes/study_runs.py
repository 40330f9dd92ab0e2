"""Runs of a study that never ran: as tests/fakes/runs.py, each cell with the times that a test makes up."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from orchestrator.config import operator_runs
from orchestrator.config.own_code import Search
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.kinds.study import grid, kind, planning
from orchestrator.plan.operator_cells import operator_of
from protocol import floats
from protocol.cell import Cell, Device, OperatorSpec, Precision
from protocol.result import CallProfile, ShapeResult
from tests.fakes.results import MIB
from tests.fakes.runs import FakeRun, gpus

GRID = grid.Grid(
    name="mine",
    base=Path("/"),
    origin="mine",
    operations=("softmax",),
    sizes={"r": (64, 256), "c": (1000,)},
    implementations=("eager", "compiled", "jax"),
    precisions=(Precision.FP32,),
)


class StudyRun(FakeRun):
    """A run of softmax in two sizes, in eager, compiled and JAX."""

    def __init__(self, folder: Path, *, devices: Sequence[Device] = (), launches: int = 1, run_id: str = "") -> None:
        own_id = {"run_id": run_id} if run_id else {}
        super().__init__(folder, devices=devices or gpus(1), models=(), launches=launches, **own_id)

    def asked(self, configuration: Configuration) -> Configuration:
        entries = grid.entries(GRID, Search(GRID.base, (), allowed=False))
        own = msgspec.structs.replace(configuration, preset=kind.NAME)
        return operator_runs.configured(own, entries, study=GRID.name, fast=False)

    def planned(self, configuration: Configuration, devices: tuple[Device, ...]) -> Plan:
        return planning.make(configuration, devices)

    def operator(self, cell: Cell) -> OperatorSpec:
        return operator_of(self.stored.configuration.by_name[cell.model])

    def did(self, cell: Cell, device_ms: float, *, host_ms: float = 0.01, number: int = 0, **changes: object) -> None:
        """A launch that is right; JAX is not graphed. changes: of its shape."""
        spec = self.operator(cell)
        in_jax = spec.implementation == "jax"
        series = {"pure": device_ms, "host": host_ms, "real": host_ms + device_ms}
        compile_ms = None if spec.implementation == "eager" else 900.0 if number == 0 else 100.0
        (shape,) = spec.shapes[self.stored.devices[0].kind]
        made = ShapeResult(
            shape=shape.name,
            deviation=1e-6,
            series={name: floats.pack([time_ms] * 3) for name, time_ms in series.items()},
            graphed=not in_jax,
            profile=CallProfile(compile_ms=compile_ms, peak_bytes=512 * MIB),
        )
        shapes = (msgspec.structs.replace(made, **changes),)
        self.measured(cell, number=number, blocks=1, iterations=4, shapes=shapes)
