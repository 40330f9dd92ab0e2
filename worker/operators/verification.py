"""Verify an operator against its reference in fp64: shape, values with and without gradients, gradient.

The deviation of values x from the reference r is the largest |x - r| / (|r| + rms(r)) over all elements. It is
relative. Because of rms(r), an element near zero may be off by as much as elements of the usual size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch.utils import dlpack

from worker.operators.functions import Function

_LEAST: Final = 1e-300
_APART: Final = 1
"""Difference between the seeds of inputs and gradient. If both had the same numbers, the exact gradient of a
normalisation would be nearly zero."""


@dataclass(frozen=True)
class Verified:
    """Outcome of a verification.

    wrong: the first error, such as "shape [2], expected [3]", or "" if there is none. deviation: largest deviation (see
    the module) of output and gradients. If one of these is wrong, only its own deviation counts. None if the deviation
    is infinite or NaN, or if no values were compared. no_gradient: True if the output is wrong. Also True, without an
    error, if a requested backward pass is impossible because the output does not require a gradient. compared: False if
    shape, type or device is wrong.
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
    """Call `function` and `reference` on the same inputs and compare. Errors of the function are raised.

    upstream_seed: seed of the output's random gradient. tolerance: largest allowed deviation (see the module).
    backward: True to verify a call with gradients, then one under no_grad, because torch.compile makes a kernel for
    each. False to verify only the one under no_grad.
    """
    leaves = [_leaf(_widened(tensor), backward=backward) for tensor in inputs]
    with torch.set_grad_enabled(backward):
        exact = _Exact(leaves, reference(*leaves))
    if not backward:
        return _inference(function, inputs, exact, tolerance)
    trained = _training(function, inputs, exact, upstream_seed, tolerance)
    if trained.wrong:
        return trained
    inferred = _inference(function, inputs, exact, tolerance)
    if inferred.wrong:
        return replace(inferred, wrong=f"{inferred.wrong} (under torch.no_grad)")
    return replace(trained, deviation=max(trained.deviation or 0.0, inferred.deviation or 0.0))


@dataclass(frozen=True)
class _Exact:
    """Inputs and output of the reference, in fp64."""

    inputs: Sequence[torch.Tensor]
    output: torch.Tensor


def _inference(function: Function, inputs: Sequence[torch.Tensor], exact: _Exact, tolerance: float) -> Verified:
    mine = [_leaf(tensor, backward=False) for tensor in inputs]
    with torch.no_grad():
        found = as_tensor(function(*mine))
    return _forward(found, mine, exact, tolerance)


def _training(
    function: Function, inputs: Sequence[torch.Tensor], exact: _Exact, upstream_seed: int, tolerance: float
) -> Verified:
    mine = [_leaf(tensor, backward=True) for tensor in inputs]
    found = as_tensor(function(*mine))
    forward = _forward(found, mine, exact, tolerance)
    if forward.wrong or not found.requires_grad:
        return replace(forward, no_gradient=True)
    worst = forward.deviation or 0.0
    gradient = upstream(found, upstream_seed)
    floats = [place for place, tensor in enumerate(mine) if tensor.requires_grad]
    ours = torch.autograd.grad(found, [mine[place] for place in floats], gradient, allow_unused=True)
    theirs = torch.autograd.grad(exact.output, [exact.inputs[place] for place in floats], gradient.double())
    for place, one, other in zip(floats, ours, theirs, strict=True):
        off = float("inf") if one is None else deviation(one, other)
        if not off <= tolerance:
            return Verified(
                _finite(off), f"the gradient of input {place + 1} deviates by {off:.3g}, allowed {tolerance:.3g}",
                no_gradient=False,
            )  # fmt: skip
        worst = max(worst, off)
    return Verified(worst, "", no_gradient=False)


def _forward(found: torch.Tensor, mine: Sequence[torch.Tensor], exact: _Exact, tolerance: float) -> Verified:
    """Compare the output `found` with the exact one, and the inputs `mine` after the call with those before it.

    tolerance: largest allowed deviation (see the module).
    """
    if found.shape != exact.output.shape:
        return _other(f"shape {list(found.shape)}, expected {list(exact.output.shape)}")
    wanted = next(tensor.dtype for tensor in mine if tensor.is_floating_point())
    if found.dtype != wanted:
        return _other(f"type {found.dtype}, expected {wanted}")
    if found.device != mine[0].device:
        return _other(f"the output is on {found.device}, expected {mine[0].device}")
    for place, (one, other) in enumerate(zip(mine, exact.inputs, strict=True), 1):
        if not torch.equal(_widened(one.detach()), other.detach()):
            return Verified(None, f"it changes its input {place}", no_gradient=True)
    worst = deviation(found.detach(), exact.output.detach())
    if not worst <= tolerance:  # NaN must not pass
        return Verified(_finite(worst), f"values deviate by {worst:.3g}, allowed {tolerance:.3g}", no_gradient=True)
    return Verified(worst, "", no_gradient=False)


def upstream(output: torch.Tensor, seed: int) -> torch.Tensor:
    """Draw a normally distributed gradient, shaped as the output. A gradient of ones would hide a transposed result."""
    generator = torch.Generator(device=output.device).manual_seed(seed + _APART)
    return torch.randn(output.shape, generator=generator, device=output.device, dtype=output.dtype)


def deviation(output: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the deviation of `output` (see the module); infinite if shapes differ, NaN if a value is NaN."""
    if output.shape != exact.shape:
        return float("inf")
    usual = exact.square().mean().sqrt()
    return float(((output.double() - exact).abs() / (exact.abs() + usual).clamp_min(_LEAST)).max())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_tensor(output: object) -> torch.Tensor:
    """Return an output as a tensor, other frameworks' arrays through DLPack. Raises TypeError if it is neither."""
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
