"""The memory test over a whole burn-in: checked share of the memory, and patterns. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.cell import DeviceKind, Workload
from protocol.verification import MemoryShare, Verification

SPEED: Final = "not judged: each pattern takes a different time, and a launch may end within any of them"
NEVER: Final = "never completed, because the launches were too short or too few"
LEAST: Final = 0.85
"""Required share of MemoryShare.whole. Tests request 92 %, then 2 % less until it can be allocated."""
_MIB: Final = 1024**2
_WHOLE: Final = {
    DeviceKind.CUDA: "the most memory that was free when a launch started",
    DeviceKind.CPU: "what was planned",
}


def not_tested(launches: Sequence[Verification]) -> dict[str, str]:
    """Return the speed and the unfinished patterns of a memory test as not tested; empty without a memory test."""
    times_by_pattern = marched(launches)
    speed = {f"{Workload.MEMORY}: speed": SPEED} if times_by_pattern else {}
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
    """The checked share of a device's memory (0 to 1), described. why: the reason why it is not larger."""

    share: float
    text: str
    why: str


def covered(launches: Sequence[Verification], kind: DeviceKind) -> Covered | None:
    """Return the best coverage by one launch; None if no launch reports any."""
    shares = [launch.share for launch in launches if launch.share is not None and launch.share.whole > 0]
    if not shares:
        return None
    # One launch that covers most suffices. The share is of the most memory that was free when any launch began.
    most, whole = max(shares, key=_tested), max(launch.whole for launch in shares)
    share = _tested(most) / whole
    sizes = f"{_tested(most) // _MIB:,} of {whole // _MIB:,} MiB"
    return Covered(share, f"{100 * share:.1f} % of {_WHOLE[kind]} ({sizes})", _why(most, whole))


def lacking(best: Covered | None) -> str:
    """Return why the coverage does not suffice for a PASS, or ""."""
    if best is None:
        return "the memory test reports no coverage"
    if best.share >= LEAST:
        return ""
    return f"the memory test covered {best.text}, below the required {100 * LEAST:.0f} %: {best.why}"


def _tested(share: MemoryShare) -> int:
    return min(share.covered, share.taken)


def _why(share: MemoryShare, whole: int) -> str:
    if share.taken < LEAST * whole:
        return f"only {share.taken // _MIB:,} MiB could be allocated"
    return "the launches ended before they checked the rest"
