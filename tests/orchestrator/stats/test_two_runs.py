"""Verdicts on two runs: known cases, and error rates by simulation, seeded."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.stats import two_runs
from orchestrator.stats.stragglers import holm
from orchestrator.stats.two_runs import ChangeVerdict, Pair, group_means, judge

VerdictCounts = Counter[ChangeVerdict]


def pair(before: list[float], after: list[float], margin: float = 0.01) -> Pair:
    """A cell of two runs."""
    return Pair(before=before, after=after, margin=margin)


def runs(
    cells: int, *, launches: int = 3, noise: float = 0.01, speed: float = 1.0, spread: float = 0.0, seed: int = 1
) -> list[Pair]:
    """Two runs whose launches repeat to `noise`. spread: between the cells' noises, of their logarithm."""
    chance = random.Random(seed)
    found = []
    for _ in range(cells):
        own = noise * math.exp(chance.gauss(0, spread))
        sides = [[level * math.exp(chance.gauss(0, own)) for _ in range(launches)] for level in (1.0, speed)]
        found.append(pair(*sides))
    return found


def counted_verdicts(pairs: list[Pair]) -> VerdictCounts:
    """Count the cells with each verdict."""
    return Counter(one.verdict for one in judge(pairs))


def verdicts_of_many(repetitions: int, cells: int, **how: float) -> VerdictCounts:
    """Count the verdicts on many pairs of runs."""
    found: VerdictCounts = Counter()
    for seed in range(repetitions):
        found += counted_verdicts(runs(cells, seed=seed, **how))  # type: ignore[arg-type]  # the numbers of runs
    return found


def wrong(found: VerdictCounts) -> float:
    """Share of cells that are called faster or slower."""
    return (found[ChangeVerdict.FASTER] + found[ChangeVerdict.SLOWER]) / found.total()


# ── error rates ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spread", [0.0, 0.7])
@pytest.mark.parametrize("noise", [0.003, 0.01])
def test_runs_without_a_change_have_few_differences(noise: float, spread: float) -> None:
    """A/A: below 1 % of cells, also where they differ in noise."""
    assert wrong(verdicts_of_many(50, 20, noise=noise, spread=spread)) < 0.01


def test_a_difference_of_exactly_the_margin_is_no_regression() -> None:
    """The hardest case without one: with Holm, a false alarm in about one run of twenty."""
    alarms = sum(bool(wrong(counted_verdicts(runs(20, speed=0.99, seed=seed)))) for seed in range(100))
    assert alarms <= 10


@pytest.mark.parametrize(
    ("repetitions", "how", "verdict", "low", "high"),
    [
        (25, {"speed": 0.95, "noise": 0.005}, ChangeVerdict.SLOWER, 0.98, 1),
        (25, {"speed": 0.95}, ChangeVerdict.SLOWER, 0.6, 1),
        (25, {"speed": 0.95, "noise": 0.005, "spread": 0.5}, ChangeVerdict.SLOWER, 0.75, 1),  # by a factor of 1.6
        (10, {"launches": 5, "noise": 0.003}, ChangeVerdict.SAME, 0.8, 1),
        (20, {"noise": 0.003, "speed": 0.99}, ChangeVerdict.SAME, 0, 0.06),  # at the margin itself
    ],
)
def test_shares_of_verdicts(
    repetitions: int, how: dict[str, float], verdict: ChangeVerdict, low: float, high: float
) -> None:
    """In 20 cells of 3 launches that repeat to 1 % unless said otherwise; a slower run has no faster cell."""
    found = verdicts_of_many(repetitions, 20, **how)
    assert low <= found[verdict] / found.total() <= high
    assert verdict is not ChangeVerdict.SLOWER or found[ChangeVerdict.FASTER] == 0


def test_pooling_narrows_the_intervals() -> None:
    """The same cells, one by one, have two degrees of freedom a side."""
    pairs = runs(20)
    pooled = [one.high - one.low for one in judge(pairs) if one.high is not None and one.low is not None]
    alone = [one.high - one.low for cell in pairs for one in judge([cell]) if one.high is not None and one.low]
    assert len(pooled) == len(alone) == 20
    assert sum(pooled) < 0.8 * sum(alone)


