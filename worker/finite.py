"""Check that a loss is a finite number. Does not import torch."""

import math

from worker.errors import NotFiniteError


def total(losses: dict[str, float]) -> float:
    """Return the sum of a training step's losses (name → loss). Raises NotFiniteError if the sum is NaN or infinite."""
    loss = sum(losses.values())
    if not math.isfinite(loss):
        parts = ", ".join(f"{name} {part}" for name, part in losses.items())
        raise NotFiniteError(f"the loss is {loss} after the last step ({parts})")
    return loss
