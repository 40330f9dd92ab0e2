"""Plans of which every device has the same cells, to see whose fault a failure is."""

from collections.abc import Mapping, Sequence

from orchestrator.config.run_configuration import Plan
from orchestrator.state.slots import RunState, SlotStatus
from protocol.cell import Cell, Precision, Workload


def cell(model: str, device: str, batch_size: int = 1) -> Cell:
    return Cell(
        devices=(device,), model=model, workload=Workload.INFERENCE, precision=Precision.FP32, batch_size=batch_size
    )


def plan(models: str, devices: int, *, rounds: int = 1, sizes: tuple[int, ...] = (1,)) -> Plan:
    """A cell for each letter of `models`, and each size, on each of so many GPUs."""
    names = [f"GPU-{number}" for number in range(devices)]
    return plan_of({name: [cell(model, name, size) for model in models for size in sizes] for name in names}, rounds)


def plan_of(cells: Mapping[str, Sequence[Cell]], rounds: int = 1) -> Plan:
    """These cells of each device, in this order in each round."""
    return Plan(
        cells=tuple(one for mine in cells.values() for one in mine),
        order={name: tuple((one.id, turn) for turn in range(rounds) for one in mine) for name, mine in cells.items()},
    )


def statuses(now: RunState, model: str) -> list[SlotStatus]:
    """What became of a model's slots, in the order of the plan."""
    return [slot.status for (cell_id, _), slot in now.slots.items() if now.cells[cell_id].model == model]