# ── single cells ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_cell_is_tested_as_student_does() -> None:
    """Interval and p of a t-test with the variance of both sides pooled (5 degrees), shifted by the margin."""
    one = judge([pair([100.0, 101.0, 99.5, 100.4], [94.0, 95.1, 93.2])])[0]
    assert one.verdict is ChangeVerdict.SLOWER
    assert one.ratio == pytest.approx(0.9388694746593101, rel=1e-9)
    assert (one.low, one.high) == (
        pytest.approx(0.9241171283784222, rel=1e-3),
        pytest.approx(0.9538573232527402, rel=1e-3),
    )
    assert one.p == pytest.approx(0.0003493060295576938, rel=0.05)


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [(0.003, ChangeVerdict.NO_CHANGE), (0.004, ChangeVerdict.NO_CHANGE), (0.005, ChangeVerdict.SAME)],
)
def test_one_cell_is_the_same_where_both_one_sided_tests_say_so(margin: float, verdict: ChangeVerdict) -> None:
    """The p of the nearer one-sided t-test with both sides pooled: 0.23, 0.071, 0.022."""
    found = judge([pair([100.0, 100.2, 99.9, 100.1], [100.3, 100.1, 100.4], margin)])[0]
    assert found.verdict is verdict


def test_holm_agrees_with_statsmodels() -> None:
    """multipletests(…, method='holm'): none less than one before it, and one at most."""
    chances = {"a": 0.01347526190432226, "b": 0.16119277781578653, "c": 0.0002813829787410096, "d": 0.017445319328192}
    again = 0.04042578571296678
    assert holm(chances) == pytest.approx({**chances, "a": again, "c": 0.0011255319149640384, "d": again})
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_holm_is_over_the_cells() -> None:
    """A difference has a larger p-value among a hundred cells than alone."""
    noisy = pair([100.0, 101.0, 99.5], [97.0, 98.1, 96.4])
    alone = judge([noisy])[0]
    among = judge([noisy, *runs(100, noise=0.008, seed=5)])[0]
    assert among.p > alone.p


def test_recommended_launches_settle_a_difference() -> None:
    """In four of five such cells, of which none was settled before."""
    first = judge(runs(20, noise=0.01, speed=0.97, seed=3))
    wanted = [one.wanted for one in first if one.verdict is ChangeVerdict.INCONCLUSIVE and one.wanted]
    assert wanted
    assert all(4 <= number <= two_runs.MOST_LAUNCHES for number in wanted)
    needed = sorted(wanted)[len(wanted) // 2]
    found = verdicts_of_many(20, 20, launches=needed, noise=0.01, speed=0.97)
    assert found[ChangeVerdict.SLOWER] / found.total() > 0.6


def test_launches_that_would_settle_a_difference() -> None:
    """Three at least after one launch; none for a difference at the margin itself."""
    one = judge([pair([100.0], [50.0, 51.0])])[0]
    assert (one.verdict, one.low, one.p, one.wanted) == (ChangeVerdict.INCONCLUSIVE, None, None, 3)
    assert one.ratio == pytest.approx(math.sqrt(50 * 51) / 100)
    close = [99.0, 98.99, 99.01]
    one = judge([pair([100.0, 100.01, 99.99], close, margin=0.01)])[0]
    assert (one.verdict, one.wanted) == (ChangeVerdict.INCONCLUSIVE, None)


RATES = st.lists(st.floats(min_value=1e-9, max_value=1e18), min_size=1, max_size=6)
MIRROR = {ChangeVerdict.FASTER: ChangeVerdict.SLOWER, ChangeVerdict.SLOWER: ChangeVerdict.FASTER}


@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=8), st.floats(min_value=0.001, max_value=0.5))
def test_exchanged_runs_exchange_the_verdicts(sides: list[tuple[list[float], list[float]]], margin: float) -> None:
    """The ratio is inverted, and the verdict with it."""
    there = judge([pair(before, after, margin) for before, after in sides])
    back = judge([pair(after, before, margin) for before, after in sides])
    for one, other in zip(there, back, strict=True):
        assert other.verdict is MIRROR.get(one.verdict, one.verdict)
        assert one.ratio * other.ratio == pytest.approx(1)
        assert one.low is None or one.low <= one.ratio <= one.high  # type: ignore[operator]  # both or none


def test_zero_and_infinite_rates_are_refused() -> None:
    """They have no logarithm."""
    with pytest.raises(ValueError, match="above zero"):
        judge([pair([1.0, 0.0], [1.0, 1.0])])
    with pytest.raises(ValueError, match="above zero"):
        group_means([[pair([1.0, math.inf], [1.0, 1.0])]])


