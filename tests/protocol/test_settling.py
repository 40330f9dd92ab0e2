"""Times that still change, told from noise. tests/worker/test_settled.py simulates whole launches."""

import random

import pytest

from protocol import settling


def noisy(level: list[float], deviation: float = 0.001) -> list[float]:
    source = random.Random(1)
    return [value * (1 + source.gauss(0, deviation)) for value in level]


def test_a_change_is_that_of_the_whole_window() -> None:
    """Of a line: 2 %, with the sign of the times."""
    for change in (0.02, -0.02):
        found = settling.trend(noisy([10 * (1 + change * place / 40) for place in range(40)]))
        assert found.change == pytest.approx(change, abs=0.002)
        assert abs(found.change) > found.half_width


def test_one_disturbed_block_changes_little() -> None:
    """The last of sixteen takes three times as long."""
    assert abs(settling.trend([*noisy([10.0] * 15), 30.0]).change) < 0.01


def test_a_steep_window_has_not_settled_but_the_blocks_behind_it() -> None:
    """The longer a cap, the slower the fall that is looked for."""
    fallen = noisy([10 - 0.1 * (place < 8) * (8 - place) for place in range(8)] + [10.0] * 16, 0.0001)
    assert settling.settled_blocks(fallen[:8], 0.25, 15) == 0
    assert settling.settled_blocks(fallen, 0.25, 15) in (8, 12, 16)
    slow = [10 * (1 + 0.00025 * place) for place in range(16)]  # 0.1 % a second
    assert settling.settled_blocks(slow, 0.25, 1) > 0
    assert settling.settled_blocks(slow, 0.25, 60) == 0


def test_a_change_that_ended_in_the_warm_up_does_not_last() -> None:
    """Blocks before the settled ones are ignored. A change that lasts through the measurement is a share."""
    ramp = noisy([9.9 + 0.1 * place / 24 for place in range(24)], 0.0001)
    assert settling.lasting_change(ramp[:16], 0, ramp[16:]) == pytest.approx(0.0083, abs=0.001)
    assert settling.lasting_change(noisy([9.0] * 8 + [10.0] * 8), 8, noisy([10.0] * 8)) is None
    assert settling.lasting_change([], 0, ramp[:7]) is None
