"""The digest finds hundreds of flips without missing one, and is the same by every path."""

import random
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.assignments import run_script
from worker import verify
from worker.verify import bits, digest, seeded
from worker.verify.digest import Digester
from worker.verify.flips import places
from worker.verify.seeded import Squares

CPU = torch.device("cpu")
SIDE = 32
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TRIALS = 200
"""For each precision."""
AS_TRITON_COUNTS = """
import torch
from worker.verify import bits, digest, seeded, triton_digest

cpu = torch.device("cpu")
for rows, columns in ((7, 3), (64, 2048), (65, 1025)):
    matrix = seeded.bits(1, 2, rows * columns, cpu).to(torch.int32).view(rows, columns)
    weights = seeded.odd(3, 4, rows, cpu).to(torch.int32), seeded.odd(3, 5, columns, cpu)
    totals = torch.zeros(2, 3, dtype=torch.int64)
    digest.add_stock(matrix, *weights, totals[0], 1)
    triton_digest.add(matrix, *weights, totals[1], 1)
    assert torch.equal(totals[0], totals[1]), (rows, columns, totals)
    assert totals[0, 1] != 0 and not totals[0, ::2].any()
"""


def output(name: str, side: int = SIDE) -> torch.Tensor:
    squares = Squares(5, side, TYPES[name], CPU)
    return torch.mm(*(squares.bell(stream, tf32=name == "tf32") for stream in range(2)))


def flipped(matrix: torch.Tensor, masks: dict[int, int]) -> torch.Tensor:
    copy = matrix.clone()
    flat = bits.integers(copy).view(-1)
    for offset, mask in masks.items():
        flat[offset] ^= bits.signed(mask, bits.width(matrix))
    return copy


def row_weights(seed: int, count: int) -> torch.Tensor:
    """The lower 32 bits of the seed's odd words, as signed numbers in 64."""
    return seeded.odd(seed, digest._ROWS, count, CPU).to(torch.int32).to(torch.int64)


@pytest.mark.parametrize("name", list(TYPES))
def test_random_flips_are_found(name: str) -> None:
    """Any one to four bits of any elements, in every precision."""
    right = output(name)
    digester, size = Digester(right, 1), bits.width(right)
    healthy = digester.of(right)
    tried = (places(trial, trial % 4 + 1, right.numel(), size) for trial in range(TRIALS))
    assert [masks for masks in tried if digester.of(flipped(right, masks)) == healthy] == []


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_every_single_bit_is_found(name: str) -> None:
    """One after the other, all of them."""
    right = output(name, 8)
    digester, size = Digester(right, 2), bits.width(right)
    healthy = digester.of(right)
    for at in range(right.numel()):
        assert all(digester.of(flipped(right, {at: 1 << bit})) != healthy for bit in range(size)), at


@pytest.mark.parametrize("bit", [0, 31])
def test_no_two_equal_bits_cancel_out(bit: int) -> None:
    """Of all pairs of words, the highest bit included, where a change is 2^31 times a weight: up, down, or both."""
    rows, columns = row_weights(1, 64), seeded.odd(1, digest._COLUMNS, 64, CPU)
    changes = ((rows[:, None] * columns[None, :]).flatten() << bit).tolist()
    seen = {change * sign % 2**64 for change in changes for sign in (1, -1)}
    assert len(seen) == 2 * 64 * 64
    assert 0 not in seen


@given(data=st.data())
def test_any_other_words_give_another_digest(data: st.DataObject) -> None:
    """Whatever a few words are changed to, wherever they are."""
    right = output("fp32", 16)
    digester = Digester(right, 3)
    wrong = right.clone()
    words = wrong.view(torch.int32).view(-1)
    for offset in data.draw(st.sets(st.integers(0, 255), min_size=1, max_size=6)):
        words[offset] ^= bits.signed(data.draw(st.integers(1, 2**32 - 1)), 32)
    assert digester.of(wrong) != digester.of(right)


@given(first=st.integers(0, 255), second=st.integers(0, 255), bit=st.integers(0, 31), seed=st.integers(0, 50))
def test_the_same_bit_of_two_words(first: int, second: int, bit: int, seed: int) -> None:
    """A plain sum or an exclusive or misses half of these, or all."""
    right = output("fp32", 16)
    masks = {first: 1 << bit} | {second: 1 << bit}
    digester = Digester(right, seed)
    assert digester.of(flipped(right, masks)) != digester.of(right)


@given(seed=st.integers(0, 2**32), side=st.sampled_from([4, 8, 16]))
def test_words_that_changed_places_are_found(seed: int, side: int) -> None:
    """Rows, columns, or two words: the sum of the words is the same."""
    right = torch.arange(side * side, dtype=torch.float32).view(side, side)
    digester = Digester(right, seed)
    generator = random.Random(seed)
    one, other = generator.sample(range(side), 2)
    order = list(range(side))
    order[one], order[other] = other, one
    swapped = right.clone()
    swapped[one, other], swapped[other, one] = right[other, one], right[one, other]
    for wrong in (right[order], right[:, order], swapped):
        assert digester.of(wrong.contiguous()) != digester.of(right)


def test_the_digest_is_the_formula() -> None:
    """As the module's docstring has it, in Python's whole numbers."""
    right = output("bf16", 8)
    rows = row_weights(9, 8).tolist()
    columns = seeded.odd(9, digest._COLUMNS, 4, CPU).tolist()
    words = right.view(torch.int32).tolist()
    expected = sum(rows[r] * columns[c] * words[r][c] for r in range(8) for c in range(4)) % 2**64
    assert Digester(right, 9).of(right) == expected