def test_a_cell_is_not_believed_to_repeat_better_than_the_others() -> None:
    """One with two modes that showed one of them on each side, among cells that scatter: 3 % are no change."""
    two_modes = pair([100.0, 100.05, 99.95], [97.0, 97.05, 96.95])
    assert judge([two_modes])[0].verdict is ChangeVerdict.SLOWER
    assert judge([two_modes, *runs(40, noise=0.004, spread=0.7)])[0].verdict is ChangeVerdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("speed", "verdict"), [(0.3, ChangeVerdict.INCONCLUSIVE), (0.05, ChangeVerdict.PROBABLY_SLOWER)]
)
def test_unsteady_cells_change_by_prior_and_launches(speed: float, verdict: ChangeVerdict) -> None:
    """Of twenty, a third of the speed is beyond the prior, and not beyond three launches that scatter by 70 %."""
    launches = [1.0, 0.5, 2.0]
    cells = [
        Pair(before=launches, after=[of * one for one in launches], margin=0.01, prior=0.3, trusted=False)
        for of in (speed, *[1.0] * 19)
    ]
    assert judge(cells)[0].verdict is verdict


@pytest.mark.parametrize(
    ("others", "verdict"), [([1.0, 2.5], ChangeVerdict.INCONCLUSIVE), ([1.0, 1.04], ChangeVerdict.PROBABLY_SLOWER)]
)
def test_launches_of_an_unsteady_cell_may_agree_by_chance(others: list[float], verdict: ChangeVerdict) -> None:
    """Two launches that agree make a change only where launches of the other unsteady cells agree too."""
    sides = [([1.0, 1.04], [0.22, 0.23]), *[(others, others)] * 67]
    cells = [
        Pair(before=before, after=after, margin=0.01, prior=0.3, session=0.03, trusted=False) for before, after in sides
    ]
    assert judge(cells)[0].verdict is verdict


@pytest.mark.parametrize("session", [0.03, 0.1, 0.3])
def test_launches_that_agree_by_chance_make_no_interval_narrower_than_the_prior(session: float) -> None:
    """Of unsteady cells: the 95 % interval is at least that of the prior and the sessions."""
    launches = [1.0, 1.1, 1 / 1.1]
    (judged,) = judge([Pair(before=launches, after=[0.2], margin=0.01, prior=0.3, session=session, trusted=False)])
    assert judged.low is not None
    assert judged.high is not None
    of_prior = 1.96 * math.sqrt(2 * session**2 + 0.3**2 * (1 / 3 + 1))
    assert math.log(judged.high / judged.low) / 2 >= 0.999 * of_prior


@pytest.mark.parametrize(("spread", "speed"), [(0.15, 0.8), (0.0, 0.97)])
def test_two_launches_and_prior_must_both_show_a_change(spread: float, speed: float) -> None:
    """The prior alone would call the first one slower, and the launches alone the second."""
    of_launches = [math.exp(-spread), math.exp(spread) + 1e-4]
    judged = judge([Pair(before=of_launches, after=[speed * one for one in of_launches], margin=0.01, prior=0.02)])
    assert judged[0].verdict not in (ChangeVerdict.SLOWER, ChangeVerdict.SAME)


# ── all cells ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mean_of_all_cells_is_geometric() -> None:
    """Twice as fast and half as fast are nothing together."""
    both, single = group_means([[pair([1.0, 1.0], [2.0, 2.0]), pair([1.0, 1.0], [0.5, 0.5])], [pair([1.0], [2.0])]])
    assert (both.ratio, both.cells) == (pytest.approx(1.0), 2)
    assert (single.ratio, single.low, single.verdict) == (2.0, None, None)
    assert group_means([]) == []


@pytest.mark.parametrize(
    ("cells", "launches", "spread"), [(20, 3, 0.0), (20, 3, 0.47), (20, 3, 1.0), (8, 3, 1.0), (20, 5, 1.0), (3, 2, 0.0)]
)
def test_the_interval_of_the_mean_holds_the_truth(cells: int, launches: int, spread: float) -> None:
    """In 95 % of pairs of runs, also where cells repeat differently; of two launches a side in rather more."""
    held = 0
    for seed in range(2000):
        (found,) = group_means([runs(cells, launches=launches, spread=spread, speed=0.97, seed=seed)])
        held += found.low <= 0.97 <= found.high
    assert 0.935 <= held / 2000 <= (0.965 if launches > 2 else 0.99)
