"""64-bit digest of an output, made on the device without waiting for it: 8 bytes verify 128 MiB.

    digest = Σ_r R[r] · Σ_c C[c] · word[r, c]   modulo 2^64

A word is 32 bits of the output, as a signed number. R and C are random odd weights that depend only on seed and shape.
R has 32 bits for each row, which a GPU multiplies in one instruction, and C has 64 for each column of words. Sums of
whole numbers are the same in any order, so every device and implementation gives the same digest.

Let d be the change of a word, |d| < 2^32: at most 31 of its low bits are zero. Detected changes:
- In one word: always. R·C·d is zero modulo 2^64 only if d is, because R·C is odd.
- In several words of a row: all but a share of 2^-32, over random weights. To be missed, the weight of the last word
  must match 32 bits that the other weights determine.
- In several rows: all but a share of 2^-25, because weights of columns and of rows can share the bits to match.
With words of 64 bits, two flips of the highest bit would never be found: 2^63 times an odd number is 2^63, and twice
that is 2^64. A plain sum and an exclusive or also miss flips of the same bit in two words.
"""

from collections.abc import Callable
from typing import Final

import torch

from worker.verify import seeded

_ROWS, _COLUMNS, _TRIED = 101, 102, 103
"""Streams of random numbers (seeded.py): row weights, column weights, and words that test an implementation."""
_CHUNK: Final = 1 << 23  # words that the stock operators take at once: their products are 64 MiB
_WORD: Final = 1 << 64

Add = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int], None]
"""Function of (words, row weights, column weights, totals, slot) that adds the words' digest to totals[slot]."""


class Digester:
    """Makes digests of outputs shaped as `like`: on a GPU by Triton if it works, otherwise by torch's own operators.

    method: name of the implementation, with the reason if Triton failed. stock: True to avoid Triton.
    """

    def __init__(self, like: torch.Tensor, seed: int, *, stock: bool = False) -> None:
        """Draw the weights from `seed`. Raises ValueError if `like` is unsuitable.

        It must be a contiguous matrix whose rows are whole 32-bit words.
        """
        rows, columns = words(like).shape
        self._rows = seeded.odd(seed, _ROWS, rows, like.device).to(torch.int32)
        self._columns = seeded.odd(seed, _COLUMNS, columns, like.device)
        self._add: Add = add_stock
        self.method = "torch's own operators"
        if like.is_cuda and not stock:
            self._try_triton(like, seed)

    def add(self, output: torch.Tensor, totals: torch.Tensor, slot: int) -> None:
        """Add the output's digest to totals[slot], an int64 that must be zero before. Does not wait for the device."""
        self._add(words(output), self._rows, self._columns, totals, slot)

    def of(self, output: torch.Tensor) -> int:
        """Return the digest of `output`, 0 to 2^64 - 1. Waits for the device."""
        total = torch.zeros(1, dtype=torch.int64, device=output.device)
        self.add(output, total, 0)
        return int(total.item()) % _WORD

    def _try_triton(self, like: torch.Tensor, seed: int) -> None:
        try:
            from worker.verify import triton_digest

            self._add = triton_digest.add
            reason = "" if self._is_as_stock(like, seed) else "another digest"
        except Exception as error:  # noqa: BLE001 - a missing package, compiler or cache raises anything; stock works
            reason = type(error).__name__
        if reason:
            self._add = add_stock
        self.method = f"torch's own operators (Triton: {reason})" if reason else "Triton, in one pass"

    def _is_as_stock(self, like: torch.Tensor, seed: int) -> bool:
        output, stock = torch.empty_like(like), Digester(like, seed, stock=True)
        matrix = words(output)
        matrix.copy_(seeded.bits(seed, _TRIED, matrix.numel(), like.device).view_as(matrix))  # their lower 32 bits
        before = self.of(output)
        expected = stock.of(output)
        matrix[-1, -1] ^= 1
        return before == expected != stock.of(output) == self.of(output)


def words(output: torch.Tensor) -> torch.Tensor:
    """View a contiguous matrix as signed 32-bit words. ValueError for others, or if a row is not in whole words."""
    if output.dim() != 2 or output.shape[1] * output.element_size() % 4 or not output.is_contiguous():
        raise ValueError(
            f"an output of shape {tuple(output.shape)} with {output.element_size()} bytes per element cannot be "
            "digested: it must be a contiguous matrix with rows of a multiple of 4 bytes. Choose an even input size"
        )
    return output.view(torch.int32)


def add_stock(matrix: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, totals: torch.Tensor, slot: int) -> None:
    """Add the digest of `matrix` to totals[slot] by torch's own operators.

    matrix: result of `words`. rows, columns: weights R (int32) and C (int64) of the formula in the module's docstring,
    one for each row and column of `matrix`. totals: int64 on the device of `matrix`.
    """
    step = max(_CHUNK // len(columns), 1)
    for at in range(0, len(rows), step):
        inner = (matrix[at : at + step] * columns).sum(dim=1)  # int32 times int64 is computed as int64, and wraps
        totals[slot].add_((inner * rows[at : at + step]).sum())
