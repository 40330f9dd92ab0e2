"""Whether a burn-in has time for a whole round, and the shortest duration that has enough. Pure."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.kinds.burn_in.findings import cell_name
from orchestrator.kinds.burn_in.levels import BurnInTable, requested
from orchestrator.kinds.burn_in.settings import SHORTEST_S, written
from orchestrator.plan import estimate
from orchestrator.state.time_budget import closing_s
from protocol.cell import Cell, Device, DeviceKind

SLOWER: Final = {DeviceKind.CUDA: 1, DeviceKind.CPU: 3}
"""Factor on estimated start-up times and training steps. CPU devices share cores, so both take longer.

Three CPU devices on two cores took 4 to 13 s for the first import (estimate 4 s), and 0.4 to 0.5 s for a step of lstm
(estimate 0.15 to 0.18 s).
"""
_STEP_S: Final = 10
_SHOWN: Final = 3


def notes(plan: Plan, configuration: Configuration, devices: Sequence[Device], table: BurnInTable) -> Iterator[str]:
    """Yield a warning if a burn-in may be too short for one round. It names the cells at risk. table: burn_in.yaml."""
    burn_in = configuration.burn_in
    if burn_in is None:
        return
    late = dict.fromkeys(name for device in devices for name in _late(plan, configuration, devices, device))
    if late:
        least = written(least_s(plan, configuration, devices, table))
        shown, more = list(late)[:_SHOWN], len(late) - _SHOWN
        names = listed([*shown, plural(more, "more cell")] if more > 0 else shown, "and")
        yield (
            f"{written(burn_in.duration_s)} may be too short for one round of level {burn_in.level}, and then the "
            f"verdict is UNKNOWN. Use --burn-in {least} --level {burn_in.level}. Cells at risk: {names}"
        )


def least_s(plan: Plan, configuration: Configuration, devices: Sequence[Device], table: BurnInTable) -> float:
    """Return the shortest duration (s) into which a round of this burn-in fits, in steps of 10 s from SHORTEST_S."""
    burn_in = requested(configuration)

    def needed_s(device: Device, duration_s: float) -> float:
        cell_s = table.cell_s(duration_s, device.kind, burn_in.level, steps=bool(burn_in.steps))
        *_, end_s = itertools.accumulate(_lasting(plan, configuration, devices, device, cell_s))
        return end_s + closing_s(duration_s)

    for duration_s in itertools.count(SHORTEST_S, _STEP_S):  # cells have a bound, starts do not grow: it ends
        if all(needed_s(device, duration_s) <= duration_s for device in devices):
            return duration_s
    raise AssertionError("there is always a longer one")


def _late(plan: Plan, configuration: Configuration, devices: Sequence[Device], device: Device) -> Iterator[str]:
    burn_in = requested(configuration)
    lasting = _lasting(plan, configuration, devices, device, burn_in.cell_s[device.kind])
    _, *ends = itertools.accumulate(lasting)
    for cell, end_s in zip(_first_round(plan, device), ends, strict=True):
        if end_s + closing_s(burn_in.duration_s) > burn_in.duration_s:
            yield cell_name(cell)


def _lasting(
    plan: Plan, configuration: Configuration, devices: Sequence[Device], device: Device, cell_s: float
) -> Iterator[float]:
    """Yield the estimated duration, in seconds, of the start of the run, then of each launch of round 0 on `device`.

    devices: all of the run; they share the CPU. cell_s: seconds of measurement in a launch.
    """
    slower, scale = SLOWER[device.kind], SLOWER[device.kind] * estimate.sharing(device, devices)
    yield slower * estimate.shared_start_s(configuration, [device])
    for cell in _first_round(plan, device):
        start_s = estimate.timed_start_s(cell, configuration, device)
        model = configuration.by_name[cell.model]
        yield slower * start_s + estimate.timed_work_s(cell, model, device, cell_s, scale)


def _first_round(plan: Plan, device: Device) -> list[Cell]:
    cells = {cell.id: cell for cell in plan.cells}
    return [cells[cell_id] for cell_id, number in plan.order[device.uuid] if number == 0]
