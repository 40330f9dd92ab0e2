"""The test of memory in whole launches: what they say they verified, and how one goes on from the rounds before."""

from pathlib import Path

import msgspec
import pytest

from protocol import codec
from protocol.cell import Workload
from protocol.messages import Outcome
from protocol.result import Result
from protocol.verification import Injection, MemoryShare
from tests.fakes.assignments import PROBE, SHORT, assignment, run_here
from tests.worker.test_memory_patterns import CHUNKS, CPU, GROUP, MARCH, changed
from worker.verify import patterns
from worker.verify.patterns import PATTERNS, Content, Span, Turn
from worker.workloads import memory


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A mebibyte has groups too."""
    monkeypatch.setattr(memory, "GROUP", GROUP)
    return monkeypatch


def launch(
    cache: Path, small: pytest.MonkeyPatch, visits: int, injection: Injection | None = None, number: int = 0
) -> Result:
    """A launch that tests 1 MiB in 16 chunks, with one visit to warm up. number: of its round."""
    small.setitem(memory.CHUNK, "cpu", 64 * 1024)
    measurement = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=visits - 1)
    assign = assignment(PROBE, Workload.MEMORY, cache, batch_size=1, measurement=measurement)
    cell = msgspec.structs.replace(assign.cell, input_size=1, seed=11)
    return run_here(msgspec.structs.replace(assign, cell=cell, injection=injection, round=number))


def test_a_launch_says_what_it_verified(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """Every byte that was compared, and no pattern that was not marched to its end."""
    result = launch(tmp_path, small, visits=5 * MARCH)
    found = result.verification
    assert found is not None
    assert (found.mismatches, found.kept) == (0, ())
    assert (found.checks, found.verified_bytes) == (5 * 3 * CHUNKS, 5 * 3 * 1024 * 1024)
    assert list(found.not_tested) == ["memory"]
    assert found.patterns == dict.fromkeys(PATTERNS, 1)
    assert found.key
    assert result.bytes_per_iteration == {"iteration": 64 * 1024}
    assert len(result.times_ms("iteration")) == 5 * MARCH - 1
    assert result.memory.model_bytes == 1024 * 1024
    assert found.share == MemoryShare(covered=1024 * 1024, taken=1024 * 1024, whole=1024 * 1024)
    sent = codec.encode(Outcome(launch=1, token="token", result=result))
    assert codec.decode(sent, Outcome).result == result


def test_a_pattern_that_was_cut_short_never_came_to_its_end(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """By a single visit."""
    found = launch(tmp_path, small, visits=5 * MARCH - 1).verification
    assert found is not None
    assert [name for name, times in found.patterns.items() if not times] == ["random"]


def test_what_no_check_came_to_is_not_covered(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """All of the memory was written; a part of it was checked, each word once or more often."""
    found = launch(tmp_path, small, visits=CHUNKS + GROUP + 1).verification
    assert found is not None
    assert found.checks == GROUP
    assert found.share == MemoryShare(covered=GROUP * 64 * 1024, taken=1024 * 1024, whole=1024 * 1024)


def test_a_launch_goes_on_from_the_rounds_before(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """It writes what the march of its round writes, and says which patterns it ended."""
    found = launch(tmp_path, small, MARCH, Injection(flip_bits=1), number=1).verification
    assert found is not None
    assert found.patterns == {name: int(name == "walking ones and zeros") for name in PATTERNS}
    (first,) = found.kept[0].first
    turn = Turn(patterns.first_march(1) // len(PATTERNS), 11)
    assert turn.number == 3
    written = Content("walking ones and zeros", turn, complement=False).words(Span(first.offset, 1), CPU)
    assert int(first.expected, 16) == int(written)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("stuck", [False, True])
def test_an_injected_fault_is_found_in_a_launch(
    tmp_path: Path, small: pytest.MonkeyPatch, count: int, stuck: bool
) -> None:
    """With its word and its bits; once, or whenever the word is written."""
    found = launch(tmp_path, small, MARCH, Injection(flip_bits=count, stuck=stuck)).verification
    assert found is not None
    assert found.mismatches == (3 if stuck else 1)
    first = found.kept[0]
    ((word, mask),) = changed((first,)).items()
    assert (first.elements, first.bits, mask.bit_count()) == (1, count, count)
    assert first.first[0].expected == f"{word:016x}"
    assert first.iteration == CHUNKS - 1 + 2 * (word * 8 // 65536 // GROUP * GROUP) + word * 8 // 65536 % GROUP
    assert (first.same_when_read_again, first.repeated, first.wrong_again) == (True, 10, 10 if stuck else 0)
    assert first.beyond_rounding is None


def test_a_launch_that_ends_in_a_group_looks_at_its_last_checks(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """What was checked is looked at, wherever the measurement ends."""
    whole = launch(tmp_path, small, MARCH, Injection(flip_bits=1)).verification
    assert whole is not None
    until = whole.kept[0].iteration + 2
    found = launch(tmp_path, small, until, Injection(flip_bits=1)).verification
    assert found is not None
    assert found.mismatches == 1
    short = launch(tmp_path, small, until - 1, Injection(flip_bits=1)).verification
    assert short is not None
    assert (short.mismatches, short.checks) == (0, found.checks - 1)
