"""Test of the device's memory: write patterns to most of it, and compare every bit that is read back.

    allocate 92 % of the free memory (CPU: 64 MiB) ──▶ one pattern after another (march), until the time is up
    chunk:  write: make its words, copy them          check: make its words, exclusive or, count nonzero words
    group:  check 32 chunks ──▶ read the counts, and examine wrong chunks ──▶ overwrite them

An iteration is one visit to one chunk, a write or a check. The device counts wrong words and keeps the index and bits
of the first. The host reads these results once a group. Offsets are words of 64 bits within the memory under test,
never physical rows. A wrong chunk is read again, after other memory has replaced it in the caches. If the memory was at
fault, the words are wrong again. If a cache or the reading was at fault, they are right.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from protocol.cell import Cell
from protocol.failure import Phase
from protocol.messages import Assign
from protocol.result import Result
from protocol.verification import (
    KEPT_ELEMENTS,
    WARMING_UP,
    Element,
    Injection,
    MemoryShare,
    Mismatch,
    Verification,
)
from worker import devices
from worker.measure import Work
from worker.stage import Stage
from worker.verify import bits, flips, key, patterns
from worker.verify.kept import Kept
from worker.verify.patterns import WORD_BYTES, Memory, Span, Visit
from worker.verify.slow import slowed
from worker.workloads import common

_MIB: Final = 1024 * 1024
CHUNK: Final = {"cuda": 128 * _MIB, "cpu": _MIB}
"""Kind of device → bytes of a chunk. On a GPU a visit to it takes longer than the host needs to enqueue it."""
GROUP: Final = 32
"""Number of checked chunks after which the host reads the results: about every 8 ms on a GPU."""
CPU_MIB: Final = 64
SHARE: Final = 0.92
"""Share of the free memory to test. The rest is for scratch and for later allocations of libraries."""
LEAST_SHARE: Final = 0.9  # the result names a smaller tested share
_LESS: Final = 0.02  # of the free memory, by which the next attempt is smaller
_SCRATCH: Final = 5  # chunks that a visit may take in addition
_CACHED: Final = {"cuda": 256 * _MIB, "cpu": 64 * _MIB}
"""Kind of device → bytes whose reading replaces all data in the caches: twice the largest cache."""
REPETITIONS: Final = 10
_WORD_BITS: Final = 64
_ALL: Final = (1 << _WORD_BITS) - 1


def run(assign: Assign, stage: Stage, isolation: str) -> Result:
    """Test the memory until the measurement ends. Mismatches are in the result's verification.

    isolation: "fork" or "exec", for the result.
    """
    stage.enter(Phase.BUILD)
    device = common.open_device(assign, stage)
    stage.enter(Phase.WARM_UP)
    with torch.inference_mode():
        with stage.timed("warm_up"):
            words, free = _taken(device, assign.cell)
            memory = _memory(words, assign)
            test = MemoryTest(memory, assign.cell.seed, stage, patterns.first_march(assign.round))
            devices.synchronize(device)
        work = slowed(Work({"iteration": test.step}, waits=True), assign)
        measurements = common.warm_up_and_measure(work, assign, stage, device)
        with stage.timed("measure"):
            test.look()
    share = MemoryShare(covered=test.covered_bytes, taken=words.nbytes, whole=words.nbytes if free is None else free)
    return Result(
        **common.fields(measurements, common.holding([words]), assign, stage, isolation=isolation, items=1),
        bytes_per_iteration={"iteration": test.chunk_bytes},
        verification=test.verification(key.key(assign.device, device), _untested_memory(words.nbytes, free), share),
    )


# ── taking the memory ─────────────────────────────────────────────────────────────────────────────────────────────────


def _taken(device: torch.device, cell: Cell) -> tuple[torch.Tensor, int | None]:
    """Allocate the words to test (int64, shape (n,)). Returns them and the bytes that were free before (CPU: None).

    cell.input_size: MiB to test. On a GPU the limit is SHARE of its free memory, which None requests. On a CPU device,
    None requests CPU_MIB.
    Raises torch.OutOfMemoryError if not even one chunk fits on a GPU.
    """
    chunk = CHUNK[device.type]

    def allocate(size: int) -> torch.Tensor:
        words = torch.empty(size // WORD_BYTES, dtype=torch.int64, device=device)
        torch.empty(_SCRATCH * chunk, dtype=torch.uint8, device=device)
        return words

    requested = None if cell.input_size is None else cell.input_size * _MIB
    if device.type != "cuda":
        return allocate(requested or CPU_MIB * _MIB), None
    free, _ = torch.cuda.mem_get_info(device)
    most = min(math.ceil(SHARE * free), requested or free)
    return most_of(most, less=math.ceil(_LESS * free), chunk=chunk, allocate=allocate), free


def most_of(size: int, *, less: int, chunk: int, allocate: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """Allocate `size` bytes of GPU memory, or as many as fit, and return them as the tensor from `allocate`.

    While allocation fails, `size` shrinks by `less` bytes. Each attempt is rounded up to whole chunks of `chunk` bytes.
    allocate: returns a tensor of the given number of bytes. Raises torch.OutOfMemoryError if not even one chunk fits.
    """
    while True:
        rounded = math.ceil(size / chunk) * chunk
        try:
            return allocate(rounded)
        except torch.OutOfMemoryError:
            if rounded == chunk:
                raise
        torch.cuda.empty_cache()
        size = max(size - less, chunk)


def _untested_memory(tested: int, free: int | None) -> dict[str, str]:
    if free is None:
        return {f"host memory beyond {tested // _MIB} MiB": "on a CPU device, only this much of it is tested"}
    if tested >= LEAST_SHARE * free:
        return {}
    share = f"{100 * tested / free:.0f} %"
    return {"memory": f"{tested} of {free} free bytes were tested ({share}): no more could be allocated"}


class _Flipped(Memory):
    """Memory with an injected fault: bits of one word flip after its first write. If stuck, after every write."""

    def __init__(self, words: torch.Tensor, injection: Injection, seed: int) -> None:
        super().__init__(words)
        self._word = random.Random(f"word to flip {seed}").randrange(len(words))
        self._mask = bits.signed(flips.places(seed, injection.flip_bits, 1, _WORD_BITS)[0], _WORD_BITS)
        self._wanted, self._stuck = True, injection.stuck

    def write(self, span: Span, words: torch.Tensor) -> None:
        super().write(span, words)
        if self._wanted and 0 <= self._word - span.first < span.count:
            self.words[self._word].bitwise_xor_(self._mask)
            self._wanted = self._stuck


def _memory(words: torch.Tensor, assign: Assign) -> Memory:
    if assign.injection is None or not assign.injection.flip_bits:
        return Memory(words)
    return _Flipped(words, assign.injection, assign.cell.seed)


# ── testing it ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Checked:
    """Check of a chunk whose outcome the host has not read yet. iteration: number within the phase."""

    visit: Visit
    phase: Phase
    iteration: int

    @property
    def what(self) -> str:
        content, phase = self.visit.content, "" if self.phase is Phase.MEASURE else WARMING_UP
        return f"memory, {content.pattern}{' inverted' if content.complement else ''}{phase}"


@dataclass(frozen=True)
class _Wrong:
    """Outcome of a check. elements: number of wrong words. place, changed: index and wrong bits of the first one."""

    elements: int
    place: int
    changed: int


class MemoryTest:
    """Test of a device's memory in visits (verify/patterns.py), and its mismatches. chunk_bytes: bytes of a visit."""

    def __init__(self, memory: Memory, seed: int, stage: Stage, first: int = 0) -> None:
        """Start with march number `first` (patterns.py). memory: a whole number of chunks. seed: of random words.

        stage: reports the phases, and stores each mismatch.
        """
        self.chunk_bytes = CHUNK[memory.device.type]
        self._memory, self._stage = memory, stage
        self._chunks = memory.words.nbytes // self.chunk_bytes
        self._first = first
        self._visits = patterns.visits(self._chunks, GROUP, seed, first)
        self._seen = torch.zeros(GROUP, 3, dtype=torch.int64, device=memory.device)
        self._checked: list[_Checked] = []
        self._done: Counter[Phase] = Counter()
        self._checks = 0
        self._covered: set[int] = set()
        self._kept = Kept(stage)

    def step(self) -> None:
        """Write or check one chunk. Waits for the device after the last check of a group."""
        visit, phase = next(self._visits), self._stage.phase
        span = self._span(visit.chunk)
        words = visit.content.words(span, self._memory.device)
        if visit.check:
            self._check(span, words, self._seen[len(self._checked)])
            self._checked.append(_Checked(visit, phase, self._done[phase]))
            if visit.last:
                self.look()
        else:
            self._memory.write(span, words)
        self._done[phase] += 1

    def look(self) -> None:
        """Read the outcomes of the checks since the last call, and examine wrong chunks. Waits for the device."""
        seen = self._seen[: len(self._checked)].tolist()
        for checked, (elements, place, changed) in zip(self._checked, seen, strict=True):
            if elements:
                at = self._kept.seen(checked.what, checked.iteration)
                if at is not None:
                    self._kept.examined(at, self._examined(checked, _Wrong(elements, place, changed)))
        self._checks += len(self._checked)
        self._covered.update(checked.visit.chunk for checked in self._checked)
        self._checked = []

    @property
    def covered_bytes(self) -> int:
        """Total bytes of the chunks with at least one completed check."""
        return len(self._covered) * self.chunk_bytes

    def verification(
        self, key: tuple[str, ...], not_tested: dict[str, str], share: MemoryShare | None = None
    ) -> Verification:
        """Return the counts of the test and its kept mismatches. `checks` counts checks of chunks that `look` has read.

        key, not_tested, share: fields of Verification.
        """
        return Verification(
            key=key,
            patterns=patterns.marches(self._done.total(), self._chunks, self._first),
            method="every bit compared on the device",
            checks=self._checks,
            verified_bytes=self._checks * self.chunk_bytes,
            mismatches=self._kept.count,
            kept=self._kept.all,
            not_tested=not_tested,
            share=share,
        )

    def _span(self, chunk: int) -> Span:
        count = self.chunk_bytes // WORD_BYTES
        return Span(chunk * count, count)

    def _check(self, span: Span, words: torch.Tensor, seen: torch.Tensor) -> None:
        """Compare a span with its right `words`. Does not wait for the device.

        Overwrites `words` with the wrong bits (exclusive or), and `seen` (int64, shape (3,)) with the fields of _Wrong.
        """
        changed = words.bitwise_xor_(self._memory.read(span))
        wrong = changed != 0
        place = wrong.view(torch.uint8).argmax()
        torch.stack((wrong.sum(), place, changed.take(place)), out=seen)

    def _examined(self, checked: _Checked, wrong: _Wrong) -> Mismatch:
        """Examine a wrong chunk: read it again, then write and read its right words REPETITIONS times."""
        at_ns = time.monotonic_ns()
        content, span = checked.visit.content, self._span(checked.visit.chunk)
        words = content.words(span, self._memory.device)
        changed = self._read_again(checked.visit.chunk, words)
        same = int(changed.count_nonzero()) == wrong.elements and int(changed[wrong.place]) == wrong.changed
        places = changed.nonzero()[:KEPT_ELEMENTS, 0].tolist() if same else [wrong.place]
        return Mismatch(
            what=checked.what,
            at_ns=at_ns,
            iteration=checked.iteration,
            elements=wrong.elements,
            bits=_population(changed) if same else (wrong.changed & _ALL).bit_count(),
            first=tuple(
                _element(span.first + place, int(words[place]), int(changed[place]) if same else wrong.changed)
                for place in places
            ),
            same_when_read_again=same,
            repeated=REPETITIONS,
            wrong_again=sum(self._wrong_again(checked.visit.chunk, words) for _ in range(REPETITIONS)),
        )

    def _read_again(self, chunk: int, words: torch.Tensor) -> torch.Tensor:
        """Read the chunk again from memory instead of a cache. Returns its exclusive or with `words`: the wrong bits.

        words: right words of the chunk. chunk: its index.
        """
        others = [other for other in range(self._chunks) if other != chunk]
        for other in others[: _CACHED[self._memory.device.type] // self.chunk_bytes]:
            self._memory.read(self._span(other)).sum()
        return words ^ self._memory.read(self._span(chunk))

    def _wrong_again(self, chunk: int, words: torch.Tensor) -> bool:
        self._memory.write(self._span(chunk), words)
        return bool(self._read_again(chunk, words).any())


def _population(words: torch.Tensor) -> int:
    return sum(int((words.bitwise_right_shift(bit) & 1).sum()) for bit in range(_WORD_BITS))


def _element(offset: int, expected: int, changed: int) -> Element:
    return Element(offset=offset, expected=f"{expected & _ALL:016x}", found=f"{(expected ^ changed) & _ALL:016x}")
