"""The memory test over a whole burn-in: checked share of the memory, and patterns. Pure.

One launch that covers most of the memory suffices, and one march per pattern. The share is of the most memory that was
free when any launch began.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.cell import DeviceKind, Workload
from protocol.verification import MemoryShare, Verification

SPEED: Final = "its patterns take their time, each another one, and a launch ends within any of them: no rate is judged"
NEVER: Final = "it never came to its end: the launches were too short, or too few"
LEAST: Final = 0.85
"""Share of MemoryShare.whole that must be checked. The test requests 92 % and gives up in steps of 2 % what it
cannot allocate (worker/workloads/memory.py).
"""
_MIB: Final = 1024**2
_WHOLE: Final = {DeviceKind.CUDA: "the most memory that was free when one began", DeviceKind.CPU: "what was planned"}


def not_tested(launches: Sequence[Verification]) -> dict[str, str]:
    """Return the speed and the unfinished patterns of a memory test as not tested; empty without a memory test."""
    times_by_pattern = marched(launches)
    speed = {f"{Workload.MEMORY}: its speed": SPEED} if times_by_pattern else {}
    return speed | {
        f"{Workload.MEMORY}: pattern {name}": NEVER for name, times in times_by_pattern.items() if not times
    }


def marched(launches: Sequence[Verification]) -> Mapping[str, int]:
    """Return how often each pattern was marched from end to end."""
    found: Counter[str] = Counter()
    for launch in launches:
        found.update(launch.patterns)
    return found


@dataclass(frozen=True)
class Covered:
    """The checked share of a device's memory (0 to 1), described. why: the reason why it is not more."""

    share: float
    words: str
    why: str


def covered(launches: Sequence[Verification], kind: DeviceKind) -> Covered | None:
    """Return the best coverage by one launch; None if no launch reports any."""
    told = [one.share for one in launches if one.share is not None and one.share.whole > 0]
    if not told:
        return None
    most, whole = max(told, key=_tested), max(one.whole for one in told)
    share = _tested(most) / whole
    sizes = f"{_tested(most) // _MIB:,} of {whole // _MIB:,} MiB"
    return Covered(share, f"{100 * share:.1f} % of {_WHOLE[kind]} ({sizes})", _why(most, whole))


def lacking(found: Covered | None) -> str:
    """Return why the coverage does not suffice for a PASS, or ""."""
    if found is None:
        return "the memory test does not say how much of the memory it covered"
    if found.share >= LEAST:
        return ""
    return f"the memory test covered {found.words}, and {100 * LEAST:.0f} % are needed: {found.why}"


def _tested(share: MemoryShare) -> int:
    return min(share.covered, share.taken)


def _why(share: MemoryShare, whole: int) -> str:
    if share.taken < LEAST * whole:
        return f"no more than {share.taken // _MIB:,} MiB could be had"
    return "its launches ended before they had checked the rest"
