"""Plans with cells on several devices, and runs of them whose processes are real and connected by gloo."""

from pathlib import Path

import msgspec

from orchestrator.burn_in.plan import LINKS
from orchestrator.configuration.resolved import Plan, StoredRun
from orchestrator.disk import archive
from protocol.cell import Cell, Precision, Workload
from protocol.messages import Deadlines, Measurement
from protocol.paths import RunPaths
from tests.fakes import faults

DEADLINES = Deadlines(start=30, import_=60, build=30, warm_up=30, measure=4, finish=20)
LASTS_S = 2.0
MEASUREMENT = Measurement(
    relative_half_width=0.0,
    block_s=0.05,
    warm_up_cap_s=1,
    min_s=LASTS_S,
    max_s=LASTS_S,
    warm_up_iterations=1,
)


def gang(*devices: str, seed: int = 1, precision: Precision = Precision.FP32) -> Cell:
    """A cell of links on these devices."""
    return Cell(
        devices=devices,
        model=LINKS,
        workload=Workload.LINKS,
        precision=precision,
        batch_size=1,
        input_size=1,
        seed=seed,
    )


def prepare(folder: Path, devices: int) -> StoredRun:
    """Write a run ready for `resume`: on each device a cell, then all of them together, then another cell."""
    links = faults.model(LINKS)
    stored = faults.prepare(folder, faults.model("before"), faults.model("after"), devices=devices, deadlines=DEADLINES)
    together = gang(*(device.uuid for device in stored.devices))
    order = {}
    for device in stored.devices:
        before, after = sorted(stored.plan.order[device.uuid], key=lambda slot: not slot[0].startswith("before"))
        order[device.uuid] = (before, (together.id, 0), after)
    configuration = msgspec.structs.replace(
        stored.configuration, models=(*stored.configuration.models, links), measurement=MEASUREMENT
    )
    stored = msgspec.structs.replace(
        stored, configuration=configuration, plan=Plan(cells=(*stored.plan.cells, together), order=order)
    )
    archive.store(stored, RunPaths(folder))
    return stored
