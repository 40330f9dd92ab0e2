"""The test of memory: which pattern finds which fault, in memory with faults."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from protocol.failure import Phase
from protocol.verification import Mismatch
from tests.fakes.assignments import Listener
from worker.verify import bits, kept, patterns
from worker.verify.patterns import PATTERNS, Content, Memory, Span, Turn
from worker.workloads import memory
from worker.workloads.memory import MemoryTest

CPU = torch.device("cpu")
CHUNK, GROUP, CHUNKS = 64, 4, 16
"""Words, chunks, chunks: 256 words are a group, so that the two highest of ten address lines tell groups apart."""
WORDS = CHUNK * CHUNKS
MARCH = patterns.VISITS * CHUNKS
EVERY_PATTERN = pytest.mark.parametrize("pattern", list(PATTERNS))
Strike = Callable[[torch.Tensor, Span], None]


class Struck(Memory):
    """Memory whose words something happens to whenever some of them were written."""

    def __init__(self, strike: Strike) -> None:
        super().__init__(torch.zeros(WORDS, dtype=torch.int64))
        self._strike = strike

    def write(self, span: Span, words: torch.Tensor) -> None:
        super().write(span, words)
        self._strike(self.words, span)


class Aliased(Memory):
    """Memory with an address line that is always low, or always high: two words are one."""

    def __init__(self, line: int, high: bool) -> None:
        super().__init__(torch.zeros(WORDS, dtype=torch.int64))
        self._line, self._high = 1 << line, high

    def places(self, span: Span) -> torch.Tensor:
        wanted = torch.arange(span.first, span.first + span.count)
        return wanted | self._line if self._high else wanted & ~self._line

    def write(self, span: Span, words: torch.Tensor) -> None:
        self.words[self.places(span)] = words

    def read(self, span: Span) -> torch.Tensor:
        return self.words[self.places(span)]


class Misread(Memory):
    """Memory that is read wrong once: bits of a word, the third time that its chunk is read."""

    def __init__(self, word: int, mask: int) -> None:
        super().__init__(torch.zeros(WORDS, dtype=torch.int64))
        self._word, self._mask, self._reads = word, mask, 0

    def read(self, span: Span) -> torch.Tensor:
        found = super().read(span).clone()
        if 0 <= self._word - span.first < span.count:
            self._reads += 1
            if self._reads == 3:
                found[self._word - span.first] ^= self._mask
        return found


def healthy() -> Memory:
    """Memory without a fault."""
    return Memory(torch.zeros(WORDS, dtype=torch.int64))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A memory of a thousand words has chunks and groups too."""
    monkeypatch.setitem(memory.CHUNK, "cpu", CHUNK * patterns.WORD_BYTES)
    monkeypatch.setattr(memory, "GROUP", GROUP)
    return monkeypatch


def only(small: pytest.MonkeyPatch, pattern: str, most: int) -> None:
    small.setattr(patterns, "PATTERNS", {pattern: PATTERNS[pattern]})
    small.setattr(kept, "KEPT_MISMATCHES", most)
    small.setattr(memory, "REPETITIONS", 1)


def march(under_test: Memory, visits: int = MARCH) -> tuple[int, tuple[Mismatch, ...], int]:
    """Chunks that were wrong, those that were looked at, and the bytes that were verified."""
    test = MemoryTest(under_test, 5, Listener().stage)
    for _ in range(visits):
        test.step()
    test.look()
    found = test.verification((), {})
    return found.mismatches, found.kept, found.verified_bytes


def changed(mismatches: tuple[Mismatch, ...]) -> dict[int, int]:
    elements = [element for mismatch in mismatches for element in mismatch.first]
    return {element.offset: int(element.expected, 16) ^ int(element.found, 16) for element in elements}


# ── patterns ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@EVERY_PATTERN
def test_words_are_those_of_their_numbers(pattern: str) -> None:
    """However a memory is cut into spans, in every round; the complement has every bit turned."""
    for number in (0, 1, 6, 63):
        content = Content(pattern, Turn(number, 3), complement=False)
        whole = content.words(Span(0, 200), CPU)
        assert torch.equal(torch.cat([content.words(Span(at, 40), CPU) for at in range(0, 200, 40)]), whole)
        assert torch.equal(~Content(pattern, Turn(number, 3), complement=True).words(Span(0, 200), CPU), whole)


def test_patterns_are_what_they_are_called() -> None:
    """The first words of each, in the second round."""
    expected = {
        "own address": ["12", "13", "14"],
        "moving inversions": ["5555555555555555"] * 3,
        "walking ones and zeros": ["80000", "100000", "200000"],
        "modulo 20": ["aaaaaaaaaaaaaaaa"] * 3,
    }
    for pattern, words in expected.items():
        found = Content(pattern, Turn(1, 3), complement=False).words(Span(18, 3), CPU)
        assert [f"{word % (1 << 64):x}" for word in found.tolist()] == words
    twentieth = Content("modulo 20", Turn(1, 3), complement=False).words(Span(0, 60), CPU)
    assert (twentieth == 0x5555555555555555).nonzero().flatten().tolist() == [1, 21, 41]


