"""Burn-in with load steps, which stress power supplies and clocks. Products are verified as in soak.py.

full load  ──╮  ╭──╮  ╭──╮     in phase: all devices of the host at the same time
idle         ╰──╯  ╰──╯  ╰──   otherwise each device starts a little after the previous one
"""

import time
from functools import partial
from typing import Final

import msgspec

from protocol.messages import Assign, LoadSteps
from protocol.result import Result
from worker.stage import Stage
from worker.verify import burning
from worker.workloads.soak import RandomProducts

_SHARP_S: Final = 0.05  # longest block, and so the longest delay of a rest


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Multiply random matrices and verify each product, with work and rest as in `assign.steps`.

    The matrices have the side `input_size` of the cell. isolation: "fork" or "exec", for the result. Raises ValueError
    if `assign.steps` is None.
    """
    if assign.steps is None:
        raise ValueError(f"{assign.cell.id}: a cell of {assign.cell.workload} needs times to work and to rest")
    measurement = assign.measurement
    sharp = msgspec.structs.replace(measurement, block_s=min(measurement.block_s, _SHARP_S))
    assign_sharp = msgspec.structs.replace(assign, measurement=sharp)
    return burning.run(assign_sharp, stage, isolation, RandomProducts, pause=partial(rest, assign.steps))


def rest(steps: LoadSteps) -> None:
    """Sleep until the next load begins (host's monotonic clock). Returns at once during load."""
    time.sleep(rest_s(steps, time.monotonic()))


def rest_s(steps: LoadSteps, now: float) -> float:
    """Return the seconds until the next load begins, 0 during load. now: the host's monotonic clock, in seconds."""
    period_s = steps.on_s + steps.off_s
    into_s = (now - steps.offset_s) % period_s
    return 0.0 if into_s < steps.on_s else period_s - into_s
