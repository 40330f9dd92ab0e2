"""Which of N identical GPUs is slower than its siblings: simulated nodes, seeded."""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config import margins
from orchestrator.stats import stragglers
from orchestrator.stats.stragglers import Bound, Sibling, SiblingCell, SiblingVerdict, judge

MARGINS = margins.load().shares
POWER = (Bound.POWER,)
ALL = tuple(Bound)
Rate = float | Mapping[Bound, float]
Make = Callable[[random.Random], list[SiblingCell]]


def node(
    chance: random.Random,
    rates: Sequence[Rate],
    *,
    bounds: Sequence[Bound] = ALL,
    cells: int = 6,
    launches: int = 3,
    noise: float = 0.005,
) -> list[SiblingCell]:
    """Cells of GPUs with these true rates, for all bounds or for each; launches scatter by `noise`."""
    made = []
    for number in range(cells):
        bound = bounds[number % len(bounds)]
        true = [(rate if isinstance(rate, float) else rate.get(bound, 1.0)) * 1000 * (number + 1) for rate in rates]
        drawn = {
            f"gpu{i}": [one * math.exp(chance.gauss(0, noise)) for _ in range(launches)] for i, one in enumerate(true)
        }
        made.append(SiblingCell(name=f"cell{number}", bound=bound, rates=drawn))
    return made


def healthy(chance: random.Random, width: float = 0.027) -> list[float]:
    """Eight GPUs drawn from a normal distribution, the quickest 2.7 % above the slowest, as eight H200s were."""
    drawn = [chance.gauss(0, 1) for _ in range(8)]
    return [1 + width * (one - min(drawn)) / (max(drawn) - min(drawn)) for one in drawn]


def verdicts(make: Make, nodes: int, gpu: str = "gpu0") -> Counter[SiblingVerdict]:
    """How often each verdict on one GPU came out."""
    found: Counter[SiblingVerdict] = Counter()
    for seed in range(nodes):
        found[next(one for one in judge(make(random.Random(seed)), MARGINS) if one.gpu == gpu).verdict] += 1
    return found


def test_healthy_gpus_are_not_flagged() -> None:
    """Neither on 150 nodes whose GPUs differ by 2.7 %, nor on 100 with launches that scatter by 3 %."""
    for seed in range(150):
        chance = random.Random(seed)
        found = judge(node(chance, healthy(chance), bounds=POWER), MARGINS)
        assert {one.verdict for one in found} == {SiblingVerdict.OK}
    found = [one for seed in range(100) for one in judge(node(random.Random(seed), [1.0] * 8, noise=0.03), MARGINS)]
    assert not any(one.verdict is SiblingVerdict.STRAGGLER for one in found)


@pytest.mark.parametrize("launches", [2, 3, 7])
def test_a_gpu_at_the_margin_is_rarely_called_slow(launches: int) -> None:
    """Of 200 nodes where every second GPU loses exactly the margin, 5 % at most have a straggler."""
    lost = {bound: 1 - margin for bound, margin in MARGINS.items()}
    flagged = 0
    for seed in range(200):
        # The fast half decides the median of the others: 4 of 7 for each slow one.
        found = judge(node(random.Random(seed), [lost, lost, lost, *[1.0] * 5], launches=launches), MARGINS)
        flagged += any(one.verdict is SiblingVerdict.STRAGGLER for one in found)
    assert flagged / 200 <= stragglers.ALPHA


def test_adaptive_launches_flag_no_more_than_promised() -> None:
    """A suspect at the margin is launched up to seven times, and judged each time: 5 % at most end as a straggler."""
    flagged = 0
    for seed in range(150):
        cells = node(random.Random(seed), [0.95, *[1.0] * 7], bounds=POWER, launches=7)
        for launches in range(3, 8):
            shown = [SiblingCell(name=c.name, bound=c.bound, rates=first(c.rates, launches)) for c in cells]
            if judge(shown, MARGINS)[0].verdict is SiblingVerdict.STRAGGLER:
                flagged += 1
                break
    assert flagged / 150 <= stragglers.ALPHA


def first(rates: Mapping[str, Sequence[float]], launches: int) -> dict[str, Sequence[float]]:
    """The first launches of each GPU."""
    return {gpu: values[:launches] for gpu, values in rates.items()}


