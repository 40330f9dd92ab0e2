"""Exact products of whole numbers, what their check finds, and the reach of rounding in others."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from protocol.cell import Precision
from tests.worker.test_verify_digest import flipped
from worker.verify import bits, exact, rounding
from worker.verify.exact import Bounds
from worker.verify.flips import places
from worker.verify.seeded import Squares

CPU = torch.device("cpu")
SIDE = 32
HALF = (torch.float16, torch.bfloat16)
TYPES = (torch.float32, *HALF)
KINDS = [(operands, stored) for operands in TYPES for stored in TYPES if stored in (operands, torch.float32)]
"""Types of operands and outputs that occur."""


def operands(dtype: torch.dtype, limits: Bounds, side: int = SIDE) -> tuple[torch.Tensor, torch.Tensor]:
    squares = Squares(3, side, dtype, CPU)
    return exact.left_operand(squares, 0, limits), squares.whole(1, limits.most)


def wrong(left: torch.Tensor, right: torch.Tensor, output: torch.Tensor, limits: Bounds, number: int = 0) -> int:
    return int(exact.count_wrong(left, right, output, exact.vectors(1, number, len(left), limits, CPU)))


def exact_product(dtype: torch.dtype, stored: torch.dtype) -> tuple[Bounds, torch.Tensor, torch.Tensor, torch.Tensor]:
    limits = exact.bounds(SIDE, dtype, stored)
    left, right = operands(dtype, limits)
    return limits, left, right, exact.product(left, right, stored)


@pytest.mark.parametrize(("dtype", "stored"), KINDS)
@pytest.mark.parametrize("side", [32, 1000, 16384])
def test_partial_sums_fit(side: int, dtype: torch.dtype, stored: torch.dtype) -> None:
    """Into fp32, into the output, and those of the check into fp64; operands into their type."""
    limits = exact.bounds(side, dtype, stored)
    assert limits.most >= 1
    assert limits.reach >= 2**14
    assert limits.most**2 * limits.terms == limits.largest <= exact.LARGEST[stored] < 2**24
    assert limits.largest * side * limits.reach <= 2**53
    for number in (limits.most, exact.LARGEST[stored], exact.LARGEST[stored] - 1):
        kind = dtype if number == limits.most else stored
        assert torch.tensor(number, dtype=torch.float64).to(kind).item() == number


@pytest.mark.parametrize("dtype", HALF)
def test_operands_at_8192_are_those_that_were_tried_on_a_gpu(dtype: torch.dtype) -> None:
    """Up to 45 with an output in fp32."""
    assert exact.bounds(8192, dtype, torch.float32) == Bounds(45, 8192, 45**2 * 8192, 2**16)


@pytest.mark.parametrize(("dtype", "stored"), KINDS)
@pytest.mark.parametrize("side", [32, 300])
def test_operands_keep_their_bounds(side: int, dtype: torch.dtype, stored: torch.dtype) -> None:
    """Whole, up to `most`, and no row of the left one with more terms; the exact product is that of int64."""
    limits = exact.bounds(side, dtype, stored)
    left, right = operands(dtype, limits, side)
    assert max(left.abs().max(), right.abs().max()) <= limits.most
    assert torch.equal(left, left.round())
    assert torch.equal(right, right.round())
    assert int((left != 0).sum(dim=1).max()) <= limits.terms
    product = exact.product(left, right, stored)
    assert torch.equal(product.long(), left.long() @ right.long())
    assert wrong(left, right, product, limits) == 0


def test_rows_have_few_terms_where_sums_would_be_too_large() -> None:
    """The terms are in other columns in other rows, and all columns are used."""
    limits = exact.bounds(1000, torch.bfloat16, torch.bfloat16)
    assert (limits.most, limits.terms) == (1, 256)
    left, _ = operands(torch.bfloat16, limits, 1000)
    assert ((left != 0).sum(dim=0) > 0).all()
    assert 150 < int((left != 0).sum(dim=1).max()) <= 256
    assert not torch.equal(left[0] != 0, left[1] != 0)


@pytest.mark.parametrize(("dtype", "stored"), KINDS)
@pytest.mark.parametrize("pieces", [False, True])
def test_products_of_torch_are_exact(
    monkeypatch: pytest.MonkeyPatch, pieces: bool, dtype: torch.dtype, stored: torch.dtype
) -> None:
    """In whatever order this CPU adds up; checked in one piece or in several."""
    if pieces:
        monkeypatch.setattr(exact, "_CHUNK", 7 * SIDE)
    limits, left, right, product = exact_product(dtype, stored)
    output = torch.mm(left.to(stored), right.to(stored))
    assert wrong(left, right, output, limits) == 0
    assert torch.equal(output, product)


@pytest.mark.parametrize(("dtype", "stored"), KINDS)
def test_flips_are_found(dtype: torch.dtype, stored: torch.dtype) -> None:
    """Any bits of any elements, those included that leave no whole number, none that is finite, or none at all."""
    limits, left, right, output = exact_product(dtype, stored)
    size = bits.width(output)
    for trial in range(150):
        broken = flipped(output, places(trial, trial % 4 + 1, output.numel(), size))
        if not torch.equal(broken, output):  # a zero of the other sign is the same number
            assert wrong(left, right, broken, limits, trial) > 0


@pytest.mark.parametrize("stored", TYPES)
def test_every_bit_of_an_element_is_found(stored: torch.dtype) -> None:
    """Of a small, a large and a middling one."""
    limits, left, right, output = exact_product(stored, stored)
    order = output.abs().flatten().argsort()
    for at in (order[len(order) // 4], order[len(order) // 2], order[-1]):
        assert output.view(-1)[at] != 0
        for bit in range(bits.width(output)):
            assert wrong(left, right, flipped(output, {int(at): 1 << bit}), limits) > 0


def test_a_fraction_is_counted_though_its_sum_may_be_right() -> None:
    """The element is not whole, and its row's sums are off: both are counted."""
    limits, left, right, output = exact_product(torch.float32, torch.float32)
    vector = exact.vectors(1, 0, SIDE, limits, CPU)
    output[3, 4] += 1
    output[3, 5] -= vector[4, 0] / vector[5, 0]
    assert int(exact.count_wrong(left, right, output, vector[:, :1])) >= 1
    output[3, 5] = math.nan
    assert wrong(left, right, output, limits) == 2


