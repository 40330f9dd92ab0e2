"""What every family of models offers, and the batches that they are fed.

A family is a module of this folder with four functions, in the shape of `Family`. It builds models from their
configuration with random weights: nothing is ever downloaded. One whose models are trained in several parts has
`objectives` too (see Objective), one whose models write text is a `Writer` too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch

from protocol.cell import InputSpec, ModelSpec

Batch = dict[str, torch.Tensor]


class Family(Protocol):
    """One module of worker/models/."""

    def build(self, spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
        """The model in fp32, made on `device` directly, so that no copy of it exists elsewhere.

        input_size: the cell's, for models whose shape depends on it.
        """

    def batch(self, spec: ModelSpec, feed: "Feed") -> Batch:
        """Inputs of one iteration, and what the loss needs beside them."""

    def forward(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """One forward pass."""

    def loss(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """One forward pass and the loss natural to the model, a scalar."""


@dataclass(frozen=True)
class Objective:
    """One part of a training step: a loss, and the parameters that are changed to make it smaller.

    A model trained in one part has one, made of its family's `loss` and all its parameters. A generator and its critic
    are two, stepped one after the other, each with an optimizer of its own; their family has
    `objectives(module) -> tuple[Objective, ...]`.
    """

    name: str
    loss: Callable[[torch.nn.Module, Batch], torch.Tensor]
    parameters: Callable[[torch.nn.Module], Iterable[torch.nn.Parameter]]


class Writer(Protocol):
    """A family whose models write text token by token, keeping keys and values of what was read (the KV cache)."""

    def prefill(self, module: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, object]:
        """Read a prompt of shape (batch, length): logits of what follows it, (batch, vocabulary), and the cache."""

    def decode(self, module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
        """Read one more token of each sequence, shape (batch, 1): logits of what follows, and the cache."""


class Feed:
    """Makes the tensors of a batch: seeded random numbers, because a bf16 product of zeros runs 13 % faster [H200].

    dtype: of the floating-point inputs. input_size: what the word "size" in a shape stands for.
    """

    def __init__(
        self, *, batch_size: int, input_size: int | None, device: torch.device, dtype: torch.dtype, seed: int
    ) -> None:
        self.batch_size = batch_size
        self._words = {"batch": batch_size, "size": input_size}
        self._device = device
        self._dtype = dtype
        self._generator = torch.Generator(device=device).manual_seed(seed)

    def inputs(self, spec: ModelSpec) -> Batch:
        """The model's inputs, in the order and by the names of its description."""
        return {entry.name: self._tensor(entry) for entry in spec.inputs}

    def classes(self, high: int, shape: tuple[int, ...]) -> torch.Tensor:
        """Whole numbers from 0 to `high` - 1."""
        return torch.randint(high, shape, generator=self._generator, device=self._device)

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Numbers from 0 to 1."""
        return torch.rand(shape, generator=self._generator, device=self._device)

    def _tensor(self, entry: InputSpec) -> torch.Tensor:
        shape = tuple(self._length(entry, length) for length in entry.shape)
        if entry.dtype == "float":
            return torch.randn(shape, generator=self._generator, device=self._device, dtype=self._dtype)
        if entry.dtype == "int64":
            return self.classes(entry.high, shape)
        raise ValueError(f"input {entry.name!r}: unknown dtype {entry.dtype!r}, expected float or int64")

    def _length(self, entry: InputSpec, length: int | str) -> int:
        number = length if isinstance(length, int) else self._words.get(length)
        if number is None:
            raise ValueError(f"input {entry.name!r}: the shape needs {length!r}, which the cell does not give")
        return number