@pytest.mark.parametrize(("pattern", "rounds"), [("moving inversions", 7), ("walking ones and zeros", 64)])
def test_rounds_differ_until_all_were_done(pattern: str, rounds: int) -> None:
    """Every background, and every place of the bit that walks, comes once before any comes again."""
    words = [int(Content(pattern, Turn(at, 3), complement=False).words(Span(9, 1), CPU)) for at in range(2 * rounds)]
    assert len(set(words)) == rounds
    assert words[:rounds] == words[rounds:]


def test_random_words_are_of_the_seed_and_the_round() -> None:
    """Half of all bits are set."""
    made = [Content("random", turn, complement=False).words(Span(0, 1000), CPU) for turn in (Turn(0, 3), Turn(1, 3))]
    other = Content("random", Turn(0, 4), complement=False).words(Span(0, 1000), CPU)
    assert not (made[0] == made[1]).any()
    assert not (made[0] == other).any()
    assert memory._population(made[0]) == pytest.approx(32_000, rel=0.02)


def test_march_writes_everything_before_it_reads() -> None:
    """Then a group is checked whole before any of it is written, and the third walk goes back."""
    made = patterns.visits(3, 2, 5)
    visits = [next(made) for _ in range(6 * 3)]
    order = [(visit.chunk, "check" if visit.check else "write", visit.content.complement) for visit in visits]
    assert order[:3] == [(0, "write", False), (1, "write", False), (2, "write", False)]
    assert order[3:9] == [
        (0, "check", False),
        (1, "check", False),
        (0, "write", True),
        (1, "write", True),
        (2, "check", False),
        (2, "write", True),
    ]
    assert [entry[0] for entry in order[9:15]] == [2, 2, 1, 0, 1, 0]
    assert order[15:] == [(0, "check", False), (1, "check", False), (2, "check", False)]
    assert [visit.chunk for visit in visits if visit.check and visit.last] == [1, 2, 2, 0, 1, 2]


def test_marches_count_from_end_to_end() -> None:
    """One visit too few, and the march is none."""
    first, second = list(PATTERNS)[:2]
    assert patterns.marches(MARCH - 1, CHUNKS)[first] == 0
    assert patterns.marches(MARCH, CHUNKS) == {name: int(name == first) for name in PATTERNS}
    assert patterns.marches(MARCH * 6, CHUNKS) == {name: 2 if name == first else 1 for name in PATTERNS}
    assert patterns.marches(MARCH * 7 - 1, CHUNKS)[second] == 1


@pytest.mark.parametrize(("marches", "rounds"), [(1, 5), (2, 3), (3, 2), (4, 2), (5, 1)])
def test_short_launches_reach_every_pattern_over_the_rounds(marches: int, rounds: int) -> None:
    """A launch without time for all of them starts with others in the next round."""
    ended: Counter[str] = Counter()
    for number in range(rounds):
        ended.update(patterns.marches(MARCH * marches, CHUNKS, patterns.first_march(number)))
    assert all(ended[name] for name in PATTERNS), ended


@pytest.mark.parametrize("marches", [1, 5])
def test_rounds_reach_every_background_and_place(marches: int) -> None:
    """Also with launches of a single march: 7 backgrounds, 64 places of the bit, 20 offsets."""
    seen: dict[str, set[int]] = {name: set() for name in PATTERNS}
    for number in range(5 * 64):
        made = patterns.visits(1, 1, 5, patterns.first_march(number))
        for visit in itertools.islice(made, patterns.VISITS * marches):
            seen[visit.content.pattern].add(visit.content.turn.number)
    for pattern, states in {"moving inversions": 7, "walking ones and zeros": 64, "modulo 20": 20}.items():
        assert len({number % states for number in seen[pattern]}) == states


def test_visits_and_marches_agree_on_the_start_of_a_round() -> None:
    """The patterns that count as ended are those that were visited."""
    first = patterns.first_march(3)
    visits = itertools.islice(patterns.visits(4, 2, 5, first), patterns.VISITS * 8)
    visited = {visit.content.pattern for visit in visits}
    counted = patterns.marches(patterns.VISITS * 8, 4, first)
    assert visited == {name for name, times in counted.items() if times}
    assert len(visited) == 2


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@EVERY_PATTERN
@pytest.mark.parametrize("count", [1, 4])
def test_every_pattern_finds_bits_that_flip(small: pytest.MonkeyPatch, pattern: str, count: int) -> None:
    """One to four of any word, once: with its place and its bits."""
    only(small, pattern, most=1000)
    numbers = random.Random(f"{pattern} {count}")
    masks = {word: sum(1 << bit for bit in numbers.sample(range(64), count)) for word in range(5, WORDS, 11)}
    left = dict(masks)

    def flip(words: torch.Tensor, span: Span) -> None:
        for word in [word for word in left if word in range(span.first, span.first + span.count)]:
            words[word] ^= bits.signed(left.pop(word), 64)

    mismatches, kept, _ = march(Struck(flip))
    assert changed(kept) == masks
    assert mismatches == len(kept) == CHUNKS
    assert sum(mismatch.elements for mismatch in kept) == len(masks)
    assert sum(mismatch.bits for mismatch in kept) == count * len(masks)
    assert all(mismatch.same_when_read_again and mismatch.wrong_again == 0 for mismatch in kept)


