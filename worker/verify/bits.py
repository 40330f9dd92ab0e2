"""Comparison of outputs bit by bit. As floats, -0.0 equals 0.0, and NaN differs from itself."""

from dataclasses import dataclass
from typing import Final

import torch

from protocol.verification import KEPT_ELEMENTS, Element

_INTEGERS: Final = {2: torch.int16, 4: torch.int32}
_CHUNK: Final = 1 << 23  # elements that are compared at once, to limit the memory


@dataclass(frozen=True)
class Differences:
    """Numbers of differing elements and bits of two outputs. first: the first differing elements, at most 16."""

    elements: int = 0
    bits: int = 0
    first: tuple[Element, ...] = ()


def integers(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of the tensor, of a type of 2 or 4 bytes, as int16 or int32."""
    return tensor.view(_INTEGERS[tensor.element_size()])


def width(tensor: torch.Tensor) -> int:
    """Return the number of bits of an element."""
    return 8 * tensor.element_size()


def signed(value: int, size: int) -> int:
    """Interpret `value`, 0 to 2^size - 1, as a signed integer of `size` bits (two's complement)."""
    return value - (1 << size) if value >> (size - 1) else value


def differences(output: torch.Tensor, expected: torch.Tensor) -> Differences:
    """Return the Differences of a contiguous output from one of equal shape and type. Waits for the device."""
    size = width(output)
    flat, right = integers(output).flatten(), integers(expected).flatten()
    elements = changed = 0
    first: list[Element] = []
    for at in range(0, flat.numel(), _CHUNK):
        xor = flat[at : at + _CHUNK] ^ right[at : at + _CHUNK]
        wrong = xor.nonzero().flatten()
        elements += wrong.numel()
        changed += sum(int((xor.bitwise_right_shift(bit) & 1).sum()) for bit in range(size)) if wrong.numel() else 0
        for offset in (wrong[: KEPT_ELEMENTS - len(first)] + at).tolist():
            first.append(_element(offset, int(right[offset]), int(flat[offset]), size))
    return Differences(elements, changed, tuple(first))


def farthest(output: torch.Tensor, expected: torch.Tensor, most: int) -> list[int]:
    """Return the offsets (flattened) of the `most` elements that differ most from `expected`, the farthest first.

    Fewer if fewer differ. NaN and infinite differences count as the largest. Waits for the device.
    """
    flat, right = output.flatten(), expected.flatten()
    apart: list[tuple[float, int]] = []
    for at in range(0, flat.numel(), _CHUNK):
        some, others = flat[at : at + _CHUNK], right[at : at + _CHUNK]
        distances = (some.double() - others.double()).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
        distances.masked_fill_(integers(some) == integers(others), -1)
        values, places = distances.topk(min(most, len(distances)))
        apart += [(value, place + at) for value, place in zip(values.tolist(), places.tolist(), strict=True)]
    return [place for value, place in sorted(apart, key=lambda entry: -entry[0])[:most] if value >= 0]


def _element(offset: int, expected: int, found: int, size: int) -> Element:
    digits, mask = size // 4, (1 << size) - 1
    return Element(offset=offset, expected=f"{expected & mask:0{digits}x}", found=f"{found & mask:0{digits}x}")
