"""Burn-in without a reference: products of whole numbers, exact in floating point.

Each product is verified alone, which also finds a GPU that makes the same error every time. Where torch can multiply
operands of two bytes into fp32, outputs are in fp32, so that the operands' numbers can be larger.
"""

from typing import Final

import torch

from protocol.cell import Cell, Precision
from protocol.messages import Assign
from protocol.result import Result
from worker.stage import Stage
from worker.verify import burning, exact, products
from worker.verify.seeded import Squares

_LEFTS: Final = 5
_RIGHTS: Final = 3
_HIGH_BITS: Final = "high bits of the accumulators"
_NO_FP32_OUTPUT: Final = "needs larger sums, which need outputs in fp32 (a GPU, and torch 2.8 or newer)"
_SIGN_OF_ZERO: Final = "this check compares numbers, and 0.0 equals -0.0"


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Measure the cell: multiply matrices of side `input_size` repeatedly, and check each product.

    isolation: "fork" or "exec", the way in which this process was started, for the result.
    """
    return burning.run(assign, stage, isolation, WholeProducts)


class WholeProducts:
    """Products of whole-number matrices, checked without a reference (exact.py). Implements products.Products.

    digests, odd: empty, because there are no references.
    """

    pairs = _LEFTS * _RIGHTS
    digests: tuple[str, ...] = ()
    odd: tuple[tuple[int, int, torch.Tensor], ...] = ()
    method = f"whole elements, and Freivalds' check with {exact.VECTORS} vectors"

    def __init__(self, cell: Cell, device: torch.device) -> None:
        self.side, self._seed, self._device = products.side_of(cell), cell.seed, device
        dtype = products.operand_type(cell)
        self._stored = torch.float32 if products.can_store_fp32(device) else dtype
        self.limits = exact.bounds(self.side, dtype, self._stored)
        squares = Squares(cell.seed, self.side, dtype, device)
        self._lefts = [exact.left_operand(squares, stream, self.limits) for stream in range(_LEFTS)]
        self._rights = [squares.whole(_LEFTS + stream, self.limits.most) for stream in range(_RIGHTS)]
        self.what = f"product of whole numbers, {self.side} x {self.side} in {cell.precision}"
        self.not_tested = {"sign of zero": _SIGN_OF_ZERO}
        if self._stored is not torch.float32:
            self.not_tested[_HIGH_BITS] = _NO_FP32_OUTPUT
        if cell.precision is Precision.TF32 and device.type == "cpu":
            self.not_tested |= products.NO_TF32

    def empty(self) -> torch.Tensor:
        """Return an uninitialised (side, side) tensor: fp32 if products.can_store_fp32, else the operands' type."""
        return torch.empty(self.side, self.side, dtype=self._stored, device=self._device)

    def make(self, pair: int, output: torch.Tensor) -> None:
        """Write the product of the operands of `pair` into `output`. Does not wait for the device."""
        products.multiply(*self.operands(pair), output)

    def judge(self, number: int, pair: int, output: torch.Tensor, verdicts: torch.Tensor, slot: int) -> None:
        """Add the number of errors in `output`, the product of `pair`, to verdicts[slot], an int64 that must be zero.

        Errors are wrong rows, and elements that are not whole.
        number: index of the product in its launch, from 0. It selects the random vectors of the check.
        """
        vector = exact.vectors(self._seed, number, self.side, self.limits, self._device)
        verdicts[slot].add_(exact.count_wrong(*self.operands(pair), output, vector))

    def verdict(self, pair: int) -> int:
        """Return 0: the number of errors in a right output."""
        return 0

    def expected(self, pair: int) -> torch.Tensor:
        """Return the correct output of `pair` in the outputs' type, computed in fp64 on the device.

        pair: index of the pair of operands, from 0 to `pairs` - 1.
        """
        return exact.product(*self.operands(pair), self._stored)

    def operands(self, pair: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the left and right operands of `pair`. Consecutive pairs differ in both."""
        return self._lefts[pair % _LEFTS], self._rights[pair % _RIGHTS]

    def allowed(self, exact: float, magnitude: float) -> float:
        """Return 0, the largest rounding error of an element. Products of whole numbers are exact."""
        return 0.0

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return all operands."""
        return (*self._lefts, *self._rights)
