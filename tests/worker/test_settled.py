"""A launch is settled, or it is called unsettled: the real loop and profiles in simulated time."""

import pytest

from tests.bench.settling import STEADY, shares
from tests.fakes.simulation import falling, white
from worker.steady import WINDOW

SEEDS = 40
QUIET, USUAL = 0.001, 0.005


@pytest.mark.parametrize("name", ["quick", "triage", "standard", "rigorous"])
@pytest.mark.parametrize("series", [name for name in STEADY if "0.9" not in name])
def test_steady_times_are_seldom_called_unsettled(name: str, series: str) -> None:
    """At most 5 %."""
    assert shares(STEADY[series], name, SEEDS).unsettled <= 0.05


@pytest.mark.parametrize(
    ("name", "constants_s", "deviation"),
    [
        ("quick", (2, 10), QUIET),
        ("quick", (2,), USUAL),  # of 1.5 s
        ("triage", (2, 10), USUAL),
        ("standard", (2, 10, 60), USUAL),
        ("rigorous", (2, 10, 60), USUAL),
    ],
)
def test_a_falling_clock_is_called_unsettled_or_reads_its_settled_rate(
    name: str, constants_s: tuple[int, ...], deviation: float
) -> None:
    """5 %, within 1 % in at least 95 %; docs/method-reference.md says what the short profiles cannot see."""
    for constant_s in constants_s:
        assert shares(falling(0.05, constant_s, deviation), name, SEEDS).right >= 0.95, constant_s


def test_quiet_times_end_a_quick_warm_up_with_its_first_window() -> None:
    """So that a look of a second takes no longer: block medians of an H200 differ by some hundredths of a percent."""
    quick = shares(white(0.0003), "quick", SEEDS)
    assert quick.seconds == pytest.approx(WINDOW * 0.05 + 0.3, abs=0.1)
