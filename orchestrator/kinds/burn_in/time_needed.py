"""Whether a burn-in has room for one whole round, and how long one must be that has. Pure.

    start ─┤ cell │ cell │ … │ cell ├─ closing        what does not end before the duration does is UNKNOWN

A cell is shorter in a shorter burn-in. Its start, that of everything, and a replay of the least steps are not: so there
is a shortest duration.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.kinds.burn_in.findings import named
from orchestrator.kinds.burn_in.levels import BurnInTable, requested
from orchestrator.kinds.burn_in.settings import SHORTEST_S, written
from orchestrator.plan import estimate
from orchestrator.state.time_budget import closing_s
from protocol.cell import Cell, Device, DeviceKind

SLOWER: Final = {DeviceKind.CUDA: 1, DeviceKind.CPU: 3}
"""So many times what is estimated may be needed for starts, and for the steps of replays. CPU devices share the cores
of their host with each other, and with whatever else is at work there: three of them on two cores took 4 to 13 s for
the first import, where 4 s are estimated, and 0.5 to 0.9 s from one launch to the next; a step of lstm took 0.4 to
0.5 s at a load of four on two cores, where 0.15 to 0.18 s are estimated.
"""
_STEP_S: Final = 10
_SHOWN: Final = 3
"""Cells that are named."""


def notes(plan: Plan, configuration: Configuration, devices: Sequence[Device], table: BurnInTable) -> Iterator[str]:
    """What will be UNKNOWN for want of time, as far as can be told before it begins; nothing where all have room."""
    asked = configuration.burn_in
    if asked is None:
        return
    late = dict.fromkeys(name for device in devices for name in _late(plan, configuration, devices, device))
    if late:
        least = written(least_s(plan, configuration, devices, table))
        shown, more = list(late)[:_SHOWN], len(late) - _SHOWN
        names = listed([*shown, plural(more, "more cell")] if more > 0 else shown, "and")
        yield (
            f"a burn-in of {written(asked.duration_s)} has hardly room for one whole round of level {asked.level}: "
            f"{names} may not come to an end, which is UNKNOWN. --burn-in {least} --level {asked.level} has room"
        )


def least_s(plan: Plan, configuration: Configuration, devices: Sequence[Device], table: BurnInTable) -> float:
    """The shortest duration of this level, in steps that people use, which has room for one whole round."""
    asked = requested(configuration)

    def needed_s(device: Device, duration_s: float) -> float:
        cell_s = table.cell_s(duration_s, device.kind, asked.level, steps=bool(asked.steps))
        *_, end_s = itertools.accumulate(_lasting(plan, configuration, devices, device, cell_s))
        return end_s + closing_s(duration_s)

    for duration_s in itertools.count(SHORTEST_S, _STEP_S):  # cells have a bound, starts do not grow: it ends
        if all(needed_s(device, duration_s) <= duration_s for device in devices):
            return duration_s
    raise AssertionError("there is always a longer one")


def _late(plan: Plan, configuration: Configuration, devices: Sequence[Device], device: Device) -> Iterator[str]:
    """The cells of a device that do not end in time in the first round."""
    asked = requested(configuration)
    lasting = _lasting(plan, configuration, devices, device, asked.cell_s[device.kind])
    _, *ends = itertools.accumulate(lasting)
    for cell, end_s in zip(_first_round(plan, device), ends, strict=True):
        if end_s + closing_s(asked.duration_s) > asked.duration_s:
            yield named(cell)


def _lasting(
    plan: Plan, configuration: Configuration, devices: Sequence[Device], device: Device, cell_s: float
) -> Iterator[float]:
    """Seconds of the start of everything, and of each launch of the first round with cells of such a length."""
    slower, scale = SLOWER[device.kind], SLOWER[device.kind] * estimate.sharing(device, devices)
    yield slower * estimate.shared_start_s(configuration, [device])
    for cell in _first_round(plan, device):
        start_s = estimate.timed_start_s(cell, configuration, device)
        model = configuration.by_name[cell.model]
        yield slower * start_s + estimate.timed_work_s(cell, model, device, cell_s, scale)


def _first_round(plan: Plan, device: Device) -> list[Cell]:
    cells = {cell.id: cell for cell in plan.cells}
    return [cells[cell_id] for cell_id, number in plan.order[device.uuid] if number == 0]
