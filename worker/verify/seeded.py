"""Random numbers that depend on a seed alone: not on the device, the version of torch, or the order of calls.

torch's generators differ between CPU and CUDA. Here the number at an index is splitmix64 of the index (Steele, Lea,
Flood 2014), by exact integer operators. A seed has independent sequences of numbers, called streams, by number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FACTORS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT: Final = 31
_WORD: Final = 1 << 64
_CHUNK: Final = 1 << 23  # numbers that are made at once: 64 MiB for each of a few temporaries
_PIECES_MEAN: Final = 4 * 65_535 // 2
_TF32_HIDDEN: Final = (1 << 13) - 1  # bits of an fp32 that tf32 does not have


def bits(seed: int, stream: int, count: int, device: torch.device, start: int = 0) -> torch.Tensor:
    """Return `count` random 64-bit words of a stream, from index `start` on: int64 of shape (count,)."""
    first = (_mixed(_mixed(seed % _WORD) + stream) + start * _GOLDEN) % _WORD
    words = torch.arange(count, dtype=torch.int64, device=device)
    words.mul_(_signed(_GOLDEN)).add_(_signed(first))
    for shift, factor in _FACTORS:
        _fold(words, shift)
        words.mul_(_signed(factor))
    return _fold(words, _LAST_SHIFT)


def odd(seed: int, stream: int, count: int, device: torch.device) -> torch.Tensor:
    """Return the first `count` words of a stream, each made odd by setting its lowest bit: int64 of shape (count,)."""
    return bits(seed, stream, count, device).bitwise_or_(1)


def whole(words: torch.Tensor, most: int) -> torch.Tensor:
    """Turn random words into whole numbers from -most to most, in place, and return them."""
    return words.bitwise_right_shift_(1).bitwise_and_(_WORD // 4 - 1).remainder_(2 * most + 1).sub_(most)


@dataclass(frozen=True)
class Squares:
    """Random matrices of shape (side, side), a different one for each stream of the seed."""

    seed: int
    side: int
    dtype: torch.dtype
    device: torch.device

    def whole(self, stream: int, most: int) -> torch.Tensor:
        """Return a matrix of whole numbers from -most to most, which `dtype` must be able to hold."""
        return self._filled(stream, lambda words: whole(words, most))

    def bell(self, stream: int, *, tf32: bool) -> torch.Tensor:
        """Return a matrix of nearly normal numbers, standard deviation 1.15. tf32: clear the bits that tf32 lacks."""

        def numbers(words: torch.Tensor) -> torch.Tensor:
            total = torch.full_like(words, -_PIECES_MEAN)
            for shift in range(0, 64, 16):
                total.add_(words.bitwise_right_shift(shift).bitwise_and_(0xFFFF))
            scaled = total.to(torch.float32).mul_(2.0**-15)
            if tf32:
                scaled.view(torch.int32).bitwise_and_(~_TF32_HIDDEN)
            return scaled

        return self._filled(stream, numbers)

    def _filled(self, stream: int, numbers: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        flat = torch.empty(self.side**2, dtype=self.dtype, device=self.device)
        for at in range(0, len(flat), _CHUNK):
            part = flat[at : at + _CHUNK]
            part.copy_(numbers(bits(self.seed, stream, len(part), self.device, start=at)))
        return flat.view(self.side, self.side)


def _mixed(value: int) -> int:
    value = (value + _GOLDEN) % _WORD  # splitmix64, as in `bits`
    for shift, factor in _FACTORS:
        value = (value ^ (value >> shift)) * factor % _WORD
    return value ^ (value >> _LAST_SHIFT)


def _fold(words: torch.Tensor, shift: int) -> torch.Tensor:
    """Compute words ^ (words >> shift) in place. The shift fills with zeros instead of the sign."""
    return words.bitwise_xor_(words.bitwise_right_shift(shift).bitwise_and_((1 << (64 - shift)) - 1))


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word
