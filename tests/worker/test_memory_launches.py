"""The test of memory in whole launches: what each reports as verified, and how one follows the rounds before."""

from pathlib import Path

import msgspec
import pytest

from protocol.cell import Workload
from protocol.result import Result
from protocol.verification import Injection, MemoryShare
from tests.fakes.assignments import PROBE, SHORT, assignment, run_here, verified
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
    steps = msgspec.structs.replace(SHORT, warm_up_iterations=1, iterations=visits - 1)
    cell = {"batch_size": 1, "input_size": 1, "seed": 11}
    assign = assignment(PROBE, Workload.MEMORY, cache, measurement=steps, injection=injection, **cell)
    return run_here(msgspec.structs.replace(assign, round=number))


def test_launch_reports_what_it_verified(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """Every byte that was compared, and every pattern that was marched to its end."""
    result = launch(tmp_path, small, visits=5 * MARCH)
    found = verified(result)
    assert (found.mismatches, found.kept) == (0, ())
    assert (found.checks, found.verified_bytes) == (5 * 3 * CHUNKS, 5 * 3 * 1024 * 1024)
    assert list(found.not_tested) == ["host memory beyond 1 MiB"]
    assert found.patterns == dict.fromkeys(PATTERNS, 1)
    assert found.key
    assert result.bytes_per_iteration == {"iteration": 64 * 1024}
    assert len(result.times_ms("iteration")) == 5 * MARCH - 1
    assert result.memory.model_bytes == 1024 * 1024
    assert found.share == MemoryShare(covered=1024 * 1024, taken=1024 * 1024, whole=1024 * 1024)


def test_unfinished_patterns_and_unchecked_memory_do_not_count(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """A pattern that lacks one visit has not ended. Memory that was written and not checked is not covered."""
    found = verified(launch(tmp_path, small, visits=5 * MARCH - 1))
    assert [name for name, times in found.patterns.items() if not times] == ["random"]
    found = verified(launch(tmp_path, small, visits=CHUNKS + GROUP + 1))
    assert found.checks == GROUP
    assert found.share == MemoryShare(covered=GROUP * 64 * 1024, taken=1024 * 1024, whole=1024 * 1024)


def test_launch_continues_from_the_rounds_before(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """It writes what the march of its round writes, and reports the patterns it ended."""
    found = verified(launch(tmp_path, small, MARCH, Injection(flip_bits=1), number=1))
    [walking] = [name for name in PATTERNS if name.startswith("walking")]
    assert found.patterns == {name: int(name == walking) for name in PATTERNS}
    (first,) = found.kept[0].first
    turn = Turn(patterns.first_march(1) // len(PATTERNS), 11)
    assert turn.number == 3
    written = Content(walking, turn, complement=False).words(Span(first.offset, 1), CPU)
    assert int(first.expected, 16) == int(written)


@pytest.mark.parametrize(("count", "stuck"), [(1, False), (4, True)])
def test_injected_fault_is_found(tmp_path: Path, small: pytest.MonkeyPatch, count: int, stuck: bool) -> None:
    """With its word and its bits; once, or whenever the word is written."""
    found = verified(launch(tmp_path, small, MARCH, Injection(flip_bits=count, stuck=stuck)))
    assert found.mismatches == (3 if stuck else 1)
    first = found.kept[0]
    ((word, mask),) = changed((first,)).items()
    assert (first.elements, first.bits, mask.bit_count()) == (1, count, count)
    assert first.first[0].expected == f"{word:016x}"
    assert first.iteration == CHUNKS - 1 + 2 * (word * 8 // 65536 // GROUP * GROUP) + word * 8 // 65536 % GROUP
    assert (first.same_when_read_again, first.repeated, first.wrong_again) == (True, 10, 10 if stuck else 0)
    assert first.beyond_rounding is None


def test_last_checks_of_a_launch_count(tmp_path: Path, small: pytest.MonkeyPatch) -> None:
    """Wherever in a group the measurement ends."""
    whole = verified(launch(tmp_path, small, MARCH, Injection(flip_bits=1)))
    until = whole.kept[0].iteration + 2
    found, short = (verified(launch(tmp_path, small, visits, Injection(flip_bits=1))) for visits in (until, until - 1))
    assert (found.mismatches, short.mismatches, short.checks) == (1, 0, found.checks - 1)
