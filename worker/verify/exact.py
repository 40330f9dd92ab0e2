"""Products of whole numbers, exact in floating point, and their check without a reference.

Why exact: let M be the largest magnitude of the operands' elements, and k the number of terms. In any order, every
partial sum is a whole number of at most M^2 k < 2^24, which fp32 and the accumulators of tensor cores hold. An output
of two bytes holds whole numbers up to 2^11 (fp16) or 2^8 (bf16). For it, M is smaller, and if even M = 1 is too much,
rows of the left operand have fewer terms.

The check: every element must be whole, and for random vectors x of whole numbers from 1 to X, output·x must be
left·(right·x) (Freivalds 1977). Both sides are exact in fp64 for whole numbers: every partial sum is at most
M^2 k · side · X <= 2^53. A row with one wrong element is always found. A row with several is missed with a chance of
1/X for each vector: for VECTORS of them 2^-64 at a side of 8192.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch

from worker.verify import seeded
from worker.verify.seeded import Squares

VECTORS: Final = 4
LARGEST: Final = {torch.float32: 2**24 - 1, torch.float16: 2**11, torch.bfloat16: 2**8}
"""Type → a number n: the type holds every whole number from 0 to n."""
_TF32_LARGEST: Final = 2**11
_FP64_LARGEST: Final = 2**53
_CHUNK: Final = 1 << 23  # elements that are converted to fp64 at once: 64 MiB
_VECTOR_STREAM: Final = 1_000
_STAGGER: Final = 37


@dataclass(frozen=True)
class Bounds:
    """Limits of exact products. M, k and X: see the module.

    most: largest magnitude of the operands' elements (M). terms: elements in each row of a left operand that may be
    nonzero (k).
    largest: magnitude that no partial sum exceeds. reach: largest element of the random vectors of the check (X).
    """

    most: int
    terms: int
    largest: int
    reach: int


def bounds(side: int, operands: torch.dtype, output: torch.dtype) -> Bounds:
    """Return the largest bounds with which products of matrices of this side are exact. operands, output: their types.

    Operands in fp32 are limited to numbers that tf32 holds exactly.
    """
    limit = LARGEST[output]
    most = min(max(math.isqrt(limit // side), 1), LARGEST[operands], _TF32_LARGEST)
    terms = min(side, limit // most**2)
    largest = most**2 * terms
    return Bounds(most, terms, largest, 2 ** ((_FP64_LARGEST // (largest * side)).bit_length() - 1))


def left_operand(squares: Squares, stream: int, limits: Bounds) -> torch.Tensor:
    """Return a random matrix of whole numbers up to ±`limits.most`, 0 except at `limits.terms` places in each row.

    These places are the same in every matrix: neighbours, which begin 37 columns further left (cyclically) in each next
    row.
    squares: generator, which gives shape, type and device. stream: number of the matrix.
    """
    matrix = squares.whole(stream, limits.most)
    if limits.terms < squares.side:
        column = torch.arange(squares.side, device=squares.device)
        matrix.mul_((column[None, :] + _STAGGER * column[:, None]) % squares.side < limits.terms)
    return matrix


def vectors(seed: int, number: int, side: int, limits: Bounds, device: torch.device) -> torch.Tensor:
    """Return whole numbers from 1 to `limits.reach`, random for product `number`: fp64 of shape (side, VECTORS)."""
    words = seeded.bits(seed, _VECTOR_STREAM + number, side * VECTORS, device)
    return words.bitwise_and_(limits.reach - 1).add_(1).double().view(side, VECTORS)


def count_wrong(left: torch.Tensor, right: torch.Tensor, output: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Return the number of wrong rows of `output`, plus that of elements that are not whole: int64 of shape ().

    vector: result of `vectors`. Does not wait for the device.
    """
    right_side = _times(left, _times(right, vector))
    wrong = torch.zeros((), dtype=torch.int64, device=output.device)
    for rows in _chunks(output):
        part = output[rows].double()
        wrong += (part != part.round()).sum()
        wrong += (part @ vector != right_side[rows]).any(dim=1).sum()
    return wrong


def product(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the exact product left·right in `dtype`, computed in fp64."""
    output = torch.empty(len(left), right.shape[1], dtype=dtype, device=left.device)
    wide = right.double()
    for rows in _chunks(left):
        output[rows] = (left[rows].double() @ wide).to(dtype)
    return output


def _times(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    result = torch.empty(len(matrix), vector.shape[1], dtype=torch.float64, device=matrix.device)
    for rows in _chunks(matrix):
        torch.mm(matrix[rows].double(), vector, out=result[rows])
    return result


def _chunks(matrix: torch.Tensor) -> list[slice]:
    step = max(_CHUNK // matrix.shape[1], 1)
    return [slice(at, at + step) for at in range(0, len(matrix), step)]
