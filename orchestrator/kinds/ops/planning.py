"""The plan of a run of operators: each in every implementation and precision, and the probes of its roofs. Pure."""

from collections.abc import Iterator, Sequence

from orchestrator.config.run_configuration import Configuration, LeftOut, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.errors import ConfigError
from orchestrator.kinds.ops.settings import COMPILED, EAGER
from orchestrator.plan.planner import cell_seed, modes_of, rounds_of
from orchestrator.plan.probes import PROBES
from protocol.cell import Cell, CompileMode, Device, Mode, ModelSpec, OperatorSpec, Precision, Workload


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan. Raises ConfigError where no operator has a requested precision."""
    mode = modes_of(configuration, devices)[0]
    cells: dict[str, Cell] = {}
    order: dict[str, tuple[tuple[str, int], ...]] = {}
    for device in devices:
        mine = list(_cells(configuration, device, mode))
        cells |= {cell.id: cell for cell in mine}
        rounds = rounds_of(len(mine), configuration.launches, configuration.seed)
        order[device.uuid] = tuple((mine[which].id, number) for number, block in enumerate(rounds) for which in block)
    if all(cell.workload is Workload.PROBE for cell in cells.values()):
        raise ConfigError(f"-p {','.join(configuration.precisions)}: none of these operators has such a precision")
    return Plan(cells=tuple(cells.values()), order=order, left_out=tuple(_exclusions(configuration, devices)))


def operator_of(model: ModelSpec) -> OperatorSpec:
    """Return the operator that cells of this entry measure."""
    assert model.operator is not None
    return model.operator


def _cells(configuration: Configuration, device: Device, mode: Mode) -> Iterator[Cell]:
    def cell(
        model: ModelSpec, workload: Workload, precision: Precision, compile_mode: CompileMode = CompileMode.EAGER
    ) -> Cell:
        name = model.operator.name if model.operator else model.name  # implementations get the same inputs
        return Cell(
            devices=(device.uuid,),
            model=model.name,
            workload=workload,
            precision=precision,
            batch_size=1,
            mode=mode,
            compile_mode=compile_mode,
            seed=cell_seed(configuration.seed, name, workload),
        )

    for model in configuration.models:
        for precision in _precisions(model, configuration):
            if model.own is not None or EAGER in configuration.implementations:
                yield cell(model, Workload.OPERATOR, precision)
            if model.own is None and COMPILED in configuration.implementations:
                yield cell(model, Workload.OPERATOR, precision, CompileMode.DEFAULT)
    for probe in configuration.probes:
        facts = PROBES[probe.name]
        if facts.reference:
            for precision in configuration.precisions if facts.each_precision else (Precision.FP32,):
                yield cell(probe, Workload.PROBE, precision)


def _precisions(model: ModelSpec, configuration: Configuration) -> list[Precision]:
    return [one for one in configuration.precisions if one in operator_of(model).tolerance]


def _exclusions(configuration: Configuration, devices: Sequence[Device]) -> Iterator[LeftOut]:
    for model in configuration.models:
        if not _precisions(model, configuration):
            why = f"not applicable: its precisions are {listed(operator_of(model).tolerance, 'and')}"
            yield from (LeftOut(device=device.uuid, model=model.name, why=why) for device in devices)
