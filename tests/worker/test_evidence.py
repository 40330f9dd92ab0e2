"""worker/verify/evidence.py: what is found out about one wrong output, with very small products."""

import pytest
import torch

from protocol.verification import Mismatch
from worker.verify import bits, evidence
from worker.verify.evidence import REPETITIONS, examine

SIDE = 4


class Tiny:
    """Two products of whole numbers, whose verdict is the sum of their bits.

    made: products that were made again. writes: whether a product is written. allowances: terms given to `allowed`.
    """

    pairs = 2
    side = SIDE
    what = "a tiny product"
    method = ""
    digests: tuple[str, ...] = ()
    odd: tuple[tuple[int, int, torch.Tensor], ...] = ()

    def __init__(self) -> None:
        self.not_tested: dict[str, str] = {}
        self.writes, self.made = True, list[int]()
        self._left = torch.arange(SIDE * SIDE, dtype=torch.float32).view(SIDE, SIDE) - 6
        self._right = torch.arange(SIDE * SIDE, dtype=torch.float32).view(SIDE, SIDE).flip(0) - 3
        self.allowances: list[tuple[float, float]] = []

    def empty(self) -> torch.Tensor:
        return self.expected(1)

    def make(self, pair: int, output: torch.Tensor) -> None:
        self.made.append(pair)
        if self.writes:
            torch.mm(*self.operands(pair), out=output)

    def judge(self, number: int, pair: int, output: torch.Tensor, verdicts: torch.Tensor, slot: int) -> None:
        verdicts[slot] += output.view(torch.int32).long().sum()

    def verdict(self, pair: int) -> int:
        return int(self.expected(pair).view(torch.int32).long().sum())

    def expected(self, pair: int) -> torch.Tensor:
        return torch.mm(*self.operands(pair))

    def operands(self, pair: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (self._right, self._left) if pair else (self._left, self._right)

    def allowed(self, exact: float, magnitude: float) -> float:
        self.allowances.append((exact, magnitude))
        return magnitude / 1000

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (self._left, self._right)


def wrong(products: Tiny, pair: int, **by: float) -> torch.Tensor:
    """An output of which some elements, named e<row><column>, are wrong by so much."""
    output = products.expected(pair)
    for place, much in by.items():
        output[int(place[1]), int(place[2])] += much
    return output


def found(products: Tiny, output: torch.Tensor, *, pair: int = 1, strike: evidence.Strike = lambda _: None) -> Mismatch:
    verdict = int(output.view(torch.int32).long().sum())
    return examine(products, number=7, pair=pair, output=output, verdict=verdict, iteration=3, strike=strike)


@pytest.mark.parametrize("pair", [0, 1])
def test_one_wrong_element_is_described(pair: int) -> None:
    """Where it is, how many bits, that it stays when read again, and that ten more of the same product are right."""
    products = Tiny()
    mismatch = found(products, wrong(products, pair, e21=1000.0), pair=pair)
    assert (mismatch.what, mismatch.iteration, mismatch.elements) == ("a tiny product", 3, 1)
    assert mismatch.first[0].offset == 2 * SIDE + 1
    assert mismatch.bits == (int(mismatch.first[0].expected, 16) ^ int(mismatch.first[0].found, 16)).bit_count() > 0
    assert mismatch.same_when_read_again
    assert (mismatch.repeated, mismatch.wrong_again) == (REPETITIONS, 0)
    assert products.made == [pair] * REPETITIONS


@pytest.mark.parametrize("writes", [True, False])
def test_permanent_fault_is_wrong_again(writes: bool) -> None:
    """A fault strikes the repetitions too. A product that is not written must not find the right one in memory."""
    products = Tiny()
    products.writes = writes
    strike = (lambda output: output[0, 0].add_(8.0)) if writes else (lambda _: None)
    assert found(products, wrong(products, 1, e00=8.0), strike=strike).wrong_again == REPETITIONS


@pytest.mark.parametrize(
    ("by", "beyond"),
    [
        ({"e12": 0.01}, False),
        ({"e12": 5.0}, True),
        ({"e12": 0.01, "e30": 5.0}, True),
        ({"e12": 0.01, "e30": 0.01}, False),
        ({"e30": -5.0}, True),
    ],
)
def test_whether_rounding_explains_it(by: dict[str, float], beyond: bool) -> None:
    """One element that it does not explain is enough."""
    products = Tiny()
    assert found(products, wrong(products, 1, **by)).beyond_rounding is beyond


def test_farthest_of_many_elements_are_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first may be within rounding, as where the lowest bits of many are wrong and a high one of few."""
    monkeypatch.setattr(bits, "KEPT_ELEMENTS", 2)
    monkeypatch.setattr(evidence, "KEPT_ELEMENTS", 2)
    little = {f"e{row}{column}": 0.01 for row in range(SIDE) for column in range(SIDE)}
    assert found(Tiny(), wrong(Tiny(), 1, **little)).beyond_rounding is False
    far = found(Tiny(), wrong(Tiny(), 1, **little | {"e22": 5.0}))
    assert ([one.offset for one in far.first], far.beyond_rounding) == ([0, 1], True)


def test_the_farthest_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Non-finite elements come first, over all chunks. Equal bits are no difference, even those of an infinity."""
    monkeypatch.setattr(bits, "_CHUNK", 3)
    expected = torch.tensor([[1.0, 2, 3, torch.inf], [5, 6, 7, 8]])
    output = torch.tensor([[1.0, 2.5, -3, torch.inf], [torch.nan, 6, 8, torch.inf]])
    assert bits.farthest(output, expected, 3) in ([4, 7, 2], [7, 4, 2])
    assert set(bits.farthest(output, expected, 9)) == {1, 2, 4, 6, 7}
    assert bits.farthest(expected, expected, 9) == []


@pytest.mark.parametrize(("pair", "row", "column", "fraction"), [(1, 3, 1, 0.0), (0, 0, 0, 2**-20)])
def test_elements_are_computed_anew_in_fp64(pair: int, row: int, column: int, fraction: float) -> None:
    """From their own row and column. Products of fp32 numbers have more bits than fp32."""
    products = Tiny()
    if fraction:
        products._left[row], products._right[:, column] = 1 + fraction, 1 + fraction
    found(products, wrong(products, pair, **{f"e{row}{column}": 8.0}), pair=pair)
    left, right = (operand.double() for operand in products.operands(pair))
    terms = left[row] * right[:, column]
    assert products.allowances == [(terms.sum().item(), terms.abs().sum().item())]
    assert (terms.sum().item() != terms.sum().float().item()) is bool(fraction)
    assert bool(fraction) or terms.abs().sum().item() > abs(terms.sum().item())
