"""The clock of the loop, read from a clock that the test sets."""

from orchestrator.engine.loop_clock import LoopClock
from orchestrator.figures.report import pauses_in_words


class Time:
    """A monotonic clock that goes when it is told to."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.at


def test_it_goes_while_somebody_looks() -> None:
    """Passes of a second, and one of almost two on a busy machine, are time like any other."""
    time = Time()
    clock = LoopClock(time)
    begin = clock.now()
    for step_s in (1.0, 1.0, 1.9):
        time.at += step_s
        clock.now()
    assert round(clock.now() - begin, 6) == 3.9
    assert clock.stood_still() == 0.0


def test_it_leaves_out_what_nobody_saw() -> None:
    """Twenty seconds between two looks, then two more gaps: what waits has as much time left as before."""
    time = Time()
    clock = LoopClock(time)
    begin = clock.now()
    time.at += 1.0
    clock.now()
    time.at += 20.0
    assert clock.now() - begin == 1.0
    assert clock.stood_still() == 20.0
    assert clock.stood_still() == 0.0
    time.at += 5.0
    clock.now()
    time.at += 7.0
    assert clock.stood_still() == 12.0
    time.at += 0.5
    assert clock.now() - begin == 1.5


def test_work_is_no_standing_still() -> None:
    """What the loop knows to have been long is time like any other, however long it was."""
    time = Time()
    clock = LoopClock(time)
    begin = clock.now()
    time.at += 30.0
    clock.worked()
    assert clock.now() - begin == 30.0
    assert clock.stood_still() == 0.0


def test_what_is_said_of_it() -> None:
    """Once, and several times."""
    why = "(stopped by SIGSTOP, its machine paused, or held up by a disk): no deadline went on meanwhile"
    assert pauses_in_words([20.2]) == f"the orchestrator stood still for 20 s {why}"
    assert pauses_in_words([20.2, 10.0, 3.1]) == f"the orchestrator stood still 3 times, for 33 s in all {why}"
