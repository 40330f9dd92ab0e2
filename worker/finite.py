"""Whether a loss is a number: the check behind every training step, and of the fault that proves it. Without torch."""

import math

from worker.errors import NotFiniteError


def total(losses: dict[str, float]) -> float:
    """The sum over all parts of a step. Raises NotFiniteError where one of them is NaN or infinite."""
    found = sum(losses.values())
    if not math.isfinite(found):
        parts = ", ".join(f"{name} {loss}" for name, loss in losses.items())
        raise NotFiniteError(f"the loss is {found} after the last step ({parts})")
    return found