def test_the_interval_holds_the_true_ratio() -> None:
    """Over 200 nodes, a GPU 2 % slower has that in its 90 % interval in 90 % or more, however unlike the cells."""
    held = 0
    for seed in range(200):
        chance = random.Random(seed)
        cells = [
            SiblingCell(name=f"{number}", bound=Bound.POWER, rates=one.rates)
            for number in range(5)
            for one in node(chance, [0.98, *[1.0] * 7], cells=1, noise=0.004 * math.exp(chance.gauss(0, 1)))
        ]
        effect = judge(cells, MARGINS)[0].effects[Bound.POWER]
        held += effect.low <= 0.98 <= effect.high
    assert held / 200 >= 0.9


def test_six_percent_is_found_among_healthy_gpus() -> None:
    """A GPU that is 6 % slower is a straggler in nineteen nodes of twenty, and none of its siblings is in any."""
    for seed in range(60):
        chance = random.Random(seed)
        rates = [0.94 * 1.0135, *healthy(chance)[1:]]
        found = judge(node(chance, rates), MARGINS)
        assert all(one.verdict is not SiblingVerdict.STRAGGLER for one in found[1:])
    assert verdicts(lambda chance: node(chance, [0.94, *[1.0] * 7]), 60)[SiblingVerdict.STRAGGLER] >= 57


def test_slow_memory_is_not_hidden_by_fast_products() -> None:
    """6 % of bandwidth lost makes a straggler, though most cells are as fast as elsewhere."""
    found = judge(node(random.Random(3), [{Bound.BANDWIDTH: 0.94}, *[1.0] * 7]), MARGINS)[0]
    assert found.verdict is SiblingVerdict.STRAGGLER
    assert "bandwidth" in found.why
    assert found.effects[Bound.POWER].within
    assert found.effects[Bound.BANDWIDTH].ratio == pytest.approx(0.94, abs=0.01)
    assert found.ratio == pytest.approx(1, abs=0.01)


def test_one_slow_cell_is_named_at_once() -> None:
    """A GPU as quick as its siblings in 19 cells and a fifth slower in one: no further launch is wanted."""
    cells = node(random.Random(5), [1.0] * 8, bounds=POWER, cells=20)
    slow = {**cells[7].rates, "gpu3": [rate * 0.8 for rate in cells[7].rates["gpu3"]]}
    cells[7] = SiblingCell(name="odd", bound=Bound.POWER, rates=slow)
    found = judge(cells, MARGINS)
    assert [one.gpu for one in found if one.verdict is not SiblingVerdict.OK] == ["gpu3"]
    assert (found[3].verdict, list(found[3].slow_cells)) == (SiblingVerdict.IN_CELLS, ["odd"])
    assert "odd at" in found[3].why
    assert (found[3].in_question, found[3].wanted) == ((), 0)


def test_four_of_68_cells_that_are_a_fifth_slower_are_found() -> None:
    """On 10 nodes whose boards and cells differ: exactly these cells, and no other GPU."""
    planted = {"cell3", "cell20", "cell41", "cell66"}
    for seed in range(10):
        chance = random.Random(seed)
        cells = node(chance, [1 + chance.gauss(0, 0.005) for _ in range(8)], cells=68)
        cells = [
            SiblingCell(name=one.name, bound=one.bound, rates=slowed(one.rates, "gpu5", 0.8))
            if one.name in planted
            else one
            for one in cells
        ]
        found = judge(cells, MARGINS)
        assert [one.gpu for one in found if one.verdict is not SiblingVerdict.OK] == ["gpu5"]
        assert (found[5].verdict, set(found[5].slow_cells)) == (SiblingVerdict.IN_CELLS, planted)
        assert (found[5].in_question, found[5].wanted) == ((), 0)  # after the planned launches


def slowed(rates: Mapping[str, Sequence[float]], gpu: str, factor: float) -> dict[str, Sequence[float]]:
    """The same, one GPU at a factor of its rate."""
    return {**rates, gpu: [rate * factor for rate in rates[gpu]]}


@pytest.mark.parametrize("spread", [0.005, 0.01])
@pytest.mark.parametrize("gpus", [4, 8])
def test_healthy_nodes_raise_no_alarm(gpus: int, spread: float) -> None:
    """Boards that differ by 1 %, each limit by itself: one node of a hundred at most has any finding."""
    alarms = 0
    for seed in range(200):
        chance = random.Random(seed)
        boards = [{bound: 1 + chance.gauss(0, spread) for bound in Bound} for _ in range(gpus)]
        alarms += any(one.verdict.is_finding for one in judge(node(chance, boards), MARGINS))
    assert alarms <= 2


