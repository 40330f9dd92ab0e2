"""In words, why a GPU that is slower than its siblings probably is."""

import pytest

from orchestrator.stats.sibling_reasons import Traits, Work, why
from orchestrator.stats.slowdown_reasons import Reading, Reason

READING = Reading(rate=100.0, clock_mhz=1500.0, temperature_c=60.0, capped=0.0)
LESS = Reading(rate=90.0, clock_mhz=1500.0, temperature_c=60.0, capped=0.0)


def gpu(reading: Reading = LESS, **changes: object) -> Traits:
    """A GPU that does a tenth less, and of which nothing says why unless `changes` do."""
    known: dict[str, object] = {"memory_clock_mhz": 3201.0, "link": (5, 16), "cores": (0, 1, 2), "launch_bound": False}
    return Traits(reading=reading, **{**known, **changes})  # type: ignore[arg-type]  # each of its own type


OTHERS = [gpu(READING)] * 7
CLOCK = Reading(rate=90.0, clock_mhz=1350.0, temperature_c=60.0, capped=0.0)
HOT = Reading(rate=90.0, clock_mhz=1350.0, temperature_c=75.0, capped=0.0)
CAPPED = Reading(rate=90.0, clock_mhz=1350.0, temperature_c=60.0, capped=1.0)
UNREAD = Reading(rate=90.0)


@pytest.mark.parametrize(
    ("work", "own", "reason", "words"),
    [
        (Work.COMPUTE, gpu(CLOCK), Reason.CLOCK, "its clock is 10.0% lower"),
        (Work.COMPUTE, gpu(HOT), Reason.HEAT, "15 degrees hotter"),
        (Work.COMPUTE, gpu(CAPPED), Reason.POWER, "at the power limit"),
        (Work.COMPUTE, gpu(CLOCK, memory_clock_mhz=1600.0), Reason.CLOCK, "its clock is 10.0% lower"),
        (Work.COMPUTE, gpu(memory_clock_mhz=1600.0), Reason.MEMORY, "its memory clock is 50.0% lower"),
        (Work.COMPUTE, gpu(launch_bound=True), Reason.HOST, "it waits for the host"),
        (Work.COMPUTE, gpu(launch_bound=True, cores=(9, 10)), Reason.HOST, "cores 9 to 10 of the host, most siblings"),
        (Work.COMPUTE, gpu(cores=(9, 10)), Reason.OTHER, "10.0% less at each tick"),
        (Work.COMPUTE, gpu(UNREAD), Reason.UNKNOWN, "its clock is not known"),
        (Work.MEMORY, gpu(memory_clock_mhz=1600.0), Reason.MEMORY, "its memory clock is 50.0% lower"),
        (Work.MEMORY, gpu(CLOCK), Reason.MEMORY, "look at its errors"),
        (Work.MEMORY, gpu(memory_clock_mhz=None), Reason.MEMORY, "look at its errors"),
        (Work.TRANSFER, gpu(link=(3, 16)), Reason.LINK, "its link is PCIe generation 3 with 16 lanes, its siblings'"),
        (Work.TRANSFER, gpu(link=(5, 8)), Reason.LINK, "generation 5 with 8 lanes, its siblings' PCIe generation 5"),
        (Work.TRANSFER, gpu(cores=(9, 10)), Reason.HOST, "it hangs on cores 9 to 10 of the host, most siblings"),
        (Work.TRANSFER, gpu(link=None), Reason.OTHER, "the host, the slot or the board"),
        (Work.TRANSFER, gpu(CLOCK), Reason.OTHER, "neither its link nor its cores"),
    ],
)
def test_what_a_cell_works_on_says_where_to_look(work: Work, own: Traits, reason: Reason, words: str) -> None:
    """The way to the host by its link, memory by its clock, the rest by clock, heat and power first."""
    told = why(work, own, OTHERS)
    assert told.reason is reason
    assert words in told.words


def test_siblings_of_whom_nothing_is_known_explain_nothing() -> None:
    """Without telemetry there is a verdict, and no reason."""
    others = [gpu(Reading(rate=100.0), memory_clock_mhz=None, link=None, cores=())] * 3
    assert why(Work.COMPUTE, gpu(memory_clock_mhz=1600.0), others).reason is Reason.UNKNOWN
    assert why(Work.TRANSFER, gpu(link=(1, 1), cores=(9,)), others).reason is Reason.OTHER
