"""What is imported ahead of launches: by the zygote once for all of a run, by a new interpreter for its own cell.

Both import before they connect. What a process imports after it has threads lies elsewhere in memory, and that alone
moved launch-bound cells by percents (docs/measurements.md).
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.config.run_configuration import StoredRun
from orchestrator.config.workloads import WORKLOADS
from protocol.cell import Cell, DeviceKind

_FOR_DIGESTS_ON_GPUS: Final = "worker.verify.triton_ahead"


def modules(stored: StoredRun, cells: Iterable[Cell]) -> tuple[str, ...]:
    """Workloads, families and model classes of some cells of a run, each once, in the same order whoever asks."""
    measured = tuple(cells)
    by_name = stored.configuration.by_name
    named = [f"worker.workloads.{cell.workload}" for cell in measured]
    for model in (by_name[cell.model] for cell in measured if WORKLOADS[cell.workload].has_model):
        named += [f"worker.models.{model.family}"] if model.family else []
        named += model.preload
    gpus = {device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA}
    if any(WORKLOADS[cell.workload].digests and not gpus.isdisjoint(cell.devices) for cell in measured):
        named.append(_FOR_DIGESTS_ON_GPUS)
    return tuple(dict.fromkeys(named))
