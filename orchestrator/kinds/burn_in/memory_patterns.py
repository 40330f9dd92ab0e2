"""How far the test of memory came in a whole burn-in: a launch seldom has time for all patterns, a night must. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.kinds.burn_in import check_methods
from protocol.cell import Workload
from protocol.verification import Verification

SPEED: Final = "its patterns take their time, each another one, and a launch ends within any of them: no rate is judged"

NEVER: Final = "it never came to its end: the launches were too short, or too few"


def not_tested(launches: Sequence[Verification]) -> dict[str, str]:
    """Speed, and the patterns that no launch of a device marched to their end: why. Empty without a test of memory."""
    marched = _marched(launches)
    speed = {f"{Workload.MEMORY}: its speed": SPEED} if marched else {}
    return speed | {f"{Workload.MEMORY}: pattern {name}": NEVER for name, times in marched.items() if not times}


def method(launches: Sequence[Verification]) -> str:
    """How launches of one check compared, in words, and of a test of memory how often with each pattern."""
    told = check_methods.joined(launches)
    times = ", ".join(f"{name} {times}" for name, times in _marched(launches).items())
    return f"{told}, times from end to end: {times}" if times else told


def _marched(launches: Sequence[Verification]) -> Mapping[str, int]:
    """Pattern → how often it was marched from end to end, 0 for never."""
    marched: Counter[str] = Counter()
    for launch in launches:
        marched.update(launch.patterns)
    return marched
