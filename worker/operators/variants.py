"""Implementations of operators besides eager: im2col, and single backends of scaled dot product attention."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from worker.errors import UnsupportedError
from worker.operators.functions import FUNCTIONS, Function

_REFUSED: Final = re.compile(r"No available kernel|No viable backend")
_NO_REASON: Final = re.compile(r"kernel not used because:|runtime disabled")
"""Warnings that only introduce a reason, or name the backends that were not requested."""
_PLACE: Final = re.compile(r"\s*\(Triggered internally at .*", re.DOTALL)


@dataclass(frozen=True)
class Implementation:
    """A function, and the maker of the context manager (`with`) in which it is called."""

    function: Function
    context: Callable[[], AbstractContextManager[None]] = nullcontext


def im2col(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Compute a convolution of square images, padded to keep their side, as one matrix product of their patches."""
    kernel = weight.shape[-1]
    padding = kernel // 2
    side = images.shape[-1] + 2 * padding - kernel + 1
    columns = functional.unfold(images, kernel, padding=padding)
    return (weight.flatten(1) @ columns).view(len(images), len(weight), side, side)


@contextmanager
def only(backend: SDPBackend) -> Iterator[None]:
    """Let attention in the `with` body use only this backend. Raises UnsupportedError if it refuses the inputs."""
    with warnings.catch_warnings(record=True) as said, sdpa_kernel(backend):
        warnings.simplefilter("always")
        try:
            yield
        except RuntimeError as error:
            if not _REFUSED.search(str(error)):
                raise
            raise UnsupportedError(_reason([str(one.message) for one in said], str(error))) from error


def implementation(operator: str, variant: str) -> Implementation:
    """Return the implementation of an operator: a variant, or eager if `variant` is "". Unknown names: KeyError."""
    return VARIANTS[operator, variant] if variant else Implementation(FUNCTIONS[operator])


def _reason(said: Sequence[str], error: str) -> str:
    reasons = dict.fromkeys(_PLACE.sub("", text) for text in said if not _NO_REASON.search(text))
    return " ".join(reasons) or error.partition(". ")[0]


_BACKENDS: Final = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
VARIANTS: Final = {("conv2d", "im2col"): Implementation(im2col)} | {
    (operator, name): Implementation(FUNCTIONS[operator], partial(only, backend))
    for operator in ("attention", "attention_causal")
    for name, backend in _BACKENDS.items()
}
