"""From a configuration to cells, and the order in which each device runs them. Pure.

    round 0:  every cell once, in random order      round 1:  every cell once, in another random order      …
    of two modes:  loaded, in random order; solo, in random order                                           …

Randomised complete blocks: a machine drifts, and launches of one cell that follow each other share the drift. The
order comes from the stored seed alone and is the same on every device: identical GPUs then work on the same cell at
about the same time, beside the same neighbours, and their difference is their own. Where time is limited, what matters
most comes first instead (priority.py). A round has each mode by itself, because devices must not come to one apart
(state/turns.py).
"""

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.config.catalogue import is_probe
from orchestrator.config.run_configuration import Configuration, LeftOut, Plan, Room
from orchestrator.errors import ConfigError
from orchestrator.plan import priority, probes, shapes
from orchestrator.plan.shapes import Shape
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode, Workload

CONTEXT_BYTES: Final = 768 * 1024 * 1024
"""Of a GPU's memory that no tensor gets: the CUDA context and the libraries' own."""
HOST_SHARE: Final = 0.5
"""Of the host's free memory, for the processes of all CPU devices together: the rest is everybody's."""


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """The plan for these devices; all of a kind get the same cells. Fields of `configuration` are not empty.

    Raises ConfigError where nothing of what was asked for is applicable to a device.
    """
    modes = modes_of(configuration, devices)
    cells: list[Cell] = []
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    left_out: list[LeftOut] = []
    for device in devices:
        wanted = [*_models(configuration), *_probes(configuration, device)]
        rounds = rounds_of(len(wanted), configuration.launches * len(modes), configuration.seed)
        left_out += _left_out(configuration, device)
        if not wanted:
            raise ConfigError(f"{device.label}: nothing is to be measured there. {_in_words(left_out)}")
        mine = [[_cell(shape, device, mode, configuration.seed) for shape in wanted] for mode in modes]
        cells.extend(itertools.chain(*mine))
        blocks = zip(rounds, itertools.product(range(configuration.launches), mine), strict=True)
        order[device.uuid] = tuple(
            (of_mode[which].id, number)
            for block, (number, of_mode) in blocks
            for which in block
            if number == 0 or of_mode[which].batch_size != AUTO  # a scan is made of many launches already
        )
    scans = any(cell.batch_size == AUTO for cell in cells)
    rooms = {device.uuid: room(device, devices) for device in devices} if scans else {}
    plan = Plan(cells=tuple(cells), order=order, left_out=tuple(left_out), rooms=rooms)
    return plan if configuration.time_limit_s is None else priority.first_things_first(plan, configuration, devices)


def room(device: Device, devices: Sequence[Device]) -> Room:
    """What bounds a scan for the batch size: the memory that was free when the run began, and patience."""
    free = None
    if device.memory_total_bytes is not None:
        free = device.memory_total_bytes - (device.memory_used_bytes or 0)
    if device.kind is DeviceKind.CUDA:
        bytes_ = None if free is None else max(free - CONTEXT_BYTES, 0)
        return Room(memory_bytes=bytes_, largest=16_384, longest_s=5.0)
    sharing = sum(other.kind is DeviceKind.CPU for other in devices)
    return Room(memory_bytes=None if free is None else int(free * HOST_SHARE / sharing), largest=64, longest_s=2.0)


def _in_words(left_out: Sequence[LeftOut]) -> str:
    return "; ".join(f"{one.model}: {one.why}" for one in left_out)


def modes_of(configuration: Configuration, devices: Sequence[Device]) -> tuple[Mode, ...]:
    """A run on one device alone is solo, whatever was asked: no other device of the run is at work."""
    return (Mode.SOLO,) if len(devices) == 1 else configuration.modes


def _models(configuration: Configuration) -> Iterator[Shape]:
    """What measures models: the same on every device."""
    for model in itertools.filterfalse(is_probe, configuration.models):
        yield from shapes.of(model, configuration)


def _probes(configuration: Configuration, device: Device) -> Iterator[Shape]:
    """What measures the device itself; a probe has no batch."""
    for spec, precision in probes.on(configuration, device):
        yield Shape(model=spec, workload=Workload.PROBE, precision=precision)


def _left_out(configuration: Configuration, device: Device) -> Iterator[LeftOut]:
    """What was asked for and is no cell of this device."""
    for model in itertools.filterfalse(is_probe, configuration.models):
        for why in shapes.left_out(model, configuration):
            yield LeftOut(device=device.uuid, model=model.name, why=why)
    yield from probes.left_out(configuration, device)


def _cell(shape: Shape, device: Device, mode: Mode, seed: int) -> Cell:
    return Cell(
        devices=(device.uuid,),
        model=shape.model.name,
        workload=shape.workload,
        precision=shape.precision,
        batch_size=shape.batch_size,
        input_size=shape.input_size,
        new_tokens=shape.new_tokens,
        memory_format=shape.memory_format,
        mode=mode,
        seed=cell_seed(seed, shape.model.name, shape.workload),
    )


def cell_seed(seed: int, model: str, workload: Workload) -> int:
    """Seed of weights and inputs, 0 to 2^32 - 1.

    Neither device nor precision nor mode is part of it: what is compared works on the same numbers. Nor is the batch
    size: a cell that had to shrink is then the same as the one that was planned at that size.
    """
    words = f"{seed}/{model}/{workload}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")


def rounds_of(cells: int, launches: int, seed: int, *, first: int | None = None) -> list[list[int]]:
    """`launches` random orders of `cells` positions. None begins with what the one before ended with (if cells > 1).

    first: the position that comes before all others; None where chance decides that too.
    """
    chance = random.Random(seed)
    rounds: list[list[int]] = []
    for _ in range(launches):
        block = list(range(cells))
        chance.shuffle(block)
        if rounds and cells > 1 and block[0] == rounds[-1][-1]:
            other = chance.randrange(1, cells)
            block[0], block[other] = block[other], block[0]
        if not rounds and first is not None:
            block.insert(0, block.pop(block.index(first)))
        rounds.append(block)
    return rounds
