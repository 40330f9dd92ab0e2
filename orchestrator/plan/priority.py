"""Priorities of launches (measurements) under a time limit. Pure.

    0  inference of every model, at the smallest batch      4  load
    1  probes: references for other figures                 5  generation
    2  training, at the smallest batch                      6  everything else
    3  inference at the largest batch

Launches are ordered by round, then mode, then precision (as requested), then by this number, then shortest first.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Configuration, Plan, Slot
from orchestrator.config.workloads import WORKLOADS
from orchestrator.plan import estimate
from protocol.cell import Cell, Device

_PRECISION: Final = 10
_MODE: Final = 100
_ROUND: Final = 1000


def number(cell: Cell, configuration: Configuration, round_: int = 0) -> int:
    """Return a launch's priority over all rounds, modes and precisions: the lowest number comes first.

    round_: from 0. Within a round, mode and precision, the numbers at the top of this module decide.
    """
    precisions = configuration.precisions
    later = precisions.index(cell.precision) if cell.precision in precisions else 0
    modes = configuration.modes
    mode = modes.index(cell.mode) if cell.mode in modes else 0
    return _ROUND * round_ + _MODE * mode + _PRECISION * later + _depth(cell, configuration)


def first_things_first(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan with the launches of each device ordered by priority, of equal priority the shortest first.

    Devices of one kind (GPU or CPU) get their launches in the same order.
    """
    cells = {cell.id: cell for cell in plan.cells}

    def sorted_for(device: Device) -> tuple[Slot, ...]:
        def key(slot: Slot) -> tuple[int, float]:
            cell = cells[slot[0]]
            return number(cell, configuration, slot[1]), estimate.launch_s(cell, configuration, device, round_=slot[1])

        return tuple(sorted(plan.order[device.uuid], key=key))

    return msgspec.structs.replace(plan, order={device.uuid: sorted_for(device) for device in devices})


def _depth(cell: Cell, configuration: Configuration) -> int:
    facts = WORKLOADS[cell.workload]
    sizes = facts.batch_sizes(configuration)
    if cell.batch_size == min(sizes, default=cell.batch_size):
        return facts.priority.smallest
    return facts.priority.largest if cell.batch_size == max(sizes) else facts.priority.between
