"""From a burn-in that was asked for to rounds of cells. Pure.

    round 0:  soak, then every other cell once, in random order    round 1:  every cell once    …  until the time is up

A round is a launch of every cell, so that one failure costs one cell and the next round has it again. There are more
rounds than the time can hold; what there is no time for is dropped, as under every limit (ADR 12). The order is the
same on all devices: they are loaded alike at the same time, which is what lets them be compared, and come to the cells
that need all of them at about the same time. The first cell is the heaviest, so that everything after it is measured on
warm devices.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.kinds.burn_in import rounds
from orchestrator.kinds.burn_in.levels import BurnInTable, requested
from orchestrator.plan import estimate
from orchestrator.plan.planner import cell_seed, modes_of, rounds_of
from protocol.cell import Cell, Device, DeviceKind, Mode, Precision, Workload

PRODUCTS: Final = "gemm"
MEMORY: Final = "hbm"
"""The probes whose work the checks do, by whose names their cells go."""
LINKS: Final = "peers"
"""What stands for a model in cells on several devices."""


def make(configuration: Configuration, devices: Sequence[Device], table: BurnInTable) -> Plan:
    """The plan of a burn-in for these devices. `configuration.burn_in` is set.

    Raises ConfigError for a fault that is to be brought about in a round beyond the last one.
    """
    asked = requested(configuration)
    (mode,) = modes_of(configuration, devices)
    cells: dict[str, Cell] = {}
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    for device in devices:
        mine = [*_cells(configuration, device, table, mode), *_links(configuration, device, devices, table, mode)]
        cells |= {cell.id: cell for cell in mine}
        many = math.ceil(asked.duration_s / _round_s(mine, configuration, device, devices))
        orders = rounds_of(len(mine), many, configuration.seed, first=0)
        order[device.uuid] = tuple(
            (mine[which].id, number) for number, positions in enumerate(orders) for which in positions
        )
    made = Plan(cells=tuple(cells.values()), order=order)
    rounds.require_planned(made, configuration, devices)
    return made


def _round_s(mine: Sequence[Cell], configuration: Configuration, device: Device, devices: Sequence[Device]) -> float:
    """Seconds of work in a round, without any start. Exactly summed, as so many cells of one length are."""
    asked = requested(configuration)
    scale, models = estimate.scale(configuration, device, devices), configuration.by_name
    return math.fsum(
        estimate.timed_work_s(cell, models[cell.model], device, asked.cell_s[device.kind], scale) for cell in mine
    )


def linked(device: Device, devices: Sequence[Device]) -> tuple[str, ...]:
    """The devices whose links are tested together with those of `device`, itself among them; empty where none are.

    One GPU alone is still linked to the host. Slices of a GPU have no links of their own: NCCL takes one process a GPU.
    """
    alike = tuple(other.uuid for other in devices if other.kind is device.kind and other.slice_of is None)
    enough = 1 if device.kind is DeviceKind.CUDA else 2
    return alike if device.uuid in alike and len(alike) >= enough else ()


def _cells(configuration: Configuration, device: Device, table: BurnInTable, mode: Mode) -> Iterator[Cell]:
    """One round, the heaviest cell first."""
    asked = requested(configuration)
    level, sizes = table.levels[asked.level], table.devices[device.kind]

    def cell(workload: Workload, model: str, precision: Precision, batch: int, side: int | None) -> Cell:
        return Cell(
            devices=(device.uuid,),
            model=model,
            workload=workload,
            precision=precision,
            batch_size=batch,
            input_size=side,
            mode=mode,
            seed=cell_seed(configuration.seed, model, workload),
        )

    for precision in level.soak:
        yield cell(Workload.SOAK, PRODUCTS, precision, 1, sizes.side)
    for precision in level.truth:
        yield cell(Workload.TRUTH, PRODUCTS, precision, 1, sizes.side)
    if asked.steps:
        yield cell(Workload.STEPS, PRODUCTS, level.soak[0], 1, sizes.side)
    yield cell(Workload.MEMORY, MEMORY, Precision.FP32, 1, None)
    for model, precision in level.replay[device.kind].items():
        known = configuration.by_name[model].sizes
        yield cell(Workload.REPLAY, model, precision, sizes.batch, None if known is None else known.default)


def _links(
    configuration: Configuration, device: Device, devices: Sequence[Device], table: BurnInTable, mode: Mode
) -> Iterator[Cell]:
    """Cells that a device shares with all others to which it is linked: the same for each of them."""
    asked = requested(configuration)
    if together := linked(device, devices):
        for precision in table.levels[asked.level].links:
            yield Cell(
                devices=together,
                model=LINKS,
                workload=Workload.LINKS,
                precision=precision,
                batch_size=1,
                input_size=table.devices[device.kind].links_mib,
                mode=mode,
                seed=cell_seed(configuration.seed, LINKS, Workload.LINKS),
            )
