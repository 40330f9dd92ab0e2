"""Verify an operator against its reference in fp64: shape, values, gradient.

The deviation is the largest |x - r| / (|r| + rms(r)) over all elements: relative, but elements near zero need
not be more exact than the arithmetic of the others allows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch.utils import dlpack

from worker.operators.functions import Function

_LEAST: Final = 1e-300
_APART: Final = 1
"""Difference between the seeds of inputs and gradient: with the numbers of an input, the exact gradient of a
normalisation is nearly zero."""


@dataclass(frozen=True)
class Verified:
    """Outcome. deviation: None where it is infinite, NaN, or no values were compared. wrong: what differs.

    no_gradient: the output has none to verify. compared: shape and type are right, so that values were compared.
    """

    deviation: float | None
    wrong: str
    no_gradient: bool
    compared: bool = True


def _other(what: str) -> Verified:
    return Verified(None, what, no_gradient=True, compared=False)


def verify(
    function: Function, reference: Function, inputs: Sequence[torch.Tensor], upstream_seed: int, tolerance: float, *,
    backward: bool,
) -> Verified:  # fmt: skip
    """Call both on the same inputs and compare. Waits for the device. Errors of the function are raised."""
    mine = [_leaf(tensor, backward=backward) for tensor in inputs]
    exact = [_leaf(_widened(tensor), backward=backward) for tensor in inputs]
    with torch.set_grad_enabled(backward):
        expected = reference(*exact)
        found = as_tensor(function(*mine))
    if found.shape != expected.shape:
        return _other(f"shape {list(found.shape)}, expected {list(expected.shape)}")
    wanted = next(tensor.dtype for tensor in mine if tensor.is_floating_point())
    if found.dtype != wanted:
        return _other(f"type {found.dtype}, expected {wanted}")
    if found.device != mine[0].device:
        return _other(f"the output is on {found.device}, expected {mine[0].device}")
    for place, (one, other) in enumerate(zip(mine, exact, strict=True), 1):
        if not torch.equal(_widened(one.detach()), other.detach()):
            return Verified(None, f"it changes its input {place}", no_gradient=True)
    worst = deviation(found.detach(), expected.detach())
    if not worst <= tolerance:  # NaN is no number below the tolerance
        return Verified(_finite(worst), f"values deviate by {worst:.3g}, allowed {tolerance:.3g}", no_gradient=True)
    if not backward or not found.requires_grad:
        return Verified(worst, "", no_gradient=backward)
    gradient = upstream(found, upstream_seed)
    floats = [place for place, tensor in enumerate(mine) if tensor.requires_grad]
    ours = torch.autograd.grad(found, [mine[place] for place in floats], gradient, allow_unused=True)
    theirs = torch.autograd.grad(expected, [exact[place] for place in floats], gradient.double())
    for place, one, other in zip(floats, ours, theirs, strict=True):
        off = float("inf") if one is None else deviation(one, other)
        if not off <= tolerance:
            return Verified(
                _finite(off), f"the gradient of input {place + 1} deviates by {off:.3g}, allowed {tolerance:.3g}",
                no_gradient=False,
            )  # fmt: skip
        worst = max(worst, off)
    return Verified(worst, "", no_gradient=False)


def upstream(output: torch.Tensor, seed: int) -> torch.Tensor:
    """A random gradient of the output: ones would hide a transposed or permuted one. seed: of the inputs."""
    generator = torch.Generator(device=output.device).manual_seed(seed + _APART)
    return torch.randn(output.shape, generator=generator, device=output.device, dtype=output.dtype)


def deviation(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest deviation; infinite for another shape, NaN where either is NaN."""
    if found.shape != exact.shape:
        return float("inf")
    usual = exact.square().mean().sqrt()
    return float(((found.double() - exact).abs() / (exact.abs() + usual).clamp_min(_LEAST)).max())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_tensor(output: object) -> torch.Tensor:
    """The output of a function: a tensor, or what another framework shares through DLPack. Raises TypeError."""
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "__dlpack__"):
        shared: torch.Tensor = dlpack.from_dlpack(output)
        return shared
    raise TypeError(f"the function returned {type(output).__name__}, expected one tensor")


def _leaf(tensor: torch.Tensor, *, backward: bool) -> torch.Tensor:
    return tensor.detach().requires_grad_(backward and tensor.is_floating_point())


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()
