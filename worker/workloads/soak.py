"""Burn-in under load: products of two random matrices, A·B and B·A in turn, each verified by its digest.

The same operands give the same bits on every GPU with the same key (worker/verify/key.py). Each product is compared
with the first of its kind, which is made again until two agree, and the parent compares launches.
"""

from typing import Final

import torch

from protocol.cell import Cell, Precision
from protocol.messages import Assign
from protocol.result import Result
from worker.stage import Stage
from worker.verify import burning, products, rounding
from worker.verify.bits import signed
from worker.verify.digest import Digester
from worker.verify.seeded import Squares

_TRIES: Final = 4  # products of a kind, until two agree
_DIGEST_BITS: Final = 64


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell: matrices of side `input_size`, in its precision, of its seed."""
    return burning.run(assign, stage, isolation, RandomProducts)


class RandomProducts:
    """A·B and B·A of random numbers, with references made on the same device. Implements products.Products."""

    pairs = 2

    def __init__(self, cell: Cell, device: torch.device) -> None:
        """Waits for the device. Raises ValueError if the cell has no side, or one that cannot be digested."""
        self._precision, self.side = cell.precision, products.side_of(cell)
        tf32 = cell.precision is Precision.TF32
        squares = Squares(cell.seed, self.side, products.operand_type(cell), device)
        self._left, self._right = (squares.bell(stream, tf32=tf32) for stream in range(self.pairs))
        self._digester = Digester(self.empty(), cell.seed)
        self.what = f"product of {self.side} x {self.side} in {cell.precision}"
        self.method = f"64-bit digest by {self._digester.method}"
        self.not_tested = products.NO_TF32 if tf32 and device.type == "cpu" else {}
        made = [self._reference(pair) for pair in range(self.pairs)]
        self._references = tuple(reference for reference, _, _ in made)
        self._digests = tuple(digest for _, digest, _ in made)
        self.digests = tuple(f"{digest:016x}" for digest in self._digests)
        self.odd = tuple(odd for _, _, odds in made for odd in odds)

    def empty(self) -> torch.Tensor:
        """Memory for an output, of the operands' type."""
        return torch.empty_like(self._left)

    def make(self, pair: int, output: torch.Tensor) -> None:
        """Multiply A·B or B·A."""
        torch.mm(*self.operands(pair), out=output)

    def judge(self, number: int, pair: int, output: torch.Tensor, verdicts: torch.Tensor, slot: int) -> None:
        """Add the output's digest, which is the verdict."""
        self._digester.add(output, verdicts, slot)

    def verdict(self, pair: int) -> int:
        """The reference's digest."""
        return signed(self._digests[pair], _DIGEST_BITS)

    def expected(self, pair: int) -> torch.Tensor:
        """The reference."""
        return self._references[pair]

    def operands(self, pair: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A and B, or B and A."""
        return (self._right, self._left) if pair else (self._left, self._right)

    def allowed(self, exact: float, magnitude: float) -> float:
        """Largest error by rounding."""
        return rounding.bound(self._precision, self.side, exact, magnitude, self._left.dtype)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Operands and references."""
        return (self._left, self._right, *self._references)

    def _reference(self, pair: int) -> tuple[torch.Tensor, int, list[tuple[int, int, torch.Tensor]]]:
        """Output and digest that came twice (the last ones if none did), and the outputs that differ from them."""
        made: dict[int, torch.Tensor] = {}
        for _ in range(_TRIES):
            output = self.empty()
            self.make(pair, output)
            digest = self._digester.of(output)
            again = digest in made
            made[digest] = output
            if again:
                break
        reference = made.pop(digest)
        return reference, digest, [(pair, signed(other, _DIGEST_BITS), output) for other, output in made.items()]
