"""Plan the rounds of a burn-in. Pure.

Round 0 begins with the soak (sustained matrix products), which warms the devices up. Every round launches every cell
once, in the same order on all devices. So they reach a check of links (a launch on several devices) at the same time.
Launches that do not fit into the remaining time are dropped during the run.
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
MEMORY: Final = "hbm"  # Probes that do the work of the checks and name their cells
LINKS: Final = "peers"  # Stands for a model in cells on several devices


def make(configuration: Configuration, devices: Sequence[Device], table: BurnInTable) -> Plan:
    """Plan a burn-in. table: burn_in.yaml. Raises ConfigError if the round of an injected fault is not planned."""
    burn_in = requested(configuration)
    (mode,) = modes_of(configuration, devices)
    cells: dict[str, Cell] = {}
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    for device in devices:
        mine = list(_cells(configuration, device, devices, table, mode))
        cells |= {cell.id: cell for cell in mine}
        many = math.ceil(burn_in.duration_s / _round_s(mine, configuration, device, devices))
        orders = rounds_of(len(mine), many, configuration.seed, first=0)
        order[device.uuid] = tuple(
            (mine[which].id, number) for number, positions in enumerate(orders) for which in positions
        )
    made = Plan(cells=tuple(cells.values()), order=order)
    rounds.require_planned(made, configuration, devices)
    return made


def _round_s(mine: Sequence[Cell], configuration: Configuration, device: Device, devices: Sequence[Device]) -> float:
    burn_in = requested(configuration)
    scale, models = estimate.scale(configuration, device, devices), configuration.by_name
    return math.fsum(
        estimate.timed_work_s(cell, models[cell.model], device, burn_in.cell_s[device.kind], scale) for cell in mine
    )


def linked(device: Device, devices: Sequence[Device]) -> tuple[str, ...]:
    """Return the UUIDs of those of the run's devices that `device` checks links with, itself included; () if none."""
    alike = tuple(other.uuid for other in devices if other.kind is device.kind and other.slice_of is None)
    # NCCL takes one process per GPU, so slices have no links. A single GPU is linked to the host.
    enough = 1 if device.kind is DeviceKind.CUDA else 2
    return alike if device.uuid in alike and len(alike) >= enough else ()


def _cells(
    configuration: Configuration, device: Device, devices: Sequence[Device], table: BurnInTable, mode: Mode
) -> Iterator[Cell]:
    burn_in, alone = requested(configuration), (device.uuid,)
    level, sizes = table.levels[burn_in.level], table.devices[device.kind]

    def cell(
        workload: Workload,
        model: str,
        precision: Precision,
        size: int | None,
        *,
        batch: int = 1,
        on: Sequence[str] = alone,
    ) -> Cell:
        return Cell(
            devices=tuple(on),
            model=model,
            workload=workload,
            precision=precision,
            batch_size=batch,
            input_size=size,
            mode=mode,
            seed=cell_seed(configuration.seed, model, workload),
        )

    for precision in level.soak:
        yield cell(Workload.SOAK, PRODUCTS, precision, sizes.side)
    for precision in level.truth:
        yield cell(Workload.TRUTH, PRODUCTS, precision, sizes.side)
    if burn_in.steps:
        yield cell(Workload.STEPS, PRODUCTS, level.soak[0], sizes.side)
    yield cell(Workload.MEMORY, MEMORY, Precision.FP32, None)
    for model, precision in level.replay[device.kind].items():
        input_sizes = configuration.by_name[model].sizes
        yield cell(
            Workload.REPLAY, model, precision, None if input_sizes is None else input_sizes.default, batch=sizes.batch
        )
    if together := linked(device, devices):
        for precision in level.links:
            yield cell(Workload.LINKS, LINKS, precision, sizes.links_mib, on=together)
