"""Bit patterns of a memory test, and the walks through the memory that write and check them.

    ↑ write w        ↑ check w, write ~w        ↓ check ~w, write w        ↑ check w

w: a word of the pattern. ~w: its complement. ↑ from the first word to the last, ↓ back (moving inversions). chunk: part
of the memory that is written or checked at once. group: neighbouring chunks. All of them are checked, and the host
reads the results, before any of them is written. A stuck address line turns two words into one. Each pattern finds
these faults in otherwise healthy memory ("all": in any bits, word or line. "-": none. "line < 6": only lines 0 to 5 of
the words' indices):

    fault                                                own address  moving inv.  walking  modulo 20  random
    bits that flip after they were written                    all         all        all       all      all
    a bit stuck at 0 or 1                                     all         all        all       all      all
    an address line stuck, the two words in two groups        all         all        all       all      all
    an address line stuck, both words in one group            all          -       line < 6    all      all

march: the four walks above with one pattern. turn: one of the marches of a pattern. Some faults need certain
neighbouring bits (coupling), so the words change each turn: moving inversions take the next of seven backgrounds, the
walking bit starts one of 64 places further, modulo 20 one of 20, and random takes new words. Marches are numbered over
a whole burn-in. A round has one launch of the test:

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
"""Distance between chosen words of modulo 20, in words. No cache line, row or bank of memory is a multiple of it."""
_BACKGROUNDS: Final = tuple(bits.signed(_ALL // ((1 << run) + 1), _WORD_BITS) for run in (64, 1, 2, 4, 8, 16, 32))
"""Words of moving inversions, with runs of equal bits: all zeros, 01 01, 0011 0011, and so on."""
_EVERY_TWENTIETH: Final = _BACKGROUNDS[1]
_STREAM: Final = 301
_MARCHES_A_ROUND: Final = 17
"""Difference between the numbers of the first marches of two successive rounds.

About the marches of a one-minute launch on an H200; one of 20 s has five. The number is coprime to the five patterns
and their 7 backgrounds, 64 and 20 places, so that launches of a single march reach all of them."""


@dataclass(frozen=True)
class Span:
    """Consecutive words of the memory. first: index of the first word. count: number of words."""

    first: int
    count: int


@dataclass(frozen=True)
class Turn:
    """One march of a pattern. number: index among the marches of this pattern. seed: of random words."""

    number: int
    seed: int


Words = Callable[[Span, Turn, torch.device], torch.Tensor]
"""Function that returns a pattern's words for a span: new int64 of shape (count,). Takes the memory of 2 or 3 spans."""


@dataclass(frozen=True)
class _Stroke:
    """One walk through the memory. check, write: False for the words, True for their complement, None to skip.

    downwards: from the last chunk to the first.
    """

    check: bool | None
    write: bool | None
    downwards: bool = False


PLAIN: Final = False
COMPLEMENT: Final = True
MARCH: Final = (
    _Stroke(check=None, write=PLAIN),
    _Stroke(check=PLAIN, write=COMPLEMENT),
    _Stroke(check=COMPLEMENT, write=PLAIN, downwards=True),
    _Stroke(check=PLAIN, write=None),
)
# Number of times that a march visits each chunk.
VISITS: Final = sum((stroke.check is not None) + (stroke.write is not None) for stroke in MARCH)


def own_address(span: Span, _: Turn, device: torch.device) -> torch.Tensor:
    """Return words that each hold their own index in the memory (from 0)."""
    return torch.arange(span.first, span.first + span.count, device=device)


def moving_inversions(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """Return equal words: the background (see _BACKGROUNDS) of this turn."""
    background = _BACKGROUNDS[turn.number % len(_BACKGROUNDS)]
    return torch.full((span.count,), background, dtype=torch.int64, device=device)


def walking_ones_and_zeros(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """Return words with one bit set, one place further in each next word. Their complement is the walking zero.

    The place, from 0 for the lowest bit, is the word's index in the memory plus `turn.number`, modulo 64.
    """
    places = own_address(span, turn, device).add_(turn.number).remainder_(_WORD_BITS)
    return torch.bitwise_left_shift(1, places)


def modulo_20(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """Return equal words, except that every twentieth is the complement of the others.

    turn: which ones: the words whose index in the memory has the same remainder as `turn.number` when divided by 20.
    """
    chosen = own_address(span, turn, device).remainder_(_APART) == turn.number % _APART
    return chosen.to(torch.int64).neg_().bitwise_xor_(~_EVERY_TWENTIETH)


def random(span: Span, turn: Turn, device: torch.device) -> torch.Tensor:
    """Return random words: those at the indices of the span in a stream of `turn.seed` that only this turn uses."""
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
    """Expected content during a walk: pattern, turn, and whether it is the complement."""

    pattern: str
    turn: Turn
    complement: bool

    def words(self, span: Span, device: torch.device) -> torch.Tensor:
        """Return the expected words of a span: new int64 of shape (count,)."""
        words = PATTERNS[self.pattern](span, self.turn, device)
        return words.bitwise_not_() if self.complement else words


@dataclass(frozen=True)
class Visit:
    """One check or write of a chunk. chunk: its index in the memory. check: False to write.

    content: to expect in the chunk, or to write to it. last: the chunk is the last of its group in this
    walk. The chunks of a group are all checked before any of them is written.
    """

    chunk: int
    content: Content
    check: bool
    last: bool


def first_march(round_: int) -> int:
    """Return the number of the first march in round `round_`. Marches and rounds are counted from 0."""
    return _MARCHES_A_ROUND * round_


def visits(chunks: int, group: int, seed: int, first: int = 0) -> Iterator[Visit]:
    """Yield the visits of a memory test, march after march, without end.

    chunks: number of chunks in the memory. group: number of chunks that are all checked before any of them is written.
    seed: of the random words. first: number of the first march.
    """
    names = list(PATTERNS)
    groups = [range(start, min(start + group, chunks)) for start in range(0, chunks, group)]
    for march in itertools.count(first):
        number, at = divmod(march, len(names))
        for stroke in MARCH:
            yield from _walk(stroke, names[at], Turn(number, seed), groups)


def _walk(stroke: _Stroke, pattern: str, turn: Turn, groups: Sequence[range]) -> Iterator[Visit]:
    for group in reversed(groups) if stroke.downwards else groups:
        order = group[::-1] if stroke.downwards else group
        for wanted, check in ((stroke.check, True), (stroke.write, False)):
            if wanted is not None:
                content = Content(pattern, turn, wanted)
                yield from (Visit(chunk, content, check, chunk == order[-1]) for chunk in order)


def marches(done: int, chunks: int, first: int = 0) -> dict[str, int]:
    """Return pattern → number of its complete marches within the first `done` visits; 0 for patterns without one.

    chunks: number of chunks in the memory. first: number of the first march.
    """
    whole, names = done // (VISITS * chunks), list(PATTERNS)
    ended = Counter(march % len(names) for march in range(first, first + whole))
    return {name: ended[at] for at, name in enumerate(names)}


class Memory:
    """Words that are written and read span by span. words: int64 of shape (n,)."""

    def __init__(self, words: torch.Tensor) -> None:
        self.words = words

    @property
    def device(self) -> torch.device:
        """Device of the memory."""
        return self.words.device

    def write(self, span: Span, words: torch.Tensor) -> None:
        """Write `words`, int64 of shape (count,), to the span. Does not wait for the device."""
        self.words.narrow(0, span.first, span.count).copy_(words)

    def read(self, span: Span) -> torch.Tensor:
        """Return the words of the span, int64 of shape (count,), as a view and not a copy."""
        return self.words.narrow(0, span.first, span.count)
