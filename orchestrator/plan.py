"""From a configuration to cells, and the order in which each device runs them. Pure.

    round 0:  every cell once, in random order      round 1:  every cell once, in another random order      …

Randomised complete blocks: a machine drifts, and launches of one cell that follow each other share the drift. The
order comes from the stored seed alone and is the same on every device: identical GPUs then work on the same cell at
about the same time, beside the same neighbours, and their difference is their own.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence

from orchestrator.configuration import Configuration, Plan
from protocol.cell import Cell, Device, Mode, ModelSpec, Precision, Workload


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """The plan for these devices, each of which gets the same cells. Fields of `configuration` are not empty."""
    mode = _mode(configuration, devices)
    shapes = list(_shapes(configuration))
    rounds = _rounds(len(shapes), configuration.launches, configuration.seed)
    cells: list[Cell] = []
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    for device in devices:
        mine = [_cell(shape, device, mode, configuration.seed) for shape in shapes]
        cells.extend(mine)
        ids = [cell.id for cell in mine]
        order[device.uuid] = tuple((ids[which], number) for number, block in enumerate(rounds) for which in block)
    return Plan(cells=tuple(cells), order=order)


def _mode(configuration: Configuration, devices: Sequence[Device]) -> Mode:
    """A run on one device alone is solo, whatever was asked: no other device of the run is at work."""
    return Mode.SOLO if len(devices) == 1 else configuration.mode


Shape = tuple[ModelSpec, Workload, Precision, int]


def _shapes(configuration: Configuration) -> Iterator[Shape]:
    """What a device measures. Loading has no batch: it is measured once for each precision, as batch size 1."""
    batch_sizes = {
        Workload.LOAD: (1,),
        Workload.TRAINING: configuration.training_batch_sizes,
    }
    for model in configuration.models:
        for workload in configuration.workloads:
            for precision in configuration.precisions:
                for batch_size in batch_sizes.get(workload, configuration.batch_sizes):
                    yield model, workload, precision, batch_size


def _cell(shape: Shape, device: Device, mode: Mode, seed: int) -> Cell:
    model, workload, precision, batch_size = shape
    return Cell(
        devices=(device.uuid,),
        model=model.name,
        workload=workload,
        precision=precision,
        batch_size=batch_size,
        input_size=None if model.sizes is None else model.sizes.default,
        mode=mode,
        seed=cell_seed(seed, model.name, workload),
    )


def cell_seed(seed: int, model: str, workload: Workload) -> int:
    """Seed of weights and inputs, 0 to 2^32 - 1.

    Neither device nor precision nor mode is part of it: what is compared works on the same numbers. Nor is the batch
    size: a cell that had to shrink is then the same as the one that was planned at that size.
    """
    words = f"{seed}/{model}/{workload}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")


def _rounds(cells: int, launches: int, seed: int) -> list[list[int]]:
    """`launches` random orders of `cells` positions. None begins with what the one before ended with (if cells > 1)."""
    chance = random.Random(seed)
    rounds: list[list[int]] = []
    for _ in range(launches):
        block = list(range(cells))
        chance.shuffle(block)
        if rounds and cells > 1 and block[0] == rounds[-1][-1]:
            other = chance.randrange(1, cells)
            block[0], block[other] = block[other], block[0]
        rounds.append(block)
    return rounds
