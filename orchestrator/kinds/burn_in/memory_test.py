"""What the test of memory has covered in a whole burn-in: how much of the memory, with which patterns. Pure.

One launch that covered most of the memory is enough, and so is one march with each pattern: a launch seldom has time
for all of them. The share is of the most memory that was free when any launch began: one that began with little of it,
all of which it checked, has not tested the rest.
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
"""Of MemoryShare.whole, that must have been checked. 92 % are asked for; what is not to be had is given up in steps of
2 %, and named in the result below 90 % (worker/workloads/memory.py)."""
_MIB: Final = 1024**2
_WHOLE: Final = {DeviceKind.CUDA: "the most memory that was free when one began", DeviceKind.CPU: "what was planned"}


def not_tested(launches: Sequence[Verification]) -> dict[str, str]:
    """Speed, and the patterns that no launch of a device marched to their end: why. Empty without a test of memory."""
    times_by_pattern = marched(launches)
    speed = {f"{Workload.MEMORY}: its speed": SPEED} if times_by_pattern else {}
    return speed | {
        f"{Workload.MEMORY}: pattern {name}": NEVER for name, times in times_by_pattern.items() if not times
    }


def marched(launches: Sequence[Verification]) -> Mapping[str, int]:
    """Pattern → how often it was marched from end to end, 0 for never."""
    found: Counter[str] = Counter()
    for launch in launches:
        found.update(launch.patterns)
    return found


@dataclass(frozen=True)
class Covered:
    """How much of a device's memory its test has checked, a share of 1; of what, in words. why: no more."""

    share: float
    words: str
    why: str


def covered(launches: Sequence[Verification], kind: DeviceKind) -> Covered | None:
    """By the launches of one check on one device; None where none of them says so, as none but those of memory do."""
    told = [one.share for one in launches if one.share is not None and one.share.whole > 0]
    if not told:
        return None
    most, whole = max(told, key=_tested), max(one.whole for one in told)
    share = _tested(most) / whole
    sizes = f"{_tested(most) // _MIB:,} of {whole // _MIB:,} MiB"
    return Covered(share, f"{100 * share:.1f} % of {_WHOLE[kind]} ({sizes})", _why(most, whole))


def lacking(found: Covered | None) -> str:
    """Why that is too little for a PASS, in words; empty where it is enough."""
    if found is None:
        return "the memory test does not say how much of the memory it covered"
    if found.share >= LEAST:
        return ""
    return f"the memory test covered {found.words}, and {100 * LEAST:.0f} % are needed: {found.why}"


def _tested(share: MemoryShare) -> int:
    """A worker is not believed to have checked more than it had."""
    return min(share.covered, share.taken)


def _why(share: MemoryShare, whole: int) -> str:
    if share.taken < LEAST * whole:
        return f"no more than {share.taken // _MIB:,} MiB could be had"
    return "its launches ended before they had checked the rest"
