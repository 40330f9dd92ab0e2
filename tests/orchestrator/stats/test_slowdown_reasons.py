"""In words, why a GPU that slowed probably did."""

import pytest

from orchestrator.stats.slowdown_reasons import Reading, Reason, between, over


def reading(
    rate: float = 100.0, clock: float | None = 1500.0, heat: float | None = 60.0, capped: float | None = 1.0
) -> Reading:
    """A window of a GPU at its power limit, unless told otherwise."""
    return Reading(rate=rate, clock_mhz=clock, temperature_c=heat, capped=capped)


@pytest.mark.parametrize(
    ("late", "reason", "words"),
    [
        (reading(96, 1440, 71), Reason.HEAT, "its clock is 4.0% lower, and it is 11 degrees hotter: cooling"),
        (reading(96, 1440, 71, 0.0), Reason.HEAT, "its clock is 4.0% lower, and it is 11 degrees hotter: cooling"),
        (reading(96, 1440, 61), Reason.POWER, "its clock is 4.0% lower at the power limit, and it is no hotter: power"),
        (reading(96, 1440, None), Reason.POWER, "its clock is 4.0% lower at the power limit"),
        (reading(96, 1440, 61, 0.0), Reason.CLOCK, "neither hotter nor at the power limit"),
        (reading(96, 1440, 61, None), Reason.CLOCK, "what lowers it is not known"),
        (reading(96, 1500, 71), Reason.OTHER, "it does 4.0% less at each tick of its clock"),
        (reading(96, 1485, 71), Reason.OTHER, "it does 3.0% less at each tick of its clock"),
        (reading(96, None), Reason.UNKNOWN, "its clock is not known"),
        (reading(99.8, 1440, 80), Reason.NOT_SLOWER, "not slower"),
        (reading(104, 1560), Reason.NOT_SLOWER, "not slower"),
    ],
)
def test_what_changed_gives_the_reason(late: Reading, reason: Reason, words: str) -> None:
    """Clock first, then heat before power: a hotter chip meets its power limit at a lower clock."""
    why = between(reading(), late)
    assert why.reason is reason
    assert words in why.words


def test_work_per_clock_is_told() -> None:
    """Of 4 % lost, 1 % by the clock, 3 % is less work at each tick; of 4 % lost by the clock alone, none."""
    assert between(reading(), reading(96, 1485)).per_clock_percent == pytest.approx(-3.03, abs=0.01)
    assert between(reading(), reading(96, 1440)).per_clock_percent == pytest.approx(0.0, abs=1e-9)


def test_ends_are_compared_by_their_medians() -> None:
    """One odd window at either end says nothing, nor does what happened between."""
    night = [reading()] * 10 + [reading(50, 700, 90)] * 30 + [reading(97, 1455, 70)] * 10
    night[0] = reading(10, 100, 20)
    night[-1] = reading(10, 1500, 20)
    why = over(night)
    assert why.reason is Reason.HEAT
    assert "3.0%" in why.words


def test_a_single_window_is_not_slower_than_itself() -> None:
    """And none at all is an error."""
    assert over([reading()]).reason is Reason.NOT_SLOWER
    with pytest.raises(ValueError, match="no windows"):
        over([])
