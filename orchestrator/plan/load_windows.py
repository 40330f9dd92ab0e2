"""Launches with a load window: steady work during which power and utilisation are read. Pure.

These are the launches in round 0 of each model, workload (not load) and precision at its largest batch size, on GPUs
with telemetry (docs/adr/0030-power-is-read-over-a-load-window.md). A batch size scan (-b auto) has none.
"""

from orchestrator.config.run_configuration import Configuration
from orchestrator.config.workloads import WORKLOADS, Role
from protocol.cell import AUTO, Cell, Device, DeviceKind


def window_s(cell: Cell, configuration: Configuration, device: Device, round_: int) -> float:
    """Return the seconds of a launch's load window; 0 if it has none. round_: number of the launch's round.

    cell: with its actual batch size, which is smaller than the planned one if memory was too small.
    """
    facts = WORKLOADS[cell.workload]
    read = device.kind is DeviceKind.CUDA and configuration.monitor
    if round_ or not read or facts.role is not Role.PHASE or not facts.has_batch:
        return 0.0
    *smaller, largest = sorted(facts.batch_sizes(configuration))
    if largest == AUTO or cell.batch_size <= max(smaller, default=0):
        return 0.0
    return configuration.measurement.load_s
