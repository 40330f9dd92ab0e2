"""Probes: cells that measure the device itself, without a model.

    gemm     matrix products in the cell's precision     series best (the faster burst) and iteration (sustained)
    hbm      the device's own memory                     series copy and triad
    h2d, d2h from pinned memory of the host to the device, and back    series iteration

A rate is flops_per_iteration, or bytes_per_iteration of a series, divided by the series' times. burst: short trial run
of gemm with one matrix size. The size that is measured has two bursts before the measurement.
"""

from collections.abc import Callable
from typing import Final

import torch

from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from worker import devices
from worker.measure import Work
from worker.probes import gemm, traffic
from worker.probes.base import Bench, Probe
from worker.stage import Stage
from worker.workloads import common

PROBES: Final[dict[str, Callable[[Bench], Probe]]] = {
    "gemm": gemm.prepare,
    "hbm": traffic.device_memory,
    "h2d": traffic.to_device,
    "d2h": traffic.to_host,
}


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell, whose `model` is a key of PROBES. isolation: "fork" or "exec", noted in the result."""
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    bench = Bench(
        device=device,
        dtype=devices.weights_type(assign.cell.precision, training=False),
        generator=torch.Generator(device=device).manual_seed(assign.cell.seed),
        clock=devices.clock_for(device),
        burst_s=assign.measurement.block_s,
    )
    stage.enter(Phase.WARM_UP)
    with torch.inference_mode():
        with stage.timed("warm_up"):  # makes numbers, and chooses a shape
            probe = PROBES[assign.cell.model](bench)
            devices.synchronize(device)
        measurements = common.warm_up_and_measure(Work(probe.steps), assign, stage, device)
    return Result(
        **common.fields(
            measurements,
            common.holding(probe.tensors),
            assign,
            stage,
            isolation=isolation,
            items=1,
            series={"best": probe.best_ms} if probe.best_ms else {},
        ),
        flops_per_iteration=probe.flops,
        bytes_per_iteration=probe.bytes_moved,
    )
