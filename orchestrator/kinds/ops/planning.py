"""Plan a run of operators: in the requested implementations and precisions, and probes of GPU limits. Pure."""

from collections.abc import Iterator, Sequence

from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.kinds.ops.settings import COMPILED, EAGER
from orchestrator.plan.operator_cells import Place, cell, planned, precisions
from orchestrator.plan.probes import PROBES
from protocol.cell import Cell, Device, Precision, Workload


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan of a run of operators. Raises ConfigError if no operator supports any requested precision."""
    return planned(configuration, devices, _cells)


def _cells(place: Place) -> Iterator[Cell]:
    configuration = place.configuration
    for model in configuration.models:
        for precision in precisions(model, configuration):
            if model.own is not None or EAGER in configuration.implementations:
                yield cell(place, model, Workload.OPERATOR, precision)
            if model.own is None and COMPILED in configuration.implementations:
                yield cell(place, model, Workload.OPERATOR, precision, compiled=True)
    for probe in configuration.probes:
        facts = PROBES[probe.name]
        if facts.reference:
            for precision in configuration.precisions if facts.each_precision else (Precision.FP32,):
                yield cell(place, probe, Workload.PROBE, precision)