@pytest.mark.parametrize(("gpus", "slow"), [(8, 5), (8, 7), (4, 3)])
def test_a_slow_majority_splits_the_node(gpus: int, slow: int) -> None:
    """10 % apart: nobody is OK, both groups are told apart, and no launch is wanted."""
    for seed in range(20):
        chance = random.Random(seed)
        rates = [(0.9 if place < slow else 1.0) * (1 + chance.gauss(0, 0.005)) for place in range(gpus)]
        found = judge(node(chance, rates), MARGINS)
        assert {one.verdict for one in found} == {SiblingVerdict.SPLIT}
        assert {one.faster for one in found} == {frozenset(f"gpu{place}" for place in range(slow, gpus))}
        assert not any(one.in_question for one in found)


def test_a_straggler_beside_a_split_stays_one() -> None:
    """Slower than both groups. A faster half makes no split: the slower half is below its median."""
    found = judge(node(random.Random(1), [0.8, *[0.9] * 5, 1.0, 1.0]), MARGINS)
    assert [one.verdict for one in found] == [SiblingVerdict.STRAGGLER, *[SiblingVerdict.SPLIT] * 7]
    found = judge(node(random.Random(1), [*[0.9] * 4, *[1.0] * 4]), MARGINS)
    assert [one.verdict for one in found] == [SiblingVerdict.STRAGGLER] * 4 + [SiblingVerdict.OK] * 4


def test_cells_in_question_are_those_of_the_open_limit() -> None:
    """A GPU that may have lost 4 % of its bandwidth needs those; one that is OK, or slow, none."""
    chance = random.Random(4)
    found = judge(node(chance, [{Bound.BANDWIDTH: 0.96}, 0.9, *[1.0] * 6], noise=0.004), MARGINS)
    assert [one.verdict for one in found[:3]] == [SiblingVerdict.SUSPECT, SiblingVerdict.STRAGGLER, SiblingVerdict.OK]
    assert found[0].in_question == ("cell2", "cell5")
    assert (found[1].in_question, found[2].in_question) == ((), ())


def test_a_cell_that_does_not_repeat_decides_nothing() -> None:
    """A launch-bound cell that varies by half between launches neither flags a GPU nor hides one that is 8 % slower."""
    chance = random.Random(2)
    cells = [
        *node(chance, [0.92, *[1.0] * 7], bounds=POWER),
        SiblingCell(name="noisy", bound=Bound.POWER, rates=node(chance, [1.0] * 8, cells=1, noise=0.5)[0].rates),
    ]
    found = judge(cells, MARGINS)
    assert [one.verdict for one in found] == [SiblingVerdict.STRAGGLER, *[SiblingVerdict.OK] * 7]


def test_a_suspect_needs_more_launches() -> None:
    """More the nearer the margin, seven in all; after seven, or where no more would settle it, none."""
    loud = node(random.Random(4), [0.94, *[1.0] * 7], bounds=POWER, noise=0.02)
    doubt = judge(loud, MARGINS)[0]
    assert doubt.verdict is SiblingVerdict.SUSPECT
    assert 1 <= doubt.wanted <= 4
    at_margin = [
        judge(node(random.Random(s), [0.95, *[1.0] * 7], bounds=POWER, launches=5), MARGINS)[0] for s in range(30)
    ]
    in_vain = [one for one in at_margin if one.verdict is SiblingVerdict.SUSPECT and not one.wanted]
    assert 5 <= len(in_vain) < 30
    assert not any(one.in_question for one in in_vain)
    seven = judge(node(random.Random(5), [0.95, *[1.0] * 7], bounds=POWER, launches=7), MARGINS)[0]
    assert (seven.verdict, seven.wanted) == (SiblingVerdict.SUSPECT, 0)
    assert judge(node(random.Random(4), [1.0] * 8), MARGINS)[0].wanted == 0


def test_beyond_the_margin_before_holm_needs_a_launch() -> None:
    """Beyond the margin by its own interval, but not after Holm over eight: a suspect that is launched again."""
    found = [
        judge(node(random.Random(s), [0.94, *[1.0] * 7], bounds=POWER, noise=0.012), MARGINS)[0] for s in range(40)
    ]
    between = [one for one in found if one.verdict is SiblingVerdict.SUSPECT and one.effects[Bound.POWER].high < 0.95]
    assert between != []
    assert all(one.wanted >= 1 for one in between)
    assert {one.wanted for one in found if one.verdict is SiblingVerdict.STRAGGLER} == {0}