@EVERY_PATTERN
@pytest.mark.parametrize("value", [0, 1])
def test_every_pattern_finds_a_bit_that_is_stuck(small: pytest.MonkeyPatch, pattern: str, value: int) -> None:
    """Each of the 64, at 0 or at 1; it is wrong again when it is written again."""
    only(small, pattern, most=1000)
    stuck = {16 * bit + 3: 1 << bit for bit in range(64)}
    places = torch.tensor(list(stuck))
    masks = torch.tensor([bits.signed(mask, 64) for mask in stuck.values()])

    def hold(words: torch.Tensor, _: Span) -> None:
        words[places] = words[places] | masks if value else words[places] & ~masks

    _, kept, _ = march(Struck(hold))
    assert changed(kept) == stuck
    assert all(mismatch.wrong_again == 1 for mismatch in kept)


@EVERY_PATTERN
@pytest.mark.parametrize("high", [False, True])
def test_patterns_find_address_lines_that_are_stuck(small: pytest.MonkeyPatch, pattern: str, high: bool) -> None:
    """As the table of worker/verify/patterns.py says: a pattern that repeats within a group misses its lines."""
    only(small, pattern, most=0)
    found = {line for line in range(10) if march(Aliased(line, high))[0]}
    blind = {"moving": set(range(8)), "walking": {6, 7}}
    assert found == set(range(10)) - blind.get(pattern.split(maxsplit=1)[0], set())


def test_error_of_reading_differs_from_one_of_memory(small: pytest.MonkeyPatch) -> None:
    """Healthy memory has no mismatch. Wrongly read bits are kept, though they are right when read again."""
    assert march(healthy(), visits=2 * MARCH * len(PATTERNS)) == (0, (), 2 * len(PATTERNS) * 3 * 8 * WORDS)
    mismatches, kept, _ = march(Misread(word=70, mask=0b101 << 40))
    assert mismatches == 1
    assert changed(kept) == {70: 0b101 << 40}
    assert (kept[0].elements, kept[0].bits, kept[0].same_when_read_again, kept[0].wrong_again) == (1, 2, False, 0)
    assert kept[0].what.startswith("memory, own address")


def test_all_mismatches_count_and_the_first_are_kept(small: pytest.MonkeyPatch) -> None:
    """Of a memory that holds nothing, and of a chunk with many wrong words."""

    def forget(words: torch.Tensor, span: Span) -> None:
        words[span.first : span.first + span.count] = 7

    small.setattr(memory, "REPETITIONS", 1)
    mismatches, kept, _ = march(Struck(forget))
    assert (mismatches, len(kept)) == (3 * CHUNKS, 16)
    assert (kept[1].elements, len(kept[1].first), kept[1].iteration) == (CHUNK, 16, CHUNKS + 1)
    assert kept[1].bits == sum((word ^ 7).bit_count() for word in range(CHUNK, 2 * CHUNK))


# ── taking memory ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_less_is_taken_where_there_is_not_enough() -> None:
    """In steps, always whole chunks; a memory without room for one chunk is out of memory."""
    asked: list[int] = []

    def allocate(size: int) -> torch.Tensor:
        asked.append(size)
        if size > 700:
            raise torch.OutOfMemoryError("no")
        return torch.empty(size)

    assert len(memory.most_of(930, less=100, chunk=64, allocate=allocate)) == 640
    assert asked == [960, 832, 768, 640]
    with pytest.raises(torch.OutOfMemoryError):
        memory.most_of(930, less=400, chunk=750, allocate=allocate)


@pytest.mark.parametrize(("tested", "reported"), [(900, False), (899, True)])
def test_testing_less_than_nine_tenths_is_reported(tested: int, reported: bool) -> None:
    """With both sizes in bytes."""
    reason = memory._untested_memory(tested, 1000).get("memory", "")
    assert ("899" in reason and "1000" in reason) is reported


def test_mismatch_of_the_warm_up_has_its_phase(small: pytest.MonkeyPatch) -> None:
    """Its iteration is counted within its phase."""
    listener = Listener(Phase.WARM_UP)
    small.setattr(memory, "REPETITIONS", 1)

    def hold(words: torch.Tensor, _: Span) -> None:
        words[0] = 1

    test = MemoryTest(Struck(hold), 5, listener.stage)
    for _ in range(MARCH // 2):
        test.step()
    listener.stage.enter(Phase.MEASURE)
    for _ in range(MARCH // 2):
        test.step()
    kept = test.verification((), {}).kept
    assert [one.iteration for one in kept] == [CHUNKS, 2 * (CHUNKS - GROUP) + GROUP - 1, MARCH // 2 - CHUNKS]
    assert [re.findall("own address|inverted|warming up", one.what) for one in kept] == [
        ["own address", "warming up"],
        ["own address", "inverted"],
        ["own address"],
    ]
