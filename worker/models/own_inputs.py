"""Inputs of the user's own models: nested tensors, flattened for the measurement and restored for each call.

example ── dict, list, tuple of tensors ──▶ Batch, flat, by name ── moved, cast, laid out ──▶ the same nesting again
"""

import typing
from collections.abc import Callable, Iterable, Mapping

import msgspec
import torch
from torch.utils import _pytree

from protocol.cell import InputSpec, ModelSpec
from worker.errors import ModelCodeError
from worker.models.base import Batch, Feed


class Inputs:
    """Example of a model's arguments: `take` returns its tensors, `restored` puts other tensors in their place.

    The example is a tuple (arguments by position), a dict (by name), a tuple of these two, or the only argument.
    """

    def __init__(self, example: object) -> None:
        self._leaves, self._nesting = _pytree.tree_flatten(example)
        self._places = [place for place, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor)]
        self._put_together = self._quick_way(example)

    def take(self) -> Batch:
        """Return str(index in the flattened example) → tensor, and drop the tensors from this object. Call it once."""
        taken = {str(place): self._leaves[place] for place in self._places}
        for place in self._places:
            self._leaves[place] = None
        return taken

    def restored(self, batch: Batch) -> object:
        """Return the example with the tensors of `batch` in place of its own. batch: names as in `take`, in order."""
        return self._put_together(batch)

    def _quick_way(self, example: object) -> Callable[[Batch], object]:
        """Return a function that does the work of `restored`, a fast one if possible: each iteration calls it."""
        if isinstance(example, torch.Tensor):
            return lambda batch: batch["0"]
        if type(example) is dict and _all_tensors(example.values()):
            names = list(example)
            return lambda batch: dict(zip(names, batch.values(), strict=True))
        if type(example) is tuple and _all_tensors(example):
            return lambda batch: tuple(batch.values())
        return self._slow_way

    def _slow_way(self, batch: Batch) -> object:
        leaves = list(self._leaves)
        for place in self._places:
            leaves[place] = batch[str(place)]
        return _pytree.tree_unflatten(leaves, self._nesting)


def by_name(example: object) -> object:
    """Return the example (see Inputs), with a mapping of arguments by name changed to a dict, as `call` needs it."""
    if isinstance(example, Mapping) and not isinstance(example, dict):
        return dict(example)
    if type(example) is tuple and len(example) == 2 and isinstance(example[0], tuple):
        return example[0], by_name(example[1])
    return example


def hold_a_tensor(example: object) -> bool:
    """Whether there is a tensor in `example`, in any nesting of tuples, lists and dicts."""
    return any(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves(example))


def call(module: torch.nn.Module, example: object) -> object:
    """Run one forward pass on the inputs `example` (see Inputs), and return the outputs."""
    if isinstance(example, dict):
        return module(**example)
    if type(example) is not tuple:
        return module(example)
    if len(example) == 2 and isinstance(example[0], tuple) and isinstance(example[1], dict):
        return module(*example[0], **example[1])
    return module(*example)


def moved(example: object, feed: Feed) -> object:
    """Return the example on `feed.device`: fp32 tensors in `feed.dtype`, others in their own type."""
    return _pytree.tree_map(lambda leaf: _moved(leaf, feed), example)


def drawn(spec: ModelSpec, module: torch.nn.Module, feed: Feed) -> object:
    """Draw random inputs as `spec` describes them. Raises ModelCodeError if they need an unknown vocabulary size.

    Returns a dict if forward takes them by name (`spec.own.by_name`), else a tuple, or the tensor of a single input.
    """
    entries = tuple(_with_vocabulary(entry, module) for entry in spec.inputs)
    values = feed.inputs(msgspec.structs.replace(spec, inputs=entries))
    if spec.own is not None and spec.own.by_name:
        return values
    return tuple(values.values()) if len(values) > 1 else next(iter(values.values()))


def lengths(example: object) -> dict[str, int]:
    """Return path → length of each list, tuple and dict in `example`, and of each axis of its tensors.

    The path "" is `example` itself, "['ids']" its entry of that name, and "['ids']:0" the first axis of that tensor.
    """
    if isinstance(example, torch.Tensor):
        return {f":{axis}": length for axis, length in enumerate(example.shape)}
    if isinstance(example, list | tuple):
        parts: Iterable[tuple[object, object]] = enumerate(example)
    elif isinstance(example, dict):
        parts = example.items()
    else:
        return {}
    inner = {f"[{key!r}]{place}": length for key, part in parts for place, length in lengths(part).items()}
    return {"": len(example), **inner}


def _all_tensors(things: Iterable[object]) -> bool:
    return all(isinstance(thing, torch.Tensor) for thing in things)


def _with_vocabulary(entry: InputSpec, module: torch.nn.Module) -> InputSpec:
    """Return `entry`. If it is int32 or int64 and has no `high`, its `high` becomes the model's vocab_size.

    Raises ModelCodeError if the model then has no vocab_size.
    """
    if entry.dtype not in {"int64", "int32"} or entry.high:
        return entry
    size = getattr(getattr(module, "config", None), "vocab_size", None)
    if not isinstance(size, int):
        raise ModelCodeError(
            f"input {entry.name}: the size of the vocabulary is unknown. Give `high`, the largest number plus 1, as "
            f"in {entry.name}: {{shape: [1, 128], dtype: int64, high: 30522}}"
        )
    return msgspec.structs.replace(entry, high=size)


def _moved(leaf: object, feed: Feed) -> typing.Any:  # noqa: ANN401 - whatever the user's code put into its inputs
    if isinstance(leaf, torch.Tensor):
        dtype = feed.dtype if leaf.dtype is torch.float32 else leaf.dtype
        moved = leaf.detach().to(device=feed.device, dtype=dtype)
        return moved.requires_grad_(leaf.requires_grad and torch.is_grad_enabled())
    move = getattr(leaf, "to", None)
    return move(feed.device) if callable(move) else leaf
