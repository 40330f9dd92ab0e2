"""Find and check the tensors in the outputs of a model, in any nesting."""

import dataclasses
import math
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import Final

import torch
from torch.utils import _pytree

from worker.errors import ModelCodeError, NotFiniteError

_NOT_RUN: Final = (Iterator, AsyncIterator, Awaitable)
"""Types of outputs that are not computed until they are consumed."""


def tensors(outputs: object) -> Iterator[torch.Tensor]:
    """Yield every tensor in `outputs`, in any nesting of lists, tuples, mappings and dataclasses. Skips all else."""
    if isinstance(outputs, torch.Tensor):  # most models return one, and a timed latency walks it
        yield outputs
        return
    for leaf in _pytree.tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            for value in leaf.values():
                yield from tensors(value)
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for field in dataclasses.fields(leaf):
                yield from tensors(getattr(leaf, field.name))


def require_computed(outputs: object, name: str) -> object:
    """Return `outputs`. Raises ModelCodeError if nothing is computed: each is None, an iterator or an awaitable.

    name: of the model, for the message.
    """
    leaves = _pytree.tree_leaves(outputs)
    if all(leaf is None or isinstance(leaf, _NOT_RUN) for leaf in leaves):
        what = (
            "nothing" if all(leaf is None for leaf in leaves) else f"a {type(leaves[0]).__name__} that is not consumed"
        )
        raise ModelCodeError(
            f"forward of {name} returned {what}, so its time would not include the computation. Return the result. "
            "If the model does a whole training step, define train_step(batch) and use --phases training"
        )
    return outputs


def require_finite(outputs: object, *, infinite: bool) -> None:
    """Raise NotFiniteError if an output tensor holds NaN, or infinity while `infinite` is False. Waits for the device.

    Not checked: sparse tensors, tensors of integers and torch's own nested tensors (tensor.is_nested).
    """
    for number, tensor in enumerate(tensors(outputs), start=1):
        for extreme in _extremes(tensor):
            if math.isnan(extreme) or (math.isinf(extreme) and not infinite):
                raise NotFiniteError(
                    f"output {number} of the model, of shape {tuple(tensor.shape)} in "
                    f"{str(tensor.dtype).removeprefix('torch.')}, holds {extreme}"
                )


def _extremes(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return (minimum, maximum), both NaN if any element is; () for nested, sparse, empty or integer tensors."""
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.numel() == 0:
        return ()  # torch has no aminmax for them
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_floating_point():
        return ()
    if tensor.dtype.itemsize == 1:
        tensor = tensor.float()  # torch cannot compare numbers of eight bits
    return tuple(torch.stack(torch.aminmax(tensor)).tolist())
