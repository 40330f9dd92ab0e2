"""The tensors in whatever a model returns: to be copied to the host, looked at, or trained by."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import Final

import torch
from torch.utils import _pytree

from worker.errors import ModelCodeError

_NOT_RUN: Final = (Iterator, AsyncIterator, Awaitable)
"""What is computed only when somebody asks for it, as nobody does here."""


def tensors(outputs: object) -> Iterator[torch.Tensor]:
    """Every tensor, in any nesting of what torch knows as a nesting, of mappings and of dataclasses; nothing else."""
    for leaf in _pytree.tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            for value in leaf.values():
                yield from tensors(value)
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for field in dataclasses.fields(leaf):
                yield from tensors(getattr(leaf, field.name))


def some(outputs: object, name: str) -> object:
    """What a forward pass of the model `name` has put out. Raises ModelCodeError for nothing, or nothing computed yet.

    What is no tensor is let pass: a list of words or numbers may be what the model makes.
    """
    leaves = _pytree.tree_leaves(outputs)
    if all(leaf is None or isinstance(leaf, _NOT_RUN) for leaf in leaves):
        what = "nothing" if all(leaf is None for leaf in leaves) else f"a {type(leaves[0]).__name__}, which nobody runs"
        raise ModelCodeError(
            f"forward of {name} returned {what}, so that its time would be that of no computation. Return what it "
            "computes; a model whose work is a whole training step has a train_step(batch): measure it with "
            "--phases training"
        )
    return outputs
