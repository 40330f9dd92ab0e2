"""kinds/burn_in/heat_soak.py: when a GPU has warmed up, and is judged."""

import pytest

from orchestrator.figures.burn_in import Ending
from orchestrator.gpu.telemetry.climate import Climate
from orchestrator.kinds.burn_in import levels
from orchestrator.kinds.burn_in.heat_soak import HeatSoak, heat_soak
from orchestrator.kinds.burn_in.levels import HeatSoakRule
from orchestrator.stats.windows import WINDOW_NS

RULE = HeatSoakRule(rise_c=1.0, windows=3, most_s=600, most_share=0.5)
LONG_S = 36_000


def work(*temperatures: float | None, begin: int = 100) -> list[Climate]:
    """Windows of these temperatures, one after the other."""
    return [Climate(begin + place, temperature_c=one) for place, one in enumerate(temperatures)]


def soak(*temperatures: float | None, asked_s: float = LONG_S) -> HeatSoak:
    """The heat soak of work from window 100 on."""
    return heat_soak(work(*temperatures), 100, 99 + len(temperatures), asked_s, RULE)


@pytest.mark.parametrize(
    ("temperatures", "until", "ending"),
    [
        ((30, 40, 50, 60, 60, 60, 60, 60), 107, Ending.STEADY),
        ((30, 40, 50, 60, 60, 61, 61, 61), 107, Ending.STEADY),  # a degree in three windows is steady
        ((30, 40, 50, 60, 60, 62, 62, 62, 62), 109, Ending.STEADY),  # two are not
        ((60, 60, 60, 60, 60), 104, Ending.STEADY),  # it was warm already
        ((60, 50, 50, 61, 61, 61), 104, Ending.STEADY),  # a light cell in between is no end, and no new beginning
        ((60, 62, 55, 55, 55), 105, Ending.STEADY),  # nor does it end what still rose a moment ago
        ((30, 60, None, None, None, 60, 60, 60), 108, Ending.STEADY),  # what was not read says nothing
        ((30, 40, 50), 103, Ending.WORK_ENDED),  # all of it was warming up
    ],
)
def test_it_is_over_when_the_hottest_window_rises_no_more(
    temperatures: tuple[float, ...], until: int, ending: Ending
) -> None:
    """By no more than a degree over three windows; the next one is the first that is judged."""
    found = soak(*temperatures)
    assert (found.until, found.ending) == (until, ending)
    assert found.reached_c == max(one for one in temperatures[: until - 100] if one is not None)
    assert found.seconds == 10 * (until - 100)


@pytest.mark.parametrize(("asked_s", "windows"), [(LONG_S, 60), (200, 10)])
def test_a_gpu_that_never_gets_steady_is_judged_all_the_same(asked_s: float, windows: int) -> None:
    """After sixty windows, or half of a short burn-in: that it goes on getting hotter is a finding."""
    found = soak(*(30 + 2 * place for place in range(90)), asked_s=asked_s)
    assert (found.until, found.ending, found.reached_c) == (100 + windows, Ending.CAP, 30 + 2 * (windows - 1))


@pytest.mark.parametrize("temperatures", [(), (None, None)])
def test_without_a_temperature_the_first_round_decides(temperatures: tuple[None, ...]) -> None:
    """There is no window to name."""
    found = soak(*temperatures)
    assert (found.until, found.seconds, found.ending) == (None, None, Ending.FIRST_ROUND)


def test_only_the_windows_of_this_work_count() -> None:
    """Temperatures before this work, and during later work, do not count."""
    before, after = work(90, 90, 90, begin=90), work(20, 20, begin=110)
    found = heat_soak([*before, *work(30, 40, 50, 60, 60, 60, 60), *after], 100, 106, LONG_S, RULE)
    assert (found.until, found.reached_c) == (107, 60)


def test_what_is_excluded_is_told_by_the_window_or_by_the_round() -> None:
    """Up to the first window that is judged, whatever the round; without temperatures, the first round."""
    by_window, by_round = soak(30, 40, 50, 60, 60, 60, 60), soak(None, None)
    assert by_window.until == 107
    judged_ns = 107 * WINDOW_NS
    assert [by_window.leaves_out(9, at_ns) for at_ns in (judged_ns - 1, judged_ns)] == [True, False]
    assert [by_round.leaves_out(number, judged_ns) for number in (0, 1)] == [True, False]


def test_the_rule_that_ships_leaves_time_to_be_judged() -> None:
    """Of each level, at least three quarters; and its windows are longer than any cell: a light one ends none."""
    table = levels.load()
    for asked_s in (600, 3600, 28_800):
        assert table.heat_soak.most_windows(asked_s) * 10 <= asked_s / 4
    assert table.heat_soak.windows * 10 > max(bounds.most_s for bounds in table.devices.values())
