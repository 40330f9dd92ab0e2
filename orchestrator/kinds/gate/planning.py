"""Plan a gate: the cells of a baseline, or both sides of each cell, one after the other. Pure.

Example: cells 1, 2 and 3, each with the sides a and b. First come the launches a2 b2, b2 a2, a2 b2. Round 0 is then a1
b1, a3 b3, and round 1 is b3 a3, b1 a1. The order of the cells is random in each round; the order of the sides
alternates, so a drift of the machine affects both alike. Three rounds of cell 2 come first, because only repeated
launches show the noise of a machine (noise.py).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from orchestrator.config.run_configuration import Configuration, Gate, GateSide, Plan, Slot
from orchestrator.config.workloads import WORKLOADS
from orchestrator.errors import ConfigError
from orchestrator.figures.keys import CellKey
from orchestrator.plan import estimate, planner
from protocol.cell import AUTO, Cell, Device, Workload

FIRST_ROUNDS: Final = 3
"""Default number of planned rounds. With fewer launches, the verdict on a cell has a remark."""
NOISE_LAUNCHES: Final = 6
"""Launches at the beginning that show the noise: of one pair of cells, or of two lone cells."""
NOISE_S: Final = 60.0
"""Most estimated seconds of the launches at the beginning. Longer cells keep their place in the order."""


def requested(configuration: Configuration) -> Gate:
    """Return the settings of the gate. configuration: of a gate; another one fails an assertion."""
    assert configuration.gate is not None
    return configuration.gate


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan of a gate. Raises ConfigError if it has no cells, or if a batch size is "auto" (-b auto).

    Also raises ConfigError if the two sides have different cells.
    """
    gate = requested(configuration)
    plan = _of_sides(gate.sides, devices) if gate.sides else _of_baseline(gate, configuration, devices)
    if any(cell.batch_size == AUTO for cell in plan.cells):
        raise ConfigError("-b auto: a scan has no verdict. Name the batch sizes that the gate compares.")
    if len({cell.mode for cell in plan.cells}) > 1:  # devices wait for each other at the end of each round
        return plan
    return replace(plan, order={one.uuid: _noise_first(plan, gate, configuration, one) for one in devices})


def shows_noise(cell: Cell) -> bool:
    """Whether launches of a cell differ only by noise. False for loading a model: the page cache matters too."""
    return WORKLOADS[cell.workload].sibling_verdict


def compared(gate: Gate, plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Return the cell ids of each comparison: (first side, second side), or (cell,) to compare with a baseline."""
    return tuple(partners(gate, plan).items()) if gate.sides else tuple((cell.id,) for cell in plan.cells)


def partners(gate: Gate, plan: Plan) -> dict[str, str]:
    """Return id of a cell on the first side → id of its partner on the second. gate: one with two sides."""
    first, second = ([cell.id for cell in plan.cells if cell.model in side.models] for side in gate.sides)
    return dict(zip(first, second, strict=True))


def key(cell: Cell) -> CellKey:
    """Return the key of a planned cell, which is also its key in a report. It does not contain the device."""
    probe = cell.workload is Workload.PROBE
    return CellKey(
        phase=cell.workload,
        model_name=cell.model,
        precision=cell.precision,
        mode=cell.mode,
        compile_mode="" if probe else cell.compile_name,
        input_size=cell.input_size,
        memory_format="" if probe else cell.memory_format,
        new_tokens=cell.new_tokens,
        batch_size=cell.batch_size,
    )


def stored(cell_key: CellKey) -> str:
    """Return a cell key as JSON, as a configuration stores it."""
    return msgspec.json.encode(cell_key).decode()


def _of_baseline(gate: Gate, configuration: Configuration, devices: Sequence[Device]) -> Plan:
    whole = planner.make(replace(configuration, time_limit_s=None), devices)
    wanted = set(gate.keys)
    kept = {cell.id for cell in whole.cells if stored(key(cell)) in wanted}
    if not kept:
        raise ConfigError(
            "there is nothing to measure: no cell of the baseline fits these options and devices. Remove options, or "
            "name the same kind and number of devices as in the baseline, with --solo if the baseline has it."
        )
    return replace(
        whole,
        cells=tuple(cell for cell in whole.cells if cell.id in kept),
        order={uuid: tuple(slot for slot in queue if slot[0] in kept) for uuid, queue in whole.order.items()},
    )


def _of_sides(sides: Sequence[GateSide], devices: Sequence[Device]) -> Plan:
    first, second = (_of_side(side, devices) for side in sides)
    kinds = [[(cell.devices, cell.workload, cell.mode) for cell in plan.cells] for plan in (first, second)]
    if kinds[0] != kinds[1]:
        raise ConfigError("the two sides have different cells. Give each setting as many values on both sides.")
    others = dict(zip((cell.id for cell in first.cells), (cell.id for cell in second.cells), strict=True))
    return Plan(
        cells=(*first.cells, *second.cells),
        order={uuid: tuple(_alternating(queue, others)) for uuid, queue in first.order.items()},
        excluded=(*first.excluded, *second.excluded),
    )


def _noise_first(plan: Plan, gate: Gate, configuration: Configuration, device: Device) -> tuple[Slot, ...]:
    """Return the launches of a device. First come repeated launches of a few cells, which show the noise.

    These few cells are pairs (a cell and its partner, or a lone cell to compare with a baseline), in the order of their
    first launches. All launches of a pair in the first FIRST_ROUNDS rounds come first. Pairs are added until there are
    NOISE_LAUNCHES launches. A pair is omitted if all these launches would then take more than NOISE_S seconds, as
    estimated. The other launches keep their order.
    """
    queue, cells = plan.order[device.uuid], {cell.id: cell for cell in plan.cells}
    pairs = {cell: pair for pair in compared(gate, plan) for cell in pair}
    first: list[Slot] = []
    left_s = NOISE_S
    for pair in dict.fromkeys(pairs[cell] for cell, _ in queue if shows_noise(cells[cell])):
        early = [(cell, number) for cell, number in queue if cell in pair and number < FIRST_ROUNDS]
        lasts_s = sum(estimate.launch_s(cells[cell], configuration, device, round_=number) for cell, number in early)
        if len(first) < NOISE_LAUNCHES and lasts_s <= left_s:
            first += early
            left_s -= lasts_s
    return tuple(dict.fromkeys((*first, *queue)))


def _of_side(side: GateSide, devices: Sequence[Device]) -> Plan:
    plan = planner.make(replace(side.configuration, probes=(), time_limit_s=None), devices)
    names = dict(zip((model.name for model in side.configuration.models), side.models, strict=True))
    cells = {cell.id: cell for cell in plan.cells if cell.workload is not Workload.PROBE}
    own = {id_: replace(cell, model=names[cell.model]) for id_, cell in cells.items()}
    order = {
        uuid: tuple((own[id_].id, number) for id_, number in queue if id_ in own) for uuid, queue in plan.order.items()
    }
    return replace(plan, cells=tuple(own.values()), order=order)


def _alternating(queue: Sequence[Slot], others: dict[str, str]) -> Iterator[Slot]:
    for cell, number in queue:
        both = (cell, number), (others[cell], number)
        yield from both if number % 2 == 0 else reversed(both)
