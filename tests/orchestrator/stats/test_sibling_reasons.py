"""The probable reason why a GPU is slower than its siblings."""

import pytest

from orchestrator.stats.sibling_reasons import Traits, Work, why
from orchestrator.stats.slowdown_reasons import Reading, Reason

READING = Reading(rate=100.0, clock_mhz=1500.0, temperature_c=60.0, capped=0.0)
LESS = Reading(rate=90.0, clock_mhz=1500.0, temperature_c=60.0, capped=0.0)


def gpu(reading: Reading = LESS, **changes: object) -> Traits:
    """A GPU that is a tenth slower, without a reason unless `changes` give one."""
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
        (Work.COMPUTE, gpu(CLOCK), Reason.CLOCK, "10.0%"),
        (Work.COMPUTE, gpu(HOT), Reason.HEAT, "15 degrees"),
        (Work.COMPUTE, gpu(CAPPED), Reason.POWER, "power limit"),
        (Work.COMPUTE, gpu(CLOCK, memory_clock_mhz=1600.0), Reason.CLOCK, "10.0%"),
        (Work.COMPUTE, gpu(memory_clock_mhz=1600.0), Reason.MEMORY, "50.0%"),
        (Work.COMPUTE, gpu(launch_bound=True), Reason.HOST, "host"),
        (Work.COMPUTE, gpu(launch_bound=True, cores=(9, 10)), Reason.HOST, "cores 9 to 10"),
        (Work.COMPUTE, gpu(cores=(9, 10)), Reason.OTHER, "10.0%"),
        (Work.COMPUTE, gpu(UNREAD), Reason.UNKNOWN, "clock"),
        (Work.MEMORY, gpu(memory_clock_mhz=1600.0), Reason.MEMORY, "50.0%"),
        (Work.MEMORY, gpu(CLOCK), Reason.MEMORY, "errors"),
        (Work.MEMORY, gpu(memory_clock_mhz=None), Reason.MEMORY, "errors"),
        (Work.TRANSFER, gpu(link=(3, 16)), Reason.LINK, "PCIe generation 3 with 16 lanes"),
        (Work.TRANSFER, gpu(link=(5, 8)), Reason.LINK, "generation 5 with 8 lanes"),
        (Work.TRANSFER, gpu(cores=(9, 10)), Reason.HOST, "cores 9 to 10"),
        (Work.TRANSFER, gpu(link=None), Reason.OTHER, "slot"),
        (Work.TRANSFER, gpu(CLOCK), Reason.OTHER, "link"),
    ],
)
def test_the_reason_depends_on_the_work(work: Work, own: Traits, reason: Reason, words: str) -> None:
    """Transfers by the link, memory by its clock, the rest by clock, heat and power first."""
    found = why(work, own, OTHERS)
    assert found.reason is reason
    assert words in found.words


def test_siblings_without_telemetry_explain_nothing() -> None:
    """Without telemetry there is a verdict, and no reason."""
    others = [gpu(Reading(rate=100.0), memory_clock_mhz=None, link=None, cores=())] * 3
    assert why(Work.COMPUTE, gpu(memory_clock_mhz=1600.0), others).reason is Reason.UNKNOWN
    assert why(Work.TRANSFER, gpu(link=(1, 1), cores=(9,)), others).reason is Reason.OTHER
