"""Check that a loss is a finite number, without torch."""

import math

from worker.errors import NotFiniteError


def total(losses: dict[str, float]) -> float:
    """Sum over all parts of a step. Raises NotFiniteError where one of them is NaN or infinite."""
    found = sum(losses.values())
    if not math.isfinite(found):
        parts = ", ".join(f"{name} {loss}" for name, loss in losses.items())
        raise NotFiniteError(f"the loss is {found} after the last step ({parts})")
    return found
