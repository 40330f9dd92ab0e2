"""Reasons for a GPU's lowered clock, as NVML's bits and as text, and which of them invalidate a result."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Final

CLOCK_EVENT_REASONS: Final = {
    0x001: "idle",
    0x002: "application clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
}
POWER_CAP: Final = 0x004
SLOWDOWN: Final = 0x008 | 0x020 | 0x040 | 0x080
"""Bits of NVML's reasons that invalidate a result: heat and hardware brakes. A software power cap is normal."""


def reason_names(masks: Iterable[int | None]) -> tuple[str, ...]:
    """Return the reasons in any of the bit masks, by name. None counts as 0. Other bits: one "unknown (0x200)"."""
    seen = reduce(or_, filter(None, masks), 0)
    named = tuple(name for bit, name in CLOCK_EVENT_REASONS.items() if seen & bit)
    rest = seen & ~sum(CLOCK_EVENT_REASONS)
    return (*named, f"unknown ({rest:#x})") if rest else named
