"""What the statistics promise, checked on seeded series with a known truth: real loop and profiles, simulated time."""

import pytest

from protocol import floats
from protocol.intervals import relative_half_width
from protocol.result import SteadyState, StopReason
from tests.fakes.simulation import (
    LEVEL_MS,
    Series,
    autocorrelated,
    changing,
    measured,
    profile,
    ramp,
    settling,
    spikes,
    step,
    white,
)

ALL = ("quick", "standard", "rigorous")
SEEDS = 150
BEHIND = LEVEL_MS * 1.03
"""Level after a step of 3 %."""


class Shares:
    """Shares of seeds whose interval held the true mean, whose warm-up ended steady, and which reached the target."""

    def __init__(self, series: Series, name: str, monkeypatch: pytest.MonkeyPatch, level_ms: float = LEVEL_MS) -> None:
        held = steady = target = 0
        self.measured_s: list[float] = []
        for seed in range(SEEDS):
            warm_up, found = measured(series, seed, profile(name), monkeypatch)
            times = floats.unpack(found.series["iteration"])
            mean = sum(times) / len(times)
            held += abs(mean - level_ms) <= relative_half_width(times) * mean
            steady += warm_up.steady_state is SteadyState.REACHED
            target += found.stop_reason is StopReason.TARGET
            self.measured_s.append(sum(times) / 1e3)
        self.held, self.steady, self.target = held / SEEDS, steady / SEEDS, target / SEEDS


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("deviation", [0.01, 0.05])
def test_interval_of_independent_times(monkeypatch: pytest.MonkeyPatch, name: str, deviation: float) -> None:
    """95 % hold the mean, and all reach the target but one in a hundred of the quick profile, which has a second.

    Noise of 1 % between iterations never keeps warm-up going to its cap.
    """
    shares = Shares(white(deviation), name, monkeypatch)
    assert shares.held >= 0.92
    assert shares.target >= (0.98 if name == "quick" else 1.0)
    assert shares.steady == 1.0 or deviation > 0.01


@pytest.mark.parametrize(
    ("series", "quick", "steady"),
    [(autocorrelated(0.01, 0.9), 0.7, 0.0), (autocorrelated(0.03, 0.9), 0.7, 0.0), (spikes(0.02, 0.5), 0.4, 0.98)],
)
@pytest.mark.parametrize("name", ALL)
def test_interval_of_times_that_are_not_independent(
    monkeypatch: pytest.MonkeyPatch, name: str, series: Series, quick: float, steady: float
) -> None:
    """Autocorrelation of 0.9 leaves 89 to 93 % of 800; the quick profile's 30 iterations of 10 ms are worth two.

    Spikes in two iterations of a hundred, half as long again, keep no warm-up from ending.
    """
    shares = Shares(series, name, monkeypatch)
    assert shares.held >= {"quick": quick, "standard": 0.85, "rigorous": 0.88}[name]
    assert shares.steady >= steady


@pytest.mark.parametrize(
    ("name", "each_s", "low", "high"),
    [
        ("standard", 0.01, 0, 0.02),
        ("standard", -0.01, 0, 0.02),
        ("rigorous", 0.01, 0, 0.02),
        ("quick", 0.03, 0, 0.4),  # its window is 0.4 s
        ("quick", 0.01, 1, 1),
    ],
)
def test_drifting_times_are_not_steady(
    monkeypatch: pytest.MonkeyPatch, name: str, each_s: float, low: float, high: float
) -> None:
    """1 % a second, up or down, keeps warm-up going to its cap; the quick profile sees only steep drift."""
    assert low <= Shares(ramp(each_s), name, monkeypatch).steady <= high


@pytest.mark.parametrize(
    ("name", "series", "level_ms"),
    [
        ("standard", settling(0.05, 0.3), LEVEL_MS),
        ("rigorous", settling(0.05, 0.3), LEVEL_MS),
        ("quick", step(0.3, 0.03), BEHIND),
        ("standard", step(1.2, 0.03), BEHIND),
        ("rigorous", step(1.2, 0.03), BEHIND),
    ],
)
def test_warm_up_waits_until_times_settle(
    monkeypatch: pytest.MonkeyPatch, name: str, series: Series, level_ms: float
) -> None:
    """Neither 5 % with a time constant of 0.3 s nor a clock that drops by 3 % in the window is in the mean."""
    shares = Shares(series, name, monkeypatch, level_ms)
    assert shares.steady == 1.0
    assert shares.held >= 0.92


def test_interval_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that scatter by a third need far more than a second: the quick profile ends sooner, its interval honest."""
    shares = Shares(white(0.3), "quick", monkeypatch)
    assert shares.held >= 0.92
    assert shares.target == 0.0
    assert sorted(shares.measured_s)[SEEDS // 2] < 0.6 * profile("quick").max_s


def test_step_within_the_measurement_widens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves that differ by 3 % make the measurement at least four times the least time."""
    late = changing(lambda now_s: 1.03 if now_s >= 3.3 else 1.0, deviation=0.0005)  # its warm-up ends after 2.3 s
    shares = Shares(late, "standard", monkeypatch)
    assert min(shares.measured_s) >= 4 * profile("standard").min_s


def test_caps_count_simulated_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A series of 10 s is measured to the cap, in no time."""
    _, found = measured(ramp(0.05), 1, profile("standard"), monkeypatch)
    assert found.stop_reason is StopReason.TIME_CAP
    blocks = found.blocks
    assert (blocks[-1].end_ns - blocks[0].start_ns) / 1e9 == pytest.approx(profile("standard").max_s, abs=0.5)
