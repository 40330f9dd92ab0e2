"""Modules to import before a measurement: by the process that forks workers, or by a new interpreter for each cell.

They are imported before the worker connects to the orchestrator, and so before its first thread. Later imports change
memory addresses, which changed the times of launch-bound cells by some percent (docs/measurements-reference.md).
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.config.run_configuration import StoredRun
from orchestrator.config.workloads import WORKLOADS
from protocol.cell import Cell, DeviceKind

_TRITON: Final = "worker.verify.triton_ahead"
_FOR_COMPILING: Final = "worker.inductor_ahead"


def modules(stored: StoredRun, cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return the modules to import before `cells` are measured: ("worker.workloads.load", …)."""
    measured = tuple(cells)
    by_name = stored.configuration.by_name
    named = [f"worker.workloads.{cell.workload}" for cell in measured]
    for model in (by_name[cell.model] for cell in measured if WORKLOADS[cell.workload].has_model):
        named += [f"worker.models.{model.family}"] if model.family else []
        named += model.preload
    gpus = {device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA}
    on_gpus = [cell for cell in measured if not gpus.isdisjoint(cell.devices)]
    if any(WORKLOADS[cell.workload].digests or cell.compiles for cell in on_gpus):
        named.append(_TRITON)
    if any(cell.compiles for cell in measured):
        named.append(_FOR_COMPILING)
    return tuple(dict.fromkeys(named))
