"""The plan of a study: on each device, a cell for each operation, implementation, size and precision. Pure.

Of the requested precisions, an operation gets only those that it supports.
"""

from collections.abc import Iterator, Sequence

from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.kinds.study.grid import compiles
from orchestrator.plan.operator_cells import Place, cell, operator_of, planned, precisions
from protocol.cell import Cell, Device, Workload


def make(configuration: Configuration, devices: Sequence[Device]) -> Plan:
    """Return the plan of a study. Raises ConfigError if no operation supports any requested precision."""
    return planned(configuration, devices, _cells)


def _cells(place: Place) -> Iterator[Cell]:
    for model in place.configuration.models:
        for precision in precisions(model, place.configuration):
            compiled = compiles(operator_of(model).implementation)
            yield cell(place, model, Workload.OPERATOR, precision, compiled=compiled)
