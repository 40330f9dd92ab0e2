"""The change of each GPU from a kind of work that ran in visits: simulated, seeded."""

import math
import random

import pytest

from orchestrator.stats import visits
from orchestrator.stats.trend import Point
from orchestrator.stats.windows import Window


def series(
    chance: random.Random, count: int, *, gpus: int = 4, noise: float = 0.003, lost: float = 0.0
) -> dict[str, list[Point]]:
    """So many visits of some GPUs, half an hour apart; the first GPU loses a share of its rate from the middle on."""
    return {
        f"gpu{gpu}": [
            Point(at / 2, chance.gauss(0, noise) + (math.log1p(-lost) if gpu == 0 and at >= count / 2 else 0.0))
            for at in range(count)
        ]
        for gpu in range(gpus)
    }


def test_windows_are_parted_where_the_kind_paused() -> None:
    """A window that is missing in the middle of a launch parts nothing; the median stands at the middle."""
    numbers = (0, 1, 2, 4, 100, 101, 102, 400)
    rates = (1.0, 1.0, 1.2, 1.0, 2.0, 3.0, 9.0, 5.0)
    windows = [Window(number, "soak", rate) for number, rate in zip(numbers, rates, strict=True)]
    found = visits.visits(windows)
    assert [point.value for point in found] == [1.0, 3.0, 5.0]
    assert [point.at_h * 360 for point in found] == pytest.approx([1.75, 101, 400])


@pytest.mark.parametrize(("count", "lost"), [(4, 0.15), (5, 0.15), (8, 0.05), (16, 0.05)])
def test_a_step_does_not_hide_behind_itself(count: int, lost: float) -> None:
    """Its own jump does not widen its interval; the other GPUs do not change."""
    found = visits.changes(series(random.Random(count), count, lost=lost), 0.9999)
    assert found["gpu0"].high < math.log(0.98)
    assert all(found[f"gpu{gpu}"].high > math.log(0.98) for gpu in (1, 2, 3))


@pytest.mark.parametrize("count", [4, 8, 16])
@pytest.mark.parametrize("noise", [0.003, 0.2])
def test_the_intervals_hold_the_truth(count: int, noise: float) -> None:
    """95 of 100 should; the variance comes out a little small, so 92 at the least."""
    chance = random.Random(7)
    held = []
    for _ in range(300):
        found = visits.changes(series(chance, count, noise=noise), 0.975)
        held += [one.low <= 0 <= one.high for one in found.values()]
    assert sum(held) / len(held) >= 0.92


@pytest.mark.parametrize("count", [4, 5, 7, 16])
@pytest.mark.parametrize("place", [0, -1])
def test_one_slow_visit_is_no_change(count: int, place: int) -> None:
    """Not even the first or the last one."""
    night = series(random.Random(count), count)
    first = night["gpu0"]
    first[place] = Point(first[place].at_h, math.log(0.95))
    assert visits.changes(night, 0.99)["gpu0"].high > math.log(0.98)


@pytest.mark.parametrize("count", [5, 8, 16])
def test_a_gpu_that_varies_more_than_its_siblings_is_not_slow_by_chance(count: int) -> None:
    """Ten percent beside one percent: a false alarm in two of a hundred nights at most."""
    alarms = 0
    for seed in range(200):
        night = series(random.Random(seed), count, gpus=8, noise=0.01)
        chance = random.Random(-seed)
        night["gpu0"] = [Point(one.at_h, chance.gauss(0, 0.1)) for one in night["gpu0"]]
        alarms += any(one.high < math.log(0.98) for one in visits.changes(night, 1 - 0.025 / 96).values())
    assert alarms <= 4


def test_too_few_visits_and_no_noise() -> None:
    """Three visits of a GPU are no course; equal visits have the least variance."""
    four = series(random.Random(1), 4)
    assert set(visits.changes({**four, "short": four["gpu0"][:3]}, 0.975)) == set(four)
    assert visits.changes({"short": four["gpu0"][:3]}, 0.975) == {}
    assert visits.changes({}, 0.975) == {}
    (found,) = set(visits.changes(series(random.Random(1), 4, noise=0.0), 0.975).values())
    assert found.value == 0
    assert 1e-4 < found.high == -found.low < 5e-4
