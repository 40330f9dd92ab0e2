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
"""Share of the free memory that must be checked. A test tries to allocate 92 %, then 2 % less until it succeeds."""
_MIB: Final = 1024**2
_WHOLE: Final = {
    DeviceKind.CUDA: "the largest free memory at the start of a launch",
    DeviceKind.CPU: "what was planned",
}


def not_tested(launches: Sequence[Verification]) -> dict[str, str]:
    """Return {"memory: speed": reason}, and "memory: pattern <name>" → reason if no launch completed the pattern.

    The speed is never tested. {} if the launches tested no pattern.
    """
    times_by_pattern = marched(launches)
    speed = {f"{Workload.MEMORY}: speed": SPEED} if times_by_pattern else {}
    return speed | {
        f"{Workload.MEMORY}: pattern {name}": NEVER for name, times in times_by_pattern.items() if not times
    }


def marched(launches: Sequence[Verification]) -> Mapping[str, int]:
    """Return name of the pattern → number of its complete passes over the memory, added up over the launches."""
    found: Counter[str] = Counter()
    for launch in launches:
        found.update(launch.patterns)
    return found


@dataclass(frozen=True)
class Covered:
    """The share (0 to 1) of the free memory of a GPU, or of the planned memory of a CPU device, that was checked.

    text: the share as text: "95.0 % of …". why: why it is not larger; never "".
    """

    share: float
    text: str
    why: str


def covered(launches: Sequence[Verification], kind: DeviceKind) -> Covered | None:
    """Return the largest share of the memory that a single launch checked; None if no launch reports one.

    For a GPU, it is the share of the largest free memory that any launch found at its start; for a CPU device, of the
    memory that was planned to be tested.
    """
    shares = [launch.share for launch in launches if launch.share is not None and launch.share.whole > 0]
    if not shares:
        return None
    # One launch that covers most suffices. The share is of the largest free memory at the start of any launch.
    most, whole = max(shares, key=_tested), max(launch.whole for launch in shares)
    share = _tested(most) / whole
    sizes = f"{_tested(most) // _MIB:,} of {whole // _MIB:,} MiB"
    return Covered(share, f"{100 * share:.1f} % of {_WHOLE[kind]} ({sizes})", _why(most, whole))


def lacking(best: Covered | None) -> str:
    """Return why the memory test is not enough for a PASS; "" if it is. best: the checked share; None if unknown."""
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
