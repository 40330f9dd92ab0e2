"""burn_in/served.py: what counts as time at work, and which gaps in it are told."""

import msgspec
import pytest

from orchestrator.burn_in import served
from orchestrator.disk.records import End, Record, Segment, Start, TakenOut
from protocol.failure import Category, Failure, Phase

S = 10**9
ENDED = Failure(category=Category.STOPPED, message="", phase=Phase.MEASURE)


def spans(*pairs: tuple[float, float]) -> list[tuple[int, int]]:
    """From seconds."""
    return [(round(begin * S), round(end * S)) for begin, end in pairs]


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
    assert served.seconds([(0, spans(*work), ())]) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("stalls", "left", "expected_s"),
    [
        ([(20, 30)], [(12, 20), (30, 32), (34, 54)], 54 - 10),  # though no longer than an ordinary gap
        ([(12, 20)], [(20, 32), (34, 54)], 54 - 8),  # the start counts
        ([(20, 32)], [(12, 20), (34, 54)], 54 - 12),
        ([(20, 25), (23, 30), (40, 50)], [(12, 20), (30, 32), (34, 40), (50, 54)], 54 - 20),
        ([(0, 100)], [], 2),  # a start counts for no more than the work, of which there was none
        ([(30, 36)], [(12, 30), (36, 54)], 54 - 4),  # what lies between two launches is a gap
        ([(55, 60)], [(12, 32), (34, 54)], 54),
    ],
)
def test_what_stood_still_was_not_served(
    stalls: list[tuple[float, float]], left: list[tuple[float, float]], expected_s: float
) -> None:
    """Of two launches in a segment that began at zero."""
    launches = spans((12, 32), (34, 54))
    assert list(served.without(launches, spans(*stalls))) == spans(*left)
    assert served.seconds([(0, launches, spans(*stalls))]) == pytest.approx(expected_s)


def test_starts_count_for_no_more_than_all_the_work_that_came_of_them() -> None:
    """A short segment behind a long one has its start; many short ones have not."""
    long, short = (0, spans((10, 40)), ()), (0, spans((15, 18)), ())
    assert served.seconds([long, short]) == pytest.approx(10 + 30 + 15 + 3)
    assert served.seconds([short] * 4) == pytest.approx(4 * 2 * 3)


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
    assert list(served.idle(spans(*work), spans(*explained))) == [(at * S, seconds) for at, seconds in gaps]


def segment(begin_s: float) -> Segment:
    """Begun then."""
    at_ns = round(begin_s * S)
    return Segment(boot_id="b", driver_version=None, tool_version="", pid=1, wall=0.0, monotonic_ns=at_ns)


ALONE = {"c": ("d",)}


def launch(
    number: int, begin_s: float, end_s: float | None, phase: Phase = Phase.MEASURE, cell: str = "c"
) -> list[Record]:
    """One with an end, or without."""
    failure = msgspec.structs.replace(ENDED, phase=phase)
    begun = Start(launch=number, cell=cell, attempt=1, round=0, device="d", batch_size=1, at_ns=round(begin_s * S))
    return [begun] if end_s is None else [begun, End(launch=number, at_ns=round(end_s * S), failure=failure)]


def test_what_was_served_before() -> None:
    """Of earlier segments up to their last end, where they began a launch at all; nothing of the newest."""
    records: list[Record] = [segment(1000), *launch(1, 1008, 1030), *launch(2, 1031, None)]
    assert served.before([*records, segment(5000)], ALONE) == 30
    for begin_s in (5000, 6000, 7000):
        records += [segment(begin_s)]  # each ended while it imported
    assert served.before([*records, segment(8000)], ALONE) == 30
    again = [segment(8000), *launch(3, 8010, 8050)]
    assert served.before([*records, *again], ALONE) == 30
    other = [segment(9000), *launch(4, 9001, None)]
    late = End(launch=2, at_ns=9010 * S, failure=ENDED)  # as the next segment finds it
    assert served.before([*records, *again, segment(9000), late, *other], ALONE) == 80
    assert served.before([*records, *again, segment(9000), late, segment(9500)], ALONE) == 80


@pytest.mark.parametrize("phase", list(Phase))
def test_what_ended_before_it_was_at_work_has_served_nothing(phase: Phase) -> None:
    """Neither itself nor as the start of a segment; from its warm-up on it has."""
    records: list[Record] = [segment(0), *launch(1, 0, 40, phase), segment(5000)]
    assert served.before(records, ALONE) == (0 if phase in {Phase.START, Phase.IMPORT, Phase.BUILD} else 40)


@pytest.mark.parametrize(("out", "expected_s"), [((), 20), (("late",), 40), (("late", "d", "third"), 20)])
def test_the_device_that_served_least_counts(out: tuple[str, ...], expected_s: float) -> None:
    """Each must have its time; but for one that was taken out, for which the others would go on all night again."""
    devices = {"c": ("d",), "late": ("late",), "all": ("d", "late", "third"), "third": ("third",)}
    records: list[Record] = [segment(0), *launch(1, 0, 30), *launch(2, 20, 30, cell="third")]
    records += [*launch(3, 30, 40, cell="all"), *launch(4, 32, None, cell="late")]
    taken_out = [TakenOut(device=uuid, at_ns=45 * S, reason="it is gone") for uuid in out]
    assert served.before([*records, *taken_out, segment(5000)], devices) == expected_s
