"""Choose the launches that call a compiled model with changing input sizes after measuring it (--compile-shapes). Pure.

These are the first launches of compiled inference cells with a fixed batch size.
"""

from orchestrator.config.run_configuration import Configuration
from protocol.cell import AUTO, Cell, Workload
from protocol.messages import ChangingShapes


def can_meet(cell: Cell, configuration: Configuration) -> bool:
    """Whether a cell is compiled inference at a fixed batch size. cell: with its planned or its actual batch size."""
    return cell.compiles and cell.workload is Workload.INFERENCE and AUTO not in configuration.batch_sizes


def of_launch(cell: Cell, configuration: Configuration, round_: int) -> ChangingShapes | None:
    """Return the changing input sizes that a launch calls its model with; None if it has no such calls."""
    return configuration.shapes if round_ == 0 and can_meet(cell, configuration) else None


def forms(cell: Cell, configuration: Configuration, round_: int) -> int:
    """Return how many more graphs a launch compiles for changing sizes: static and padded for each, dynamic once."""
    shapes = of_launch(cell, configuration, round_)
    return 0 if shapes is None else 2 * len(shapes.sizes) + 1
