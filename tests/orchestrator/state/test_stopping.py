"""orchestrator/state/stopping.py: what requests to stop, and a time limit, lead to."""

from orchestrator.state.stopping import GENTLE_GRACE_S, GENTLE_S, Order, Stopping


def test_the_first_request_is_patient_and_the_second_is_not() -> None:
    """Each order is given once, however often one asks."""
    stopping = Stopping()
    assert stopping.heed(0, 0.0) == ()
    assert stopping.heed(1, 10.0) == (Order.BEGIN_NOTHING,)
    assert stopping.heed(1, 11.0) == ()
    assert stopping.over_by == 10.0 + GENTLE_S + GENTLE_GRACE_S
    assert stopping.heed(2, 12.0) == (Order.KILL,)
    assert stopping.over_by == 12.0
    assert stopping.heed(5, 13.0) == ()


def test_two_requests_at_once_are_both_heard() -> None:
    """Signals may come faster than they are looked at."""
    assert Stopping().heed(2, 0.0) == (Order.BEGIN_NOTHING, Order.KILL)


def test_what_still_runs_is_asked_to_end_once() -> None:
    """After the patience, and not before."""
    stopping = Stopping()
    stopping.heed(1, 0.0)
    assert stopping.time_passed(GENTLE_S - 0.1) == ()
    assert stopping.time_passed(GENTLE_S) == (Order.END_GENTLY,)
    assert stopping.time_passed(GENTLE_S + 1) == ()


def test_the_end_of_the_time_is_told_once_and_nothing_is_waited_for() -> None:
    """Without a limit it never comes."""
    limited, unlimited = Stopping(ends=50.0), Stopping()
    assert limited.time_passed(49.9) == ()
    assert limited.time_passed(50.0) == (Order.TIME_IS_UP,)
    assert limited.over_by == 50.0
    assert limited.time_passed(51.0) == ()
    assert unlimited.time_passed(1e9) == ()


def test_a_time_that_is_put_off_ends_so_much_later() -> None:
    """As of a burn-in whose start does not count."""
    stopping = Stopping(ends=50.0)
    stopping.put_off(12.0)
    assert stopping.time_passed(61.9) == ()
    assert stopping.time_passed(62.0) == (Order.TIME_IS_UP,)
