"""Patterns of bits for a test of memory: what every word must hold, and the walks in which it is written and checked.

A pattern says what word number i holds; nothing is stored to compare with. Every pattern is marched in the same way:

    ↑ write w        ↑ check w, write ~w        ↓ check ~w, write w        ↑ check w

↑ from the first word to the last, ↓ back. With two values in turn this is the classical test by moving inversions.
A walk goes group by group: a group of chunks is checked, looked at, and only then written.

Which fault is found by which pattern, of a memory that is otherwise sound:

    fault                                                own address  moving inv.  walking  modulo 20  random
    bits that flip after they were written                    all         all        all       all      all
    a bit stuck at 0 or 1                                     all         all        all       all      all
    an address line stuck, the two words in two groups        all         all        all       all      all
    ... in the same group                                     all          -       line < 6    all      all

"all": whichever bits, word or line; tests/worker/test_memory_patterns.py tries them. Faults that need a certain
neighbourhood of bits (coupling) are found by some turn or other: from turn to turn the moving inversions take the
next of seven backgrounds, the walking bit moves on by one of 64 places, modulo 20 by one of 20, random by its seed.

Marches are numbered over a whole burn-in, the five patterns in turn, and a launch begins where its round does:

    round 0    march 0 ▶ 1 ▶ 2 ▶ …        own address 0, moving inversions 0, walking 0, …
    round 1    march 17 ▶ 18 ▶ 19 ▶ …     walking 3, modulo 20 3, random 3, own address 4, …
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from worker.verify import bits, seeded

WORD_BYTES: Final = 8
_WORD_BITS: Final = 64
_ALL: Final = (1 << _WORD_BITS) - 1
_APART: Final = 20
"""Of modulo 20: a number that no cache line, row or bank of memory is a multiple of."""
_BACKGROUNDS: Final = tuple(bits.signed(_ALL // ((1 << run) + 1), _WORD_BITS) for run in (64, 1, 2, 4, 8, 16, 32))
"""Runs of so many equal bits: all zeros first, then 01 01, 0011 0011, and so on."""
_EVERY_TWENTIETH: Final = _BACKGROUNDS[1]
_STREAM: Final = 301
"""Of the seed; turns count on from it."""
_MARCHES_A_ROUND: Final = 17
"""About as many as a launch of a minute holds on an H200, where one of 20 s holds five. It has no divisor in common
with the five patterns, nor with their 7 backgrounds, 64 and 20 places: so launches that hold a single march come to all
of these too, and those that hold two, or three, have ended every pattern after three rounds, or two."""


@dataclass(frozen=True)
class Span:
    """Consecutive words of a memory: the number of the first, and how many."""

    first: int
    count: int


@dataclass(frozen=True)
class Turn:
    """Which time a pattern is marched, counted from 0, and the seed of its random numbers."""

    number: int
    seed: int


Words = Callable[[Span, Turn, torch.device], torch.Tensor]
"""What the words of a span must hold: new int64 of shape (count,), on the device, in memory for two or three of it."""


@dataclass(frozen=True)
class Stroke:
    """One walk through the memory. What is checked and then written: the words, or their complement; None: nothing."""

    check: bool | None
    write: bool | None
    downwards: bool = False


PLAIN: Final = False
COMPLEMENT: Final = True
MARCH: Final = (
    Stroke(check=None, write=PLAIN),
    Stroke(check=PLAIN, write=COMPLEMENT),
    Stroke(check=COMPLEMENT, write=PLAIN, downwards=True),
    Stroke(check=PLAIN, write=None),
)
VISITS: Final = sum((stroke.check is not None) + (stroke.write is not None) for stroke in MARCH)
"""Times that a march comes to each chunk."""


def own_address(span: Span, _: Turn, device: torch.device) -> torch.Tensor:
    """Each word holds its own number."""
    return torch.arange(span.first, span.first + span.count, device=device)


def moving_inversions(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """The same in every word."""
    background = _BACKGROUNDS[turn.number % len(_BACKGROUNDS)]
    return torch.full((span.count,), background, dtype=torch.int64, device=device)


def walking_ones_and_zeros(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """One bit set, a place further in each word; the complement is the walking zero."""
    places = own_address(span, turn, device).add_(turn.number).remainder_(_WORD_BITS)
    return torch.bitwise_left_shift(1, places)


def modulo_20(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """Every twentieth word is the complement of all others."""
    chosen = own_address(span, turn, device).remainder_(_APART) == turn.number % _APART
    return chosen.to(torch.int64).neg_().bitwise_xor_(~_EVERY_TWENTIETH)


def random(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """Random words, others in each round."""
    return seeded.bits(turn.seed, _STREAM + turn.number, span.count, device, start=span.first)


PATTERNS: Final[dict[str, Words]] = {
    "own address": own_address,
    "moving inversions": moving_inversions,
    "walking ones and zeros": walking_ones_and_zeros,
    "modulo 20": modulo_20,
    "random": random,
}


@dataclass(frozen=True)
class Content:
    """What a memory must hold during a walk: the pattern, its round, and whether it is the complement."""

    pattern: str
    turn: Turn
    complement: bool

    def words(self, span: Span, device: torch.device) -> torch.Tensor:
        """Of this span: new int64 of shape (count,)."""
        words = PATTERNS[self.pattern](span, self.turn, device)
        return words.bitwise_not_() if self.complement else words


@dataclass(frozen=True)
class Visit:
    """What is to be done next: write or check one chunk. last: of its group, so that it is time to look."""

    chunk: int
    content: Content
    check: bool
    last: bool


def first_march(round_: int) -> int:
    """The number of the march with which a launch of this round begins; both are counted from 0."""
    return _MARCHES_A_ROUND * round_


def visits(chunks: int, group: int, seed: int, first: int = 0) -> Iterator[Visit]:
    """All patterns, one after the other, turn after turn, without end: VISITS times `chunks` for each march.

    group: chunks that are checked before any of them is written. first: number of the march to begin with.
    """
    names = list(PATTERNS)
    for march in itertools.count(first):
        number, at = divmod(march, len(names))
        for stroke in MARCH:
            yield from _walk(stroke, names[at], Turn(number, seed), _groups(chunks, group))


def _walk(stroke: Stroke, pattern: str, turn: Turn, groups: Sequence[range]) -> Iterator[Visit]:
    for group in reversed(groups) if stroke.downwards else groups:
        order = group[::-1] if stroke.downwards else group
        for wanted, check in ((stroke.check, True), (stroke.write, False)):
            if wanted is not None:
                content = Content(pattern, turn, wanted)
                yield from (Visit(chunk, content, check, chunk == order[-1]) for chunk in order)


def _groups(chunks: int, group: int) -> list[range]:
    return [range(first, min(first + group, chunks)) for first in range(0, chunks, group)]


def marches(done: int, chunks: int, first: int = 0) -> dict[str, int]:
    """Pattern → how often it was marched from beginning to end by so many visits. first: as in `visits`."""
    whole, names = done // (VISITS * chunks), list(PATTERNS)
    ended = Counter(march % len(names) for march in range(first, first + whole))
    return {name: ended[at] for at, name in enumerate(names)}


class Memory:
    """Words that are written and read span by span. words: int64 of shape (n,); a fault may be put in between."""

    def __init__(self, words: torch.Tensor) -> None:
        self.words = words

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.words.device

    def write(self, span: Span, words: torch.Tensor) -> None:
        """Write int64 of shape (count,). Does not wait for the device."""
        self.words.narrow(0, span.first, span.count).copy_(words)

    def read(self, span: Span) -> torch.Tensor:
        """What the span holds, shape (count,): the memory itself, not a copy of it."""
        return self.words.narrow(0, span.first, span.count)