def test_p_is_corrected_for_all_gpus_and_limits() -> None:
    """The smallest p of eight GPUs with three effects each counts 24 times."""
    slowest = judge(node(random.Random(8), [{Bound.CLOCK: 0.955}, *[1.0] * 7]), MARGINS)[0]
    assert 0 < slowest.effects[Bound.CLOCK].p < 0.04
    assert slowest.p == pytest.approx(24 * slowest.effects[Bound.CLOCK].p)


def test_two_slow_gpus_of_four_are_both_found() -> None:
    """They do not move the median of the others. Three GPUs need a baseline."""
    found = judge(node(random.Random(1), [0.9, 0.91, 1.0, 1.0]), MARGINS)
    assert [one.verdict for one in found] == [
        SiblingVerdict.STRAGGLER,
        SiblingVerdict.STRAGGLER,
        SiblingVerdict.OK,
        SiblingVerdict.OK,
    ]
    found = judge(node(random.Random(1), [0.5, 1.0, 1.0]), MARGINS)
    assert {one.verdict for one in found} == {SiblingVerdict.NONE}
    assert "baseline" in found[0].why


def waiting(cells: Sequence[SiblingCell], *gpus: str) -> list[SiblingCell]:
    """The same, in which some GPUs waited for the host."""
    return [SiblingCell(name=one.name, bound=one.bound, rates=one.rates, waited=frozenset(gpus)) for one in cells]


WAITED = judge(waiting(node(random.Random(1), [1.0] * 8), "gpu0"), MARGINS)[0].why
"""The reason of a GPU that waited for the host."""


def test_siblings_that_waited_for_the_host_prove_slowness_only() -> None:
    """They are at least as fast as they look: being faster than them proves nothing."""
    others = [f"gpu{place}" for place in range(1, 8)]
    slow = judge(waiting(node(random.Random(2), [0.9, *[1.0] * 7]), *others), MARGINS)
    assert slow[0].verdict is SiblingVerdict.STRAGGLER
    for first in (1.0, 1.1):
        found = judge(waiting(node(random.Random(2), [first, *[1.0] * 7]), *others), MARGINS)
        assert [one.verdict for one in found] == [SiblingVerdict.NONE] * 8
        assert found[0].why != found[1].why == WAITED


@pytest.mark.parametrize("waited", [0.85, 0.75])
def test_waiting_gpus_do_not_hide_a_slow_one(waited: float) -> None:
    """Of two sockets, one is busy: half of the GPUs wait, and one of the others is slow."""
    rates = [0.88, 1.0, 1.0, 1.0, *[waited] * 4]
    found = judge(waiting(node(random.Random(4), rates), "gpu4", "gpu5", "gpu6", "gpu7"), MARGINS)
    assert [one.verdict for one in found] == [
        SiblingVerdict.STRAGGLER,
        *[SiblingVerdict.OK] * 3,
        *[SiblingVerdict.NONE] * 4,
    ]


def test_three_that_did_not_wait_are_enough() -> None:
    """A GPU that waited has this reason also if it did other work alone, at half the batch."""
    found = judge(waiting(node(random.Random(2), [1.0] * 8), "gpu4", "gpu5", "gpu6", "gpu7"), MARGINS)
    assert [one.verdict for one in found] == [SiblingVerdict.OK] * 4 + [SiblingVerdict.NONE] * 4
    cells = waiting(node(random.Random(2), [1.0] * 8), "gpu0")
    alone = SiblingCell(name="halved", bound=Bound.POWER, rates={"gpu0": [1.0, 1.0, 1.0]})
    assert "host" in WAITED
    assert judge([*cells, alone], MARGINS)[0].why == WAITED


def test_one_launch_gets_no_verdict() -> None:
    """Without repetition the noise is unknown, also where one waited for the host."""
    once = node(random.Random(1), [0.5, *[1.0] * 7], launches=1)
    found = [*judge(once, MARGINS), *judge(waiting(once, "gpu7"), MARGINS)[:7]]
    assert {one.verdict for one in found} == {SiblingVerdict.NONE}
    assert len({one.why for one in found}) == 1


