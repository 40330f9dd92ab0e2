"""Launches (measurements) with a load window: steady work over which power and utilisation are read (ADR 30). Pure.

These are the first launches of each model, workload and precision at its largest batch, on GPUs with telemetry.
"""

from orchestrator.config.run_configuration import Configuration
from orchestrator.config.workloads import WORKLOADS, Role
from protocol.cell import AUTO, Cell, Device, DeviceKind


def window_s(cell: Cell, configuration: Configuration, device: Device, round_: int) -> float:
    """Return the seconds of the load window of a launch in round `round_`; 0 for none.

    cell: with its actual batch size, which may be smaller than requested after an out-of-memory error.
    """
    facts = WORKLOADS[cell.workload]
    read = device.kind is DeviceKind.CUDA and configuration.monitor
    if round_ or not read or facts.role is not Role.PHASE or not facts.has_batch:
        return 0.0
    *smaller, largest = sorted(facts.batch_sizes(configuration))
    if largest == AUTO or cell.batch_size <= max(smaller, default=0):
        return 0.0
    return configuration.measurement.load_s
