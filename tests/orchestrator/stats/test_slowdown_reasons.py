"""The probable reason why a GPU became slower."""

import re

import pytest

from orchestrator.stats.slowdown_reasons import Reading, Reason, between, over_time


def reading(
    rate: float = 100.0, clock: float | None = 1500.0, heat: float | None = 60.0, capped: float | None = 1.0
) -> Reading:
    """A window of a GPU, by default at its power limit."""
    return Reading(rate=rate, clock_mhz=clock, temperature_c=heat, capped=capped)


@pytest.mark.parametrize(
    ("late", "reason", "words"),
    [
        (reading(96, 1440, 71), Reason.HEAT, "4.0%.* 11 degrees"),
        (reading(96, 1440, 71, 0.0), Reason.HEAT, "4.0%.* 11 degrees"),
        (reading(96, 1440, 61), Reason.POWER, "4.0%.*power limit"),
        (reading(96, 1440, None), Reason.POWER, "4.0%.*power limit"),
        (reading(96, 1440, 61, 0.0), Reason.CLOCK, "power limit"),
        (reading(96, 1440, 61, None), Reason.CLOCK, "4.0%"),
        (reading(96, 1500, 71), Reason.OTHER, "4.0%"),
        (reading(96, 1485, 71), Reason.OTHER, "3.0%"),
        (reading(96, None), Reason.UNKNOWN, "clock"),
        (reading(99.8, 1440, 80), Reason.NOT_SLOWER, "not slower"),
        (reading(104, 1560), Reason.NOT_SLOWER, "not slower"),
    ],
)
def test_changes_give_the_reason(late: Reading, reason: Reason, words: str) -> None:
    """Clock first, then heat before power: a hotter chip meets its power limit at a lower clock."""
    why = between(reading(), late)
    assert why.reason is reason
    assert re.search(words, why.words)


def test_ends_are_compared_by_their_medians() -> None:
    """One odd window at either end says nothing, nor does what happened between."""
    burn_in_run = [reading()] * 10 + [reading(50, 700, 90)] * 30 + [reading(97, 1455, 70)] * 10
    burn_in_run[0] = reading(10, 100, 20)
    burn_in_run[-1] = reading(10, 1500, 20)
    why = over_time(burn_in_run)
    assert why.reason is Reason.HEAT
    assert "3.0%" in why.words


def test_work_per_clock() -> None:
    """Of 4 % lost, 1 % by the clock, 3 % is less work at each tick. A single window is not slower than itself."""
    assert between(reading(), reading(96, 1485)).per_clock_percent == pytest.approx(-3.03, abs=0.01)
    assert between(reading(), reading(96, 1440)).per_clock_percent == pytest.approx(0.0, abs=1e-9)
    assert over_time([reading()]).reason is Reason.NOT_SLOWER
    with pytest.raises(ValueError, match="one window"):
        over_time([])
