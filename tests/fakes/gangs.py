"""Plans with cells on several devices, and runs of them whose processes are real and connected by gloo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.config.run_configuration import Plan, StoredRun
from orchestrator.kinds.burn_in.planning import LINKS
from orchestrator.store import run_files
from protocol.cell import Cell, Precision, Workload
from protocol.messages import Deadlines, Measurement
from protocol.paths import RunPaths
from tests.fakes import faults

DEADLINES = Deadlines(start=30, import_=60, build=30, warm_up=30, measure=4, finish=20)
LASTS_S = 2.0
MEASUREMENT = Measurement(
    relative_half_width=0.0, block_s=0.05, warm_up_cap_s=1, min_s=LASTS_S, max_s=LASTS_S, warm_up_iterations=1
)


def gang(*devices: str, seed: int = 1, precision: Precision = Precision.FP32) -> Cell:
    return Cell(
        devices=devices,
        model=LINKS,
        workload=Workload.LINKS,
        precision=precision,
        batch_size=1,
        input_size=1,
        seed=seed,
    )


def added(stored: StoredRun, wanted: Mapping[str, Mapping[str, Any]]) -> StoredRun:
    """Add cells on several devices. wanted: model → `config` (faults.model) and numbers of its `devices`."""
    order = dict(stored.plan.order)
    models, cells = list(stored.configuration.models), list(stored.plan.cells)
    for number, (name, said) in enumerate(wanted.items()):
        devices = tuple(stored.devices[at].uuid for at in said["devices"])
        cell = msgspec.structs.replace(stored.plan.cells[0], model=name, devices=devices)
        models.append(faults.model(name, **said["config"]))
        cells.append(cell)
        for device in devices:  # among the others everywhere in the same order, or they would wait for each other
            alone = len(stored.plan.order[device])
            at = alone * (number + 1) // (len(wanted) + 1) + len(order[device]) - alone
            order[device] = (*order[device][:at], (cell.id, 0), *order[device][at:])
    configuration = msgspec.structs.replace(stored.configuration, models=tuple(models))
    return msgspec.structs.replace(stored, configuration=configuration, plan=Plan(cells=tuple(cells), order=order))


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
    run_files.store(stored, RunPaths(folder))
    return stored