PRODUCT = exact_product(torch.float32, torch.float32)


@given(row=st.integers(0, SIDE - 1), data=st.data())
def test_whole_but_wrong_rows_are_found(row: int, data: st.DataObject) -> None:
    """By Freivalds' check alone, also where the differences add up to zero."""
    limits, left, right, output = PRODUCT[0], *(each.clone() for each in PRODUCT[1:])
    one, other = data.draw(st.lists(st.integers(0, SIDE - 1), min_size=2, max_size=2, unique=True))
    change = data.draw(st.integers(1, 1000))
    output[row, one] += change
    output[row, other] -= change
    assert wrong(left, right, output, limits, data.draw(st.integers(0, 1000))) == 1


def test_vectors_are_others_for_each_product() -> None:
    """From 1 on, as a zero would hide its column; the same for the same product."""
    limits = exact.bounds(64, torch.float32, torch.float32)
    first, second = (exact.vectors(1, number, 64, limits, CPU) for number in range(2))
    assert first.shape == (64, exact.VECTORS)
    assert not torch.equal(first, second)
    assert torch.equal(first, exact.vectors(1, 0, 64, limits, CPU))
    many = torch.cat([exact.vectors(1, number, 64, Bounds(1, 1, 1, 4), CPU) for number in range(20)])
    assert set(many.flatten().tolist()) == {1, 2, 3, 4}


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("side", [32, 256])
def test_healthy_products_are_within_rounding(precision: Precision, side: int) -> None:
    """Every element of a product of this CPU, and by far for fp32."""
    dtype = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}.get(precision, torch.float32)
    left, right = (Squares(2, side, dtype, CPU).bell(at, tf32=precision is Precision.TF32) for at in range(2))
    output = torch.mm(left, right).double()
    right_one, magnitude = left.double() @ right.double(), left.double().abs() @ right.double().abs()
    for at in random.Random(1).sample(range(side * side), 500):
        row, column = divmod(at, side)
        value, size = right_one[row, column].item(), magnitude[row, column].item()
        allowed = rounding.bound(precision, side, value, size, dtype)
        assert not rounding.is_beyond(output[row, column].item(), value, allowed)
        assert rounding.is_beyond(value + 1.01 * allowed, value, allowed)


def test_the_bound_is_higham_s() -> None:
    """That is k u / (1 - k u) times the magnitude, and half a unit of the last place of what is stored."""
    gamma = 8192 * 2**-24 / (1 - 8192 * 2**-24)
    assert rounding.bound(Precision.FP32, 8192, 3.0, 100.0, torch.float32) == pytest.approx(100 * gamma)
    gamma = 8192 * 2**-23 / (1 - 8192 * 2**-23)
    stored = 100 * gamma + 2**-8 * (3 + 100 * gamma)
    assert rounding.bound(Precision.BF16, 8192, -3.0, 100.0, torch.bfloat16) == pytest.approx(stored)


@pytest.mark.parametrize("found", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_beyond_rounding(found: float) -> None:
    """However much is allowed."""
    assert rounding.is_beyond(found, 0.0, math.inf)
