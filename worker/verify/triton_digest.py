"""Digest of an output (formula: digest.py) by a Triton kernel that reads the output once.

Each program of the kernel has a tile of _ROWS x _COLUMNS words. For each column of the tile, it adds up words times the
weights of their rows. Then it multiplies each of these sums by its column's weight, and adds all of them to the digest.
"""

from typing import Final

import torch
import triton
import triton.language as tl

_ROWS: Final = 32
_COLUMNS: Final = 1024
_STEP: Final = 2
"""Rows of a tile that a program reads at once. With _ROWS and _COLUMNS, the fastest of eighty choices on an H200.

The digest of a product of 8192 x 8192 in bf16 takes 36 µs. Tiles of 8 x 512 words, one at a time, took 69 µs. Reading
the memory alone takes 31 µs."""


@triton.jit(do_not_specialize=["slot"])
def _digest(  # noqa: ANN202, PLR0917 - Triton's own language, called by position
    matrix,  # noqa: ANN001 - a pointer to Triton
    row_weights,  # noqa: ANN001 - a pointer to Triton
    column_weights,  # noqa: ANN001 - a pointer to Triton
    totals,  # noqa: ANN001 - a pointer to Triton
    slot,  # noqa: ANN001 - a number that is never compiled in
    rows,  # noqa: ANN001 - a number to Triton
    columns,  # noqa: ANN001 - a number to Triton
    height: tl.constexpr,
    width: tl.constexpr,
    step: tl.constexpr,
    fits: tl.constexpr,
):
    column = tl.program_id(0) * width + tl.arange(0, width)
    sums = tl.zeros((step, width), tl.int64)
    above = (tl.num_programs(1) - 1 - tl.program_id(1)) * height  # the rows written last are still in the cache
    for at in tl.range(0, height, step, num_stages=1):
        row = above + at + tl.arange(0, step)
        places = row.to(tl.int64)[:, None] * columns + column[None, :]
        if fits:
            words = tl.load(matrix + places, eviction_policy="evict_first")
            weights = tl.load(row_weights + row)
        else:
            within = (row < rows)[:, None] & (column < columns)[None, :]
            words = tl.load(matrix + places, mask=within, other=0)
            weights = tl.load(row_weights + row, mask=row < rows, other=0)
        sums += words.to(tl.int64) * weights.to(tl.int64)[:, None]
    sums = sums * tl.load(column_weights + column, mask=column < columns, other=0)[None, :]
    tl.atomic_add(totals + slot, tl.sum(sums))


def add(matrix: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, totals: torch.Tensor, slot: int) -> None:
    """Add the digest of `matrix` to totals[slot], an int64 on the device. Does not wait for the device.

    matrix: 32-bit words of the output, as signed numbers. rows, columns: weights R (int32) and C (int64).
    """
    grid = (triton.cdiv(len(columns), _COLUMNS), triton.cdiv(len(rows), _ROWS))
    _digest[grid](
        matrix,
        rows,
        columns,
        totals,
        slot,
        len(rows),
        len(columns),
        height=_ROWS,
        width=_COLUMNS,
        step=_STEP,
        fits=len(rows) % _ROWS == 0 and len(columns) % _COLUMNS == 0,
    )
