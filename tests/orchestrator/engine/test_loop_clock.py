"""The clock of the loop, read from a clock that the test sets."""

import re
from types import SimpleNamespace

import pytest

from orchestrator.engine.loop_clock import LoopClock
from orchestrator.figures.report import pauses_in_words


@pytest.fixture
def time() -> SimpleNamespace:
    """The monotonic clock: `at` is its time."""
    return SimpleNamespace(at=100.0)


@pytest.fixture
def clock(time: SimpleNamespace) -> LoopClock:
    """The clock of a loop that begins at 100 s."""
    return LoopClock(lambda: time.at, lambda: 0.0)


def test_looks_and_work_take_time(clock: LoopClock, time: SimpleNamespace) -> None:
    """Passes of up to almost two seconds, and work that the loop knows to have been long."""
    for step_s in (1.0, 1.0, 1.9):
        time.at += step_s
        clock.now()
    time.at += 30.0
    clock.worked()
    assert clock.now() == pytest.approx(133.9)
    assert clock.suspended_s() == 0.0


def test_a_short_gap_may_be_a_pause_of_launches(clock: LoopClock, time: SimpleNamespace) -> None:
    """Deadlines go on meanwhile; looks at launches are closer together."""
    for step_s in (0.1, 0.4, 0.6):
        time.at += step_s
        clock.now()
    assert clock.now() == pytest.approx(101.1)
    assert [(pause.begin_ns, pause.is_short) for pause in clock.pauses] == [(100_500_000_000, True)]


def test_pauses_are_excluded(clock: LoopClock, time: SimpleNamespace) -> None:
    """Each is reported once; what waits has as much time left as before."""
    time.at += 1.0
    clock.now()
    time.at += 20.0
    assert clock.now() == 101.0
    assert [clock.suspended_s(), clock.suspended_s()] == [20.0, 0.0]
    time.at += 5.0
    clock.now()
    time.at += 7.0
    assert clock.suspended_s() == 12.0
    time.at += 0.5
    assert clock.now() == 101.5


def test_pauses_in_words() -> None:
    """One is a duration, several are counted and summed up."""
    assert "for 20 s (" in pauses_in_words([20.2])
    assert re.search("3 times, .*33 s ", pauses_in_words([20.2, 10.0, 3.1]))


def test_a_machine_that_was_asleep_is_a_pause(time: SimpleNamespace) -> None:
    """The monotonic clock says nothing of it, and deadlines do not either."""
    time.asleep = 0.0
    clock = LoopClock(lambda: time.at, lambda: time.asleep)
    time.at, time.asleep = 100.25, 3600.0
    assert clock.now() == 100.25
    assert clock.pauses == [(100_000_000_000, 100_250_000_000, True)]
    assert clock.suspended_s() == 0.0
