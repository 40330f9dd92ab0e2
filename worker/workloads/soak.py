"""Burn-in under load: products A·B and B·A of two random matrices, each verified by its digest.

Equal operands give equal bits on every GPU with the same key (worker/verify/key.py). Each product is compared with the
reference of its pair (0: A·B, 1: B·A): the first output that came out twice, or the fourth if all four differ. The
orchestrator compares the references' digests (64-bit checksums, verify/digest.py) of different launches.
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
    """Multiply random matrices of side `input_size`, and verify each product. isolation: "fork" or "exec"."""
    return burning.run(assign, stage, isolation, RandomProducts)


class RandomProducts:
    """A·B and B·A of random matrices, compared with references from the same device. Implements products.Products."""

    pairs = 2

    def __init__(self, cell: Cell, device: torch.device) -> None:
        """Make operands and references. Raises ValueError without an input size, or for an odd one in fp16 or bf16."""
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
        """Return an uninitialised tensor for one output, of the operands' shape and type."""
        return torch.empty_like(self._left)

    def make(self, pair: int, output: torch.Tensor) -> None:
        """Write A·B (pair 0) or B·A (pair 1) into `output`. Does not wait for the device."""
        torch.mm(*self.operands(pair), out=output)

    def judge(self, number: int, pair: int, output: torch.Tensor, verdicts: torch.Tensor, slot: int) -> None:
        """Add the digest of `output` to verdicts[slot], an int64 that must be zero. Does not wait for the device.

        number, pair: not used.
        """
        self._digester.add(output, verdicts, slot)

    def verdict(self, pair: int) -> int:
        """Return the verdict of a right output of `pair`: the digest of its reference, a signed 64-bit integer."""
        return signed(self._digests[pair], _DIGEST_BITS)

    def expected(self, pair: int) -> torch.Tensor:
        """Return the reference, which every output of the pair must equal."""
        return self._references[pair]

    def operands(self, pair: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the two factors: A and B for pair 0, B and A for pair 1."""
        return (self._right, self._left) if pair else (self._left, self._right)

    def allowed(self, exact: float, magnitude: float) -> float:
        """Return the largest rounding error of an element of an output.

        exact: its exact value, a sum of products. magnitude: sum of the absolute values of these products.
        """
        return rounding.bound(self._precision, self.side, exact, magnitude, self._left.dtype)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return the operands and the references."""
        return (self._left, self._right, *self._references)

    def _reference(self, pair: int) -> tuple[torch.Tensor, int, list[tuple[int, int, torch.Tensor]]]:
        """Make products of `pair` until one equals an earlier one, but at most four. The last product is the reference.

        So the fourth is the reference if all four differ. Returns the reference, its digest, and (pair, signed digest,
        output) of each product that differs from it.
        """
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
