"""How far the test of memory came in a whole burn-in: a launch seldom has time for all patterns, a night must. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from protocol.cell import Workload
from protocol.verification import Verification


def not_tested(launches: Sequence[Verification]) -> dict[str, str]:
    """The patterns that no launch of one device marched to their end, and why; empty without a test of memory."""
    return {
        f"{Workload.MEMORY}: pattern {name}": "it never came to its end: the launches were too short, or too few"
        for name, times in _marched(launches).items()
        if not times
    }


def method(launches: Sequence[Verification]) -> str:
    """How launches of one check compared, in words, and of a test of memory how often with each pattern."""
    if not launches:
        return ""
    times = ", ".join(f"{name} {times}" for name, times in _marched(launches).items())
    return f"{launches[0].method}, times from end to end: {times}" if times else launches[0].method


def _marched(launches: Sequence[Verification]) -> Mapping[str, int]:
    """Pattern → how often it was marched from end to end, 0 for never."""
    marched: Counter[str] = Counter()
    for launch in launches:
        marched.update(launch.patterns)
    return marched