def test_digest_of_pieces_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last piece may be smaller. It is added to its slot, beside others that keep theirs."""
    right = output("fp32", 20)
    digester = Digester(right, 4)
    totals = torch.zeros(3, dtype=torch.int64)
    digester.add(right, totals, 1)
    assert [total % 2**64 for total in totals.tolist()] == [0, digester.of(right), 0]
    monkeypatch.setattr(digest, "_CHUNK", 60)
    assert Digester(right, 4).of(right) == digester.of(right)


def test_weights_are_odd_and_of_the_seed() -> None:
    """The same for launches of the same seed alone."""
    right = output("fp32")
    assert (seeded.odd(4, digest._ROWS, 1000, CPU) % 2 == 1).all()
    assert Digester(right, 4).of(right) == Digester(right, 4).of(right) != Digester(right, 5).of(right)


@pytest.mark.parametrize("shape", [(4, 3), (4,)])
def test_row_of_incomplete_words_is_refused(shape: tuple[int, ...]) -> None:
    """A row must be a whole number of 32-bit words, so that no element is missed."""
    with pytest.raises(ValueError, match="input size"):
        Digester(torch.zeros(shape, dtype=torch.bfloat16), 1)


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_triton_counts_the_same() -> None:
    """The kernel itself, run by Triton's interpreter on the CPU, with shapes that do not fill its tiles."""
    run_script(AS_TRITON_COUNTS, TRITON_INTERPRET="1")


def stock(*given: Any) -> None:
    """A kernel that does as it should."""
    digest.add_stock(*given)


def without_the_last_row(matrix: torch.Tensor, rows: torch.Tensor, *rest: Any) -> None:
    digest.add_stock(matrix[:-1], rows[:-1], *rest)


def without_signs(matrix: torch.Tensor, *rest: Any) -> None:
    """A kernel that reads words as unsigned: right for half of them, and for every flip."""
    digest.add_stock(matrix.to(torch.int64) & 0xFFFF_FFFF, *rest)


def by_rote() -> Callable[..., None]:
    """A kernel that returns the first digest again, whatever the words."""
    first: list[torch.Tensor] = []

    def add(matrix: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, totals: torch.Tensor, slot: int) -> None:
        own = torch.zeros(1, dtype=torch.int64)
        digest.add_stock(matrix, rows, columns, own, 0)
        first.append(own[0])
        totals[slot] += first[0]

    return add


def broken(*_: Any) -> None:
    raise RuntimeError("no compiler")


STOCK = "torch's own operators"
OTHER = f"{STOCK} (Triton: another digest)"


@pytest.mark.parametrize(
    ("add", "method"),
    [
        (stock, "Triton, in one"),
        (without_the_last_row, OTHER),
        (without_signs, OTHER),
        (by_rote(), OTHER),
        (broken, f"{STOCK} (Triton: RuntimeError)"),
    ],
)
def test_wrong_kernel_is_not_used(monkeypatch: pytest.MonkeyPatch, add: Callable[..., None], method: str) -> None:
    """It is tried on words of the output's own shape, and after a flip; the method has the reason."""
    module = ModuleType("triton_digest")
    monkeypatch.setattr(module, "add", add, raising=False)
    monkeypatch.setitem(sys.modules, "worker.verify.triton_digest", module)
    monkeypatch.setattr(verify, "triton_digest", module, raising=False)
    right = output("bf16")
    digester = Digester(right, 5)
    expected = digester.of(right)
    digester._try_triton(right, 5)
    assert digester.method.startswith(method)
    assert digester.of(right) == expected
    assert torch.equal(right, output("bf16"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_operands_are_random(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Around zero, with the documented deviation, different for each stream, the same in any chunks."""
    squares = Squares(7, 100, dtype, CPU)
    made = squares.bell(0, tf32=False)
    assert made.dtype is dtype
    assert made.float().mean().item() == pytest.approx(0, abs=0.05)
    assert made.float().std().item() == pytest.approx(2 / 3**0.5, abs=0.05)
    assert not torch.equal(made, squares.bell(1, tf32=False))
    monkeypatch.setattr(seeded, "_CHUNK", 999)
    assert torch.equal(made, squares.bell(0, tf32=False))


def test_random_words_are_splitmix64() -> None:
    """The generator's words for seed 1234567, from any place on. Operands of tf32 have its bits alone."""
    made = Squares(7, 50, torch.float32, CPU).bell(0, tf32=True).view(torch.int32)
    assert not (made & 0x1FFF).any()
    assert (made & 0x2000).any()
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    start = (1234567 - seeded._mixed(seeded._mixed(0))) * pow(seeded._GOLDEN, -1, 2**64) % 2**64
    assert [word % 2**64 for word in seeded.bits(0, 0, 4, CPU, start=start + 1).tolist()] == known
    assert torch.equal(seeded.bits(3, 1, 100, CPU)[40:], seeded.bits(3, 1, 60, CPU, start=40))


def test_differences_are_counted_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """All elements and bits; where the first are, with what was expected and found, zeros of the other sign too."""
    monkeypatch.setattr(bits, "_CHUNK", 100)
    right = torch.zeros(SIDE, SIDE, dtype=torch.bfloat16)
    wrong = flipped(right, dict.fromkeys(range(90, 1000, 30), 0x8001))
    found = bits.differences(wrong, right)
    assert (found.elements, found.bits) == (31, 62)
    assert [one.offset for one in found.first] == list(range(90, 90 + 16 * 30, 30))
    assert {(one.expected, one.found) for one in found.first} == {("0000", "8001")}
    assert bits.differences(right, right.clone()) == bits.Differences()
