"""Check without torch that a loss is a finite number."""

import math

from worker.errors import NotFiniteError


def total(losses: dict[str, float]) -> float:
    """Sum of the losses of a step. Raises NotFiniteError if one is NaN or infinite."""
    loss = sum(losses.values())
    if not math.isfinite(loss):
        parts = ", ".join(f"{name} {part}" for name, part in losses.items())
        raise NotFiniteError(f"the loss is {loss} after the last step ({parts})")
    return loss
