"""Plan the cells (things to measure) of a configuration, and their order on each device. Pure.

    round 0:  every cell once, in random order      round 1:  every cell once, in another random order      …

Rounds are randomised complete blocks, because the speed of a machine drifts. The seed decides the order, so identical
GPUs work on the same cell at about the same time. With a time limit, priority.py decides the order. In a run of two
modes (loaded, solo), each round measures all cells in one mode, then all in the other, in another random order: all
devices must change the mode together (state/turns.py). A batch size scan (-b auto) is only in round 0.
"""

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.config.catalogue import is_probe
from orchestrator.config.run_configuration import Configuration, Exclusion, Plan, Room
from orchestrator.errors import ConfigError
from orchestrator.plan import priority, probes, shapes
from orchestrator.plan.shapes import Shape
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode, Workload

CONTEXT_BYTES: Final = 768 * 1024 * 1024
"""GPU memory without tensors: the CUDA context and its libraries."""
HOST_SHARE: Final = 0.5
"""Share of the host's free memory that all CPU devices may use together."""


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan for these devices. Raises ConfigError if there is nothing to measure on one of them."""
    modes = modes_of(configuration, devices)
    cells: list[Cell] = []
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    excluded: list[Exclusion] = []
    for device in devices:
        wanted = [*_models(configuration), *_probes(configuration, device)]
        rounds = rounds_of(len(wanted), configuration.launches * len(modes), configuration.seed)
        excluded += _exclusions(configuration, device)
        if not wanted:
            reasons = "; ".join(f"{one.model}: {one.why}" for one in excluded)
            raise ConfigError(f"{device.label}: there is nothing to measure on it. {reasons}")
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
    plan = Plan(cells=tuple(cells), order=order, excluded=tuple(excluded), rooms=rooms)
    return plan if configuration.time_limit_s is None else priority.first_things_first(plan, configuration, devices)


def room(device: Device, devices: Sequence[Device]) -> Room:
    """Return the limits of a search for the batch size on `device`, one of the run's `devices`.

    Memory: what was free when the run began, None if unknown. A GPU gets all of it except what the CUDA context takes.
    CPU devices share the fraction HOST_SHARE of the host's free memory evenly.
    """
    free = None
    if device.memory_total_bytes is not None:
        free = device.memory_total_bytes - (device.memory_used_bytes or 0)
    if device.kind is DeviceKind.CUDA:
        bytes_ = None if free is None else max(free - CONTEXT_BYTES, 0)
        return Room(memory_bytes=bytes_, largest=16_384, longest_s=5.0)
    sharing = sum(other.kind is DeviceKind.CPU for other in devices)
    return Room(memory_bytes=None if free is None else int(free * HOST_SHARE / sharing), largest=64, longest_s=2.0)


def modes_of(configuration: Configuration, devices: Sequence[Device]) -> tuple[Mode, ...]:
    """Return the modes in which the run measures each cell. With a single device, only solo."""
    return (Mode.SOLO,) if len(devices) == 1 else configuration.modes


def _models(configuration: Configuration) -> Iterator[Shape]:
    for model in itertools.filterfalse(is_probe, configuration.models):
        yield from shapes.of(model, configuration)


def _probes(configuration: Configuration, device: Device) -> Iterator[Shape]:
    for spec, precision in probes.on(configuration, device):
        yield Shape(model=spec, workload=Workload.PROBE, precision=precision)


def _exclusions(configuration: Configuration, device: Device) -> Iterator[Exclusion]:
    for model in itertools.filterfalse(is_probe, configuration.models):
        for why in shapes.exclusions(model, configuration):
            yield Exclusion(device=device.uuid, model=model.name, why=why)
    yield from probes.exclusions(configuration, device)


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
        compile_mode=shape.compile_mode,
        dynamic_shapes=shape.dynamic_shapes,
        mode=mode,
        seed=cell_seed(seed, shape.model.name, shape.workload),
    )


def cell_seed(seed: int, model: str, workload: Workload) -> int:
    """Return the seed (32 bits) of a cell's weights and inputs. seed: of the run.

    It is the same on all devices, and at all precisions, modes and batch sizes, so that results can be compared.
    """
    words = f"{seed}/{model}/{workload}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")


def rounds_of(cells: int, launches: int, seed: int, *, first: int | None = None) -> list[list[int]]:
    """Return a list for each of `launches` rounds: the numbers 0 to cells - 1 in random order.

    Of several cells, the one that ended a round does not begin the next. first: cell that begins round 0; None: a
    random one.
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
