"""Choose launches (measurements) that also call a compiled model with changing input sizes (--compile-shapes). Pure.

These are the first launches of compiled inference cells with a fixed batch size.
"""

from orchestrator.config.run_configuration import Configuration
from protocol.cell import AUTO, Cell, Workload
from protocol.messages import ChangingShapes


def can_meet(cell: Cell, configuration: Configuration) -> bool:
    """Whether a cell may get changing input sizes: compiled inference, if the run does not scan batch sizes."""
    return cell.compiles and cell.workload is Workload.INFERENCE and AUTO not in configuration.batch_sizes


def of_launch(cell: Cell, configuration: Configuration, round_: int) -> ChangingShapes | None:
    """Return the input sizes with which a launch calls its model after the measurement, None if there are none.

    round_: the launch's round. Only round 0 has such calls, and only if --compile-shapes requested them.
    """
    return configuration.shapes if round_ == 0 and can_meet(cell, configuration) else None


def forms(cell: Cell, configuration: Configuration, round_: int) -> int:
    """Estimate the number of graphs that a launch compiles for changing input sizes; 0 without such sizes.

    Each size is compiled twice, as it is and padded, and one dynamic graph serves all sizes.
    round_: the launch's round.
    """
    shapes = of_launch(cell, configuration, round_)
    return 0 if shapes is None else 2 * len(shapes.sizes) + 1
