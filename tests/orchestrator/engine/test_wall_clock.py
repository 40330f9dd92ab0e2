"""The host's clock is set while the run goes on: written down, and without any effect on what is measured."""

from orchestrator.engine.wall_clock import WallClock


def test_what_is_set_is_told_once() -> None:
    """By how much, forwards and backwards; from then on the new time is the right one."""
    clock = WallClock(wall=1_000.0, monotonic=10.0)
    assert clock.jumped(1_001.0, 11.0) == 0.0
    assert clock.jumped(4_602.0, 12.0) == 3_600.0
    assert clock.jumped(4_603.0, 13.0) == 0.0
    assert clock.jumped(1_004.0, 14.0) == -3_600.0


def test_a_clock_that_is_slewed_was_not_set() -> None:
    """Half a millisecond a second, for a burn-in, adds up to nothing that is told."""
    clock = WallClock(wall=0.0, monotonic=0.0)
    assert {clock.jumped(second * 1.0005, float(second)) for second in range(1, 36_000)} == {0.0}
