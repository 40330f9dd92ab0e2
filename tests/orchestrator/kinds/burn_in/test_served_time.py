"""kinds/burn_in/served_time.py: what counts as time at work, and which gaps in it are told."""

import pytest

from orchestrator.kinds.burn_in import served_time
from orchestrator.kinds.burn_in.served_time import Load

S = 10**9


def spans(*pairs: tuple[float, float]) -> list[tuple[int, int]]:
    """From seconds."""
    return [(round(begin * S), round(end * S)) for begin, end in pairs]


def load(*launches: tuple[float, float], begins: bool = True, **facts: list[tuple[float, float]]) -> Load:
    """That of a segment that began at zero. begins: it is the first of its run."""
    stalls, suspensions = (spans(*facts.get(name, [])) for name in ("stalls", "suspensions"))
    return Load(spans(*launches), stalls, tuple(suspensions), since_ns=0 if begins else None)


@pytest.mark.parametrize(
    ("work", "expected_s"),
    [
        ([], 0),
        ([(15, 75)], 75),  # and the start
        ([(12, 32), (34, 54), (55, 75)], 75),  # ordinary gaps count
        ([(12, 32), (64, 75)], 75 - 32 + 20),  # of a long one, what is ordinary
        ([(100, 160)], 20 + 60),  # a long start likewise
        ([(11, 12)], 1 + 1),  # and none of it for more than the work that came of it
        ([(10, 30), (20, 40), (35, 38)], 40),  # what two launches cover counts once
        ([(34, 54), (12, 32)], 54),  # in any order
    ],
)
def test_what_was_served(work: list[tuple[float, float]], expected_s: float) -> None:
    """In a segment that began at zero."""
    assert served_time.seconds([load(*work)]) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("stalls", "left", "expected_s"),
    [
        ([(20, 30)], [(12, 20), (30, 32), (34, 54)], 54 - 10),  # though no longer than an ordinary gap
        ([(12, 20)], [(20, 32), (34, 54)], 54 - 8),  # the start counts
        ([(20, 32)], [(12, 20), (34, 54)], 54 - 12),
        ([(20, 25), (23, 30), (40, 50)], [(12, 20), (30, 32), (34, 40), (50, 54)], 54 - 20),
        ([(0, 100)], [], 0),  # starts and gaps count for no more than the work, of which there was none
        ([(30, 36)], [(12, 30), (36, 54)], 54 - 4),  # what lies between two launches is a gap
        ([(55, 60)], [(12, 32), (34, 54)], 54),
    ],
)
def test_suspended_time_was_not_served(
    stalls: list[tuple[float, float]], left: list[tuple[float, float]], expected_s: float
) -> None:
    """Of two launches in a segment that began at zero."""
    launches = [(12, 32), (34, 54)]
    assert list(served_time.without(spans(*launches), spans(*stalls))) == spans(*left)
    assert served_time.seconds([load(*launches, stalls=stalls)]) == pytest.approx(expected_s)


@pytest.mark.parametrize(("gap_s", "expected_s"), [(1, 40 + 9), (4, 40 + 36), (5, 40 + 40), (9, 40 + 40)])
def test_gaps_count_for_no_more_than_the_work_between_which_they_lie(gap_s: float, expected_s: float) -> None:
    """Each of them is an ordinary one; a device that is idle for most of the burn-in was not at work in it."""
    launches = [(at * (4 + gap_s), at * (4 + gap_s) + 4) for at in range(10)]
    assert served_time.seconds([load(*launches)]) == pytest.approx(expected_s)


def test_gaps_are_compared_with_the_work_of_their_own_segment() -> None:
    """Work in a later session without gaps is no credit for idle hours of an earlier one."""
    gaps, none = load((0, 2), (10, 12)), load((0, 20), begins=False)
    assert (served_time.seconds([gaps]), served_time.seconds([gaps, none])) == pytest.approx((4 + 4, 24 + 4))


@pytest.mark.parametrize(
    ("suspensions", "expected_s"),
    [
        ([(32, 49)], 70 - 17),
        ([(20, 40)], 70 - 8),  # the launch went on meanwhile
        ([(0, 10)], 70 - 10),  # nothing began either
        ([(10, 30)], 70 - 2),
        ([(72, 90)], 70),
    ],
)
def test_nothing_counts_of_a_gap_in_which_the_orchestrator_was_suspended(
    suspensions: list[tuple[float, float]], expected_s: float
) -> None:
    """Of two launches with 18 s between them."""
    assert served_time.seconds([load((12, 32), (50, 70), suspensions=suspensions)]) == pytest.approx(expected_s)


def test_the_start_of_the_first_segment_alone_counts() -> None:
    """The time of a resumed burn-in counts from the end of the imports, so the imports are not missing time."""
    again = load((10, 40), begins=False)
    assert served_time.seconds([load((10, 40))]) == pytest.approx(10 + 30)
    assert served_time.seconds([load((10, 40)), again, again]) == pytest.approx(10 + 3 * 30)
    assert served_time.seconds([load((15, 18)), again]) == pytest.approx(
        3 + 3 + 30
    )  # the work that came of it, no other


@pytest.mark.parametrize(
    ("work", "explained", "gaps"),
    [
        ([(300, 320), (321, 341)], [], []),
        ([(300, 320), (380, 400)], [], []),  # a minute
        ([(300, 320), (381, 400)], [], [(320, 61)]),
        ([(300, 320), (400, 420), (500, 520)], [], [(320, 80), (420, 80)]),
        ([(300, 320), (520, 540)], [(330, 515)], []),  # a launch failed, here or where it waited for another
        ([(300, 320), (520, 540)], [(330, 400), (390, 455)], [(320, 75)]),
        ([(300, 320), (520, 540)], [(200, 330), (515, 600)], [(320, 185)]),
        ([(300, 320)], [], []),  # neither before the first launch nor behind the last
        ([], [], []),
    ],
)
def test_which_gaps_are_told(
    work: list[tuple[float, float]], explained: list[tuple[float, float]], gaps: list[tuple[float, float]]
) -> None:
    """Longer than a minute, but for what failed launches explain."""
    assert list(served_time.idle(spans(*work), spans(*explained))) == [(at * S, seconds) for at, seconds in gaps]


@pytest.mark.parametrize(("served_s", "short"), [(3420 - 10 - 20 - 1, True), (3420 - 10 - 20, False), (3600, False)])
def test_what_is_too_little(served_s: float, short: bool) -> None:
    """Less than 95 %, but for ten seconds and a launch, of an hour of cells of 20 s."""
    assert served_time.is_short(served_s, 3600, 20) is short
