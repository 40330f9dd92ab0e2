"""What the workloads share: the order of a launch's phases, and the result that comes of them."""

from dataclasses import dataclass, replace

import torch

from protocol.messages import Assign
from protocol.result import Memory, Result, WarmUp
from worker import devices, measure, memory
from worker.measure import Measured, Work
from worker.memory import Peaks
from worker.models.base import Batch, Family, Feed
from worker.stage import Stage
from worker.timing import Clock


@dataclass(frozen=True)
class Measurements:
    """A warm-up, what was measured after it, and the device memory that each took."""

    warm_up: WarmUp
    measured: Measured
    cold: Peaks
    warm: Peaks


def open_device(assign: Assign, stage: Stage) -> torch.device:
    """The launch's device, its context made; from here on the resident peak counts."""
    with stage.timed("context"):
        device = devices.open_device(assign.device, assign.cell.precision)
    memory.reset_resident()
    torch.manual_seed(assign.cell.seed)
    return device


def make_batch(family: Family, assign: Assign, device: torch.device, dtype: torch.dtype) -> Batch:
    """The inputs, on the device, before any clock starts.

    Called in the warm-up phase: what does not fit because of the batch must fail where a smaller batch is the cure.
    """
    cell = assign.cell
    feed = Feed(batch_size=cell.batch_size, input_size=cell.input_size, device=device, dtype=dtype, seed=cell.seed)
    return family.batch(assign.model, feed)


def warm_up_and_measure(work: Work, assign: Assign, stage: Stage, device: torch.device) -> Measurements:
    """Both phases on the device's clock, with its allocator watched.

    The peaks are those of the work: what building took for a moment (fp32 weights before they were cast) is given back.
    """
    memory.release_cached(device)
    memory.reset_peaks(device)
    work = replace(work, retries=lambda: memory.allocator_retries(device))
    clock: Clock = devices.clock_for(device)
    warm_up, iteration_ms = measure.warm_up(work, clock, assign.measurement, stage)
    cold = memory.peaks(device)
    memory.reset_peaks(device)
    measured = measure.measured(work, clock, assign.measurement, stage, iteration_ms)
    return Measurements(warm_up, measured, cold, memory.peaks(device))


def result(
    measurements: Measurements,
    module: torch.nn.Module,
    assign: Assign,
    stage: Stage,
    *,
    isolation: str,
    items: int,
    loss: float | None = None,
) -> Result:
    """Everything that the launch measured. items: what one iteration worked on."""
    measured = measurements.measured
    device = next(module.parameters()).device
    return Result(
        cell=assign.cell,
        parameters=memory.parameter_count(module),
        items_per_iteration=items,
        ledger=stage.ledger(),
        warm_up=measurements.warm_up,
        stop_reason=measured.stop_reason,
        blocks=measured.blocks,
        series=measured.series,
        group=measured.group,
        launch_bound=measured.launch_bound,
        memory=Memory(
            model_bytes=memory.module_bytes(module),
            cold_allocated_bytes=measurements.cold.allocated_bytes,
            cold_reserved_bytes=measurements.cold.reserved_bytes,
            warm_allocated_bytes=measurements.warm.allocated_bytes,
            warm_reserved_bytes=measurements.warm.reserved_bytes,
            resident_bytes=memory.resident_peak(),
        ),
        loss=loss,
        environment=devices.environment(device, isolation),
    )
