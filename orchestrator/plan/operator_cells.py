"""Cells (things to measure) of operators such as softmax, in a random order that all devices share. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from orchestrator.config.run_configuration import Configuration, Exclusion, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.errors import ConfigError
from orchestrator.plan.planner import cell_seed, modes_of, rounds_of
from protocol.cell import Cell, CompileMode, Device, Mode, ModelSpec, OperatorSpec, Precision, Workload


class Place(NamedTuple):
    """Where operators are measured: on one device, in one mode."""

    configuration: Configuration
    device: Device
    mode: Mode


def planned(
    configuration: Configuration, devices: Sequence[Device], cells_of: Callable[[Place], Iterator[Cell]]
) -> Plan:
    """Plan a run of operators, in the first of the run's modes only. cells_of: yields the cells to measure at a place.

    Each round has every cell in another random order. Raises ConfigError if no operator has a requested precision.
    """
    mode = modes_of(configuration, devices)[0]
    cells: dict[str, Cell] = {}
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    for device in devices:
        mine = list(cells_of(Place(configuration, device, mode)))
        cells |= {cell.id: cell for cell in mine}
        rounds = rounds_of(len(mine), configuration.launches, configuration.seed)
        order[device.uuid] = tuple((mine[which].id, number) for number, block in enumerate(rounds) for which in block)
    if all(cell.workload is Workload.PROBE for cell in cells.values()):
        raise ConfigError(f"-p {','.join(configuration.precisions)}: none of these operators has such a precision")
    return Plan(cells=tuple(cells.values()), order=order, excluded=tuple(_exclusions(configuration, devices)))


def cell(place: Place, model: ModelSpec, workload: Workload, precision: Precision, *, compiled: bool = False) -> Cell:
    """Return the cell that measures `model` at `place`. All implementations of an operator get the same seed.

    compiled: by torch.compile in its default mode.
    """
    name = model.operator.name if model.operator else model.name
    return Cell(
        devices=(place.device.uuid,),
        model=model.name,
        workload=workload,
        precision=precision,
        batch_size=1,
        mode=place.mode,
        compile_mode=CompileMode.DEFAULT if compiled else CompileMode.EAGER,
        seed=cell_seed(place.configuration.seed, name, workload),
    )


def operator_of(model: ModelSpec) -> OperatorSpec:
    """Return the operator that `model` implements. A model without an operator fails an assertion."""
    assert model.operator is not None
    return model.operator


def precisions(model: ModelSpec, configuration: Configuration) -> list[Precision]:
    """Return the requested precisions in which the operator of `model` can be measured; [] if there are none."""
    return [one for one in configuration.precisions if one in operator_of(model).tolerance]


def _exclusions(configuration: Configuration, devices: Sequence[Device]) -> Iterator[Exclusion]:
    for model in configuration.models:
        known = operator_of(model).tolerance
        if lacking := [one for one in configuration.precisions if one not in known]:
            why = f"not applicable in {listed(lacking, 'and')}: its precisions are {listed(known, 'and')}"
            yield from (Exclusion(device=device.uuid, model=model.name, why=why) for device in devices)
