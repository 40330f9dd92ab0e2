"""Examination of a wrong output, between two measured blocks, in the memory where it was written.

read again ──▶ compared with the right one ──▶ made ten times more ──▶ a few elements computed on the CPU in fp64
"""

import time
from collections.abc import Callable
from typing import Final

import torch

from protocol.verification import KEPT_ELEMENTS, Mismatch
from worker.verify import bits, rounding
from worker.verify.bits import Differences
from worker.verify.products import Products

REPETITIONS: Final = 10

Strike = Callable[[torch.Tensor], None]
"""Function that injects the launch's fault in an output again if the fault is stuck. Otherwise it does nothing."""


def examine(
    products: Products, *, number: int, pair: int, output: torch.Tensor, verdict: int, iteration: int, strike: Strike
) -> Mismatch:
    """Examine the wrong output of one product, repeat the product ten times, and return a Mismatch.

    number, iteration: indices of the product in the launch and in its phase. pair: index of its operands. verdict: the
    digest or number of errors that Products.judge gave for `output`. strike: called with each repeated output before it
    is judged; flips its bits if the launch simulates a lasting fault.
    """
    at_ns = time.monotonic_ns()
    again = _verdict(products, number, pair, output)
    expected = products.expected(pair)
    found = bits.differences(output, expected)
    return Mismatch(
        what=products.what,
        at_ns=at_ns,
        iteration=iteration,
        elements=found.elements,
        bits=found.bits,
        first=found.first,
        same_when_read_again=again == verdict,
        repeated=REPETITIONS,
        wrong_again=_wrong_again(products, number, pair, strike),
        beyond_rounding=_beyond_rounding(products, pair, output, expected, found),
    )


def _wrong_again(products: Products, number: int, pair: int, strike: Strike) -> int:
    """Repeat the product ten times into a zeroed output. Returns how many were wrong or not written.

    number: index of the product in the launch. pair: index of its operands. strike: called with each output before it
    is judged; flips its bits if the launch simulates a lasting fault.
    """
    output = products.empty()
    wrong = 0
    for _ in range(REPETITIONS):
        output.zero_()
        products.make(pair, output)
        strike(output)
        wrong += _verdict(products, number, pair, output) != products.verdict(pair)
    return wrong


def _verdict(products: Products, number: int, pair: int, output: torch.Tensor) -> int:
    verdicts = torch.zeros(1, dtype=torch.int64, device=output.device)
    products.judge(number, pair, output, verdicts, 0)
    return int(verdicts.item())


def _beyond_rounding(
    products: Products, pair: int, output: torch.Tensor, expected: torch.Tensor, found: Differences
) -> bool | None:
    """Whether any of the first or farthest differing elements is off by more than rounding; None if none differs.

    output: wrong product of `pair` (index of its operands). found: differences of `output` from `expected`.
    """
    if not found.elements:
        return None
    left, right = products.operands(pair)
    farthest = bits.farthest(output, expected, KEPT_ELEMENTS)
    offsets = dict.fromkeys((*(element.offset for element in found.first), *farthest))
    return any(_is_beyond(products, left, right, output, offset) for offset in offsets)


def _is_beyond(products: Products, left: torch.Tensor, right: torch.Tensor, output: torch.Tensor, offset: int) -> bool:
    row, column = divmod(offset, products.side)
    # Products of the cell's numbers are exact in fp64. Their sum has 2^-29 of the error of fp32.
    terms = left[row].cpu().double() * right[:, column].cpu().double()
    exact, magnitude = terms.sum().item(), terms.abs().sum().item()
    return rounding.is_beyond(output[row, column].item(), exact, products.allowed(exact, magnitude))
