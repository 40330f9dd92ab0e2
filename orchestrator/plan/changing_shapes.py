"""Choose launches (measurements) that also call a compiled model with changing input sizes (--compile-shapes). Pure.

These are the first launches of compiled inference cells with a fixed batch size.
"""

from orchestrator.config.run_configuration import Configuration
from protocol.cell import AUTO, Cell, Workload
from protocol.messages import ChangingShapes


def can_meet(cell: Cell, configuration: Configuration) -> bool:
    """Whether a cell is compiled inference in a run without a search for the batch size."""
    return cell.compiles and cell.workload is Workload.INFERENCE and AUTO not in configuration.batch_sizes


def of_launch(cell: Cell, configuration: Configuration, round_: int) -> ChangingShapes | None:
    """Return the input sizes that a launch in round `round_` calls its model with afterwards; None for none."""
    return configuration.shapes if round_ == 0 and can_meet(cell, configuration) else None


def forms(cell: Cell, configuration: Configuration, round_: int) -> int:
    """Return how many graphs a launch compiles for changing sizes: static and padded for each size, one dynamic."""
    shapes = of_launch(cell, configuration, round_)
    return 0 if shapes is None else 2 * len(shapes.sizes) + 1