def test_a_gpu_that_missed_cells_is_judged_by_the_others() -> None:
    """Cells that failed on a GPU are excluded for it alone; a cell of three GPUs is excluded for all."""
    cells = node(random.Random(6), [0.9, *[1.0] * 7])
    kept = [
        SiblingCell(name=one.name, bound=one.bound, rates={gpu: r for gpu, r in one.rates.items() if gpu != "gpu0"})
        for one in cells[:4]
    ]
    few = SiblingCell(name="few", bound=Bound.POWER, rates={"gpu1": [1.0, 1.0], "gpu2": [9.0, 9.0], "gpu3": [9.0, 9.0]})
    found = judge([*kept, *cells[4:], few], MARGINS)
    assert [one.verdict for one in found] == [SiblingVerdict.STRAGGLER, *[SiblingVerdict.OK] * 7]
    assert sum(effect.cells for effect in found[0].effects.values()) == 2


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_an_invalid_rate_is_refused(rate: float) -> None:
    """With cell and GPU. Without cells there are no verdicts."""
    cell = SiblingCell(name="resnet50", bound=Bound.POWER, rates={"gpu0": [rate], "gpu1": [1.0]})
    with pytest.raises(ValueError, match="resnet50 on gpu0"):
        judge([cell], MARGINS)
    assert judge([], MARGINS) == ()


def shape(found: Sequence[Sibling]) -> dict[str, tuple[SiblingVerdict, float]]:
    """What must not depend on names or units."""
    return {one.gpu: (one.verdict, round(one.ratio or 0, 9)) for one in found}


@settings(max_examples=25)
@given(st.permutations(range(6)), st.floats(min_value=1e-6, max_value=1e6), st.integers(0, 1000))
def test_names_order_and_units_change_nothing(order: list[int], unit: float, seed: int) -> None:
    """GPUs given in another order, cells in another order, rates in another unit: the same verdicts and ratios."""
    chance = random.Random(seed)
    cells = node(chance, [chance.uniform(0.92, 1.0) for _ in range(6)], cells=3)
    turned = [
        SiblingCell(
            name=one.name,
            bound=one.bound,
            rates={f"gpu{i}": [rate * unit for rate in one.rates[f"gpu{i}"]] for i in order},
        )
        for one in reversed(cells)
    ]
    assert shape(judge(turned, MARGINS)) == shape(judge(cells, MARGINS))
    renamed = [
        SiblingCell(
            name=one.name, bound=one.bound, rates={f"gpu{i}": one.rates[f"gpu{j}"] for i, j in enumerate(order)}
        )
        for one in cells
    ]
    straight, mixed = shape(judge(cells, MARGINS)), shape(judge(renamed, MARGINS))
    assert {f"gpu{i}": straight[f"gpu{j}"] for i, j in enumerate(order)} == mixed


def test_the_variance_of_the_reference_is_bounded() -> None:
    """The median of others varies by at most one GPU's mean (odd number), or half of it (even), wherever they lie."""
    chance, normal = random.Random(7), NormalDist()
    for number, bound in ((3, 1.0), (7, 1.0), (4, 0.5), (8, 0.5)):
        for apart in (0.0, 0.5, 1.0, 3.0):
            medians = []
            for _ in range(1500):
                values = sorted(i * apart + normal.inv_cdf(chance.random()) for i in range(number))
                medians.append((values[(number - 1) // 2] + values[number // 2]) / 2)
            centre = sum(medians) / len(medians)
            assert sum((one - centre) ** 2 for one in medians) / len(medians) <= bound * 1.12


def test_two_modes_need_twice_the_evidence() -> None:
    """Each p counts double, and what was just enough is not."""
    cells = node(random.Random(5), [0.941, *[1.0] * 7], bounds=POWER, cells=2, noise=0.005)
    once, twice = (judge(cells, MARGINS, judgements=judgements)[0] for judgements in (1, 2))
    assert once.p is not None
    assert twice.p == pytest.approx(min(1.0, 2 * once.p))
    assert (once.ratio, once.effects) == (twice.ratio, twice.effects)


def test_every_cell_has_its_own_effect() -> None:
    """Whether beyond its margin or not."""
    slow = judge(node(random.Random(5), [0.9, *[1.0] * 7]), MARGINS)[0]
    assert set(slow.alone) == {f"cell{number}" for number in range(6)} >= set(slow.slow_cells)
    assert all(slow.alone[name] == effect for name, effect in slow.slow_cells.items())
