"""Interface of a family of models, and the tensors of its batches.

A family is a module of this folder with the functions of `Family`. It builds models with random weights and downloads
nothing. Optional functions: `objectives` (training in several parts, each an Objective), those of `Writer` (text), and
`build_for_inference` (as `build`, but only the part of the model that the phases load and inference use). The user's
own models have a class instead (own.py), which can also count samples, run the user's training step, and return a hash
of the model's structure.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import torch

from protocol.cell import InputSpec, ModelSpec, Scalar

Batch = dict[str, torch.Tensor]

SIZE: Final = "size"
"""Placeholder for the cell's input size in the configuration and the shapes of a ModelSpec."""


def arguments(spec: ModelSpec, input_size: int | None) -> dict[str, Scalar]:
    """Return a copy of the model's configuration with `input_size` in place of each value "size".

    Raises ValueError if there is such a value and `input_size` is None.
    """
    config = dict(spec.config)
    for key, value in spec.config.items():
        if value == SIZE:
            if input_size is None:
                raise ValueError(f"model {spec.name!r}: {key} needs the input size, which the cell does not give")
            config[key] = input_size
    return config


def integers(spec: ModelSpec, *keys: str) -> dict[str, int]:
    """Return key → value of `keys` in the model's configuration, as whole numbers. Missing keys: KeyError."""
    return {key: int(spec.config[key]) for key in keys}


def described(spec: ModelSpec, feed: "Feed") -> Batch:
    """Make the inputs that `spec` lists, no labels: for use as `Family.batch` by families whose loss needs none."""
    return feed.inputs(spec)


def applied_to(name: str) -> Callable[[torch.nn.Module, Batch], torch.Tensor]:
    """Return a function, for use as `Family.forward`, that calls a model on one input: `name` of the batch."""

    def forward(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        output: torch.Tensor = module(batch[name])
        return output

    return forward


DTYPES: Final = {
    "float": None,
    "float32": torch.float32,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
"""InputSpec.dtype → type of the tensor. None: Feed.dtype."""


class Family(Protocol):
    """Interface of one module of worker/models/."""

    def build(self, spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
        """Build the model with random weights in fp32, directly on `device`.

        input_size: side in pixels or length in tokens, None if the model has one fixed size.
        """

    def batch(self, spec: ModelSpec, feed: "Feed") -> Batch:
        """Return name → tensor of the inputs of one iteration, and of labels if the loss needs them."""

    def forward(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Run one forward pass on the inputs in `batch` and return its outputs."""

    def loss(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Run one forward pass and return the model's usual loss, a scalar."""


@dataclass(frozen=True)
class Objective:
    """One part of a training step. loss runs forward and returns a scalar. parameters returns what to train."""

    name: str
    loss: Callable[[torch.nn.Module, Batch], torch.Tensor]
    parameters: Callable[[torch.nn.Module], Iterable[torch.nn.Parameter]]


class Writer(Protocol):
    """Interface of a family whose models generate text token by token, with a KV cache."""

    def prefill(self, module: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, object]:
        """Read a prompt (batch, length). Returns the next token's logits, (batch, vocabulary), and the KV cache."""

    def decode(self, module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
        """Read one more token of each sequence, (batch, 1), into `cache`. Returns logits and cache, as prefill."""


class Feed:
    """Makes the tensors of a batch from seeded random numbers.

    input_size: the cell's side in pixels or length in tokens, None if the model has one fixed size. dtype: of
    floating-point inputs, fp32 in training in any precision.
    """

    def __init__(
        self, *, batch_size: int, input_size: int | None, device: torch.device, dtype: torch.dtype, seed: int
    ) -> None:
        self.batch_size, self.input_size, self.device, self.dtype = batch_size, input_size, device, dtype
        self._words = {"batch": batch_size, SIZE: input_size}
        self._generator = torch.Generator(device=device).manual_seed(seed)

    def inputs(self, spec: ModelSpec) -> Batch:
        """Return name → tensor of the inputs in `spec`. ValueError: unknown dtype, or a "size" without `input_size`."""
        return {entry.name: self._tensor(entry) for entry in spec.inputs}

    def classes(self, high: int, shape: tuple[int, ...]) -> torch.Tensor:
        """Return random whole numbers from 0 to `high` - 1, int64 of this shape."""
        return torch.randint(high, shape, generator=self._generator, device=self.device)

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return random numbers from 0 to 1, fp32 of this shape."""
        return torch.rand(shape, generator=self._generator, device=self.device)

    def normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return normally distributed numbers of this shape, in `dtype`."""
        return torch.randn(shape, generator=self._generator, device=self.device, dtype=self.dtype)

    def _tensor(self, entry: InputSpec) -> torch.Tensor:
        shape = tuple(self._length(entry, length) for length in entry.shape)
        if entry.dtype not in DTYPES:
            raise ValueError(f"input {entry.name!r}: unknown dtype {entry.dtype!r}, expected {', '.join(DTYPES)}")
        dtype = DTYPES[entry.dtype] or self.dtype
        if not dtype.is_floating_point:
            low, high = (0, 2) if dtype is torch.bool else (int(entry.low), int(entry.high))
            return (low + self.classes(high - low, shape)).to(dtype)
        if entry.low == entry.high:
            return self.normal(shape).to(dtype)
        return (entry.low + (entry.high - entry.low) * self.uniform(shape)).to(dtype)

    def _length(self, entry: InputSpec, length: int | str) -> int:
        number = length if isinstance(length, int) else self._words.get(length)
        if number is None:
            raise ValueError(f"input {entry.name!r}: the shape needs {length!r}, which the cell does not give")
        return number
