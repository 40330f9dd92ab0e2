"""Probable reason why a GPU slowed down, by its clock, temperature and power limit. Pure.

    the clock fell ─┬─ and it became hotter ────────────▶ heat, even at the power limit: a hotter chip leaks more
                    ├─ at the power limit, no hotter ───▶ power
                    └─ neither ─────────────────────────▶ clock alone
    the clock did not fall ──── less work per cycle ────▶ other: memory, corrected errors, links, the host

A reason does not excuse a GPU: heat that lowers its clock is a fault.
"""

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from orchestrator.stats.drift import ENDS

LEAST_LOSS: Final = 0.005
HOTTER_C: Final = 3.0
"""Degrees Celsius from which a GPU became hotter. NVML reports whole degrees, and a fan changes them by one or two."""
CAPPED_SHARE: Final = 0.5
_MOST_OF_IT: Final = 0.5


class Reason(enum.StrEnum):
    """Probable reason of a slowdown.

    CLOCK: a lower clock, explained by neither heat nor power. MEMORY: a lower memory clock, or slower memory at the
    same clock. HOST: the GPU waits for the host, or is attached to other cores than its siblings. Only comparisons of
    siblings find LINK, MEMORY and HOST. OTHER: none of these. UNKNOWN: a clock is unknown.
    """

    HEAT = "heat"
    POWER = "power limit"
    CLOCK = "clock"
    LINK = "PCIe link"
    MEMORY = "memory"
    HOST = "host"
    OTHER = "other"
    UNKNOWN = "unknown"
    NOT_SLOWER = "not slower"


CAUSES: Final = frozenset({Reason.HEAT, Reason.POWER, Reason.LINK, Reason.MEMORY, Reason.HOST})
"""Reasons that say why a GPU is slow. The others say only how: a lower clock, or less work per clock cycle."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Rate, clock, temperature and power limit of one GPU in a window (windows.py), or their medians. None: unknown.

    rate: of one kind of work, in any unit. capped: share of the time at the power limit, 0 to 1.
    """

    rate: float
    clock_mhz: float | None = None
    temperature_c: float | None = None
    capped: float | None = None


@dataclass(frozen=True, kw_only=True)
class Why:
    """Probable reason why a GPU slowed down. words: "its clock is 3.0% lower at the power limit".

    per_clock_percent: change of the work per clock cycle in percent; None if unknown.
    """

    reason: Reason
    words: str
    per_clock_percent: float | None = None


def over_time(readings: Sequence[Reading]) -> Why:
    """Return why the last fifth of the readings is slower than the first fifth, as `between` does for their medians.

    Raises ValueError without readings. readings: of one GPU and kind of work, in order of time.
    """
    if not readings:
        raise ValueError("at least one window is needed")
    count = max(1, math.floor(len(readings) * ENDS))
    return between(typical(readings[:count]), typical(readings[-count:]))


def between(early: Reading, late: Reading) -> Why:
    """Return why `late` is slower than `early`: two readings of one GPU, or of two siblings.

    The reason is NOT_SLOWER if `late` is less than 0.5 % slower, UNKNOWN if a clock is unknown, OTHER if the lower
    clock explains less than half of the slowdown.
    """
    loss = -math.log(late.rate / early.rate)
    if loss < LEAST_LOSS:
        return Why(reason=Reason.NOT_SLOWER, words="not slower")
    if not early.clock_mhz or not late.clock_mhz:
        return Why(reason=Reason.UNKNOWN, words="its clock is unknown, so the reason is unknown, too")
    fall = -math.log(late.clock_mhz / early.clock_mhz)
    per_clock_percent = math.expm1(fall - loss) * 100
    if fall < _MOST_OF_IT * loss:
        words = f"{-per_clock_percent:.1f}% less work per clock cycle: look for memory errors, slow links, a busy host"
        return Why(reason=Reason.OTHER, words=words, per_clock_percent=per_clock_percent)
    reason, because = _why_the_clock(early, late)
    words = f"its clock is {-math.expm1(-fall):.1%} lower{because}"
    return Why(reason=reason, words=words, per_clock_percent=per_clock_percent)


def _why_the_clock(early: Reading, late: Reading) -> tuple[Reason, str]:
    hotter = None
    if early.temperature_c is not None and late.temperature_c is not None:
        hotter = late.temperature_c - early.temperature_c
    if hotter is not None and hotter >= HOTTER_C:
        return Reason.HEAT, f", and the GPU is {hotter:.0f} degrees hotter: check the cooling"
    if late.capped is not None and late.capped >= CAPPED_SHARE:
        return Reason.POWER, " at the power limit" + ("" if hotter is None else ", and the GPU is not hotter")
    if hotter is None or late.capped is None:
        return Reason.CLOCK, ", for an unknown reason"
    return Reason.CLOCK, ", for an unknown reason: neither heat nor the power limit"


def typical(readings: Sequence[Reading]) -> Reading:
    """Return the median of each field over the readings in which it is not None. Needs at least one reading."""
    return Reading(
        rate=median(reading.rate for reading in readings),
        clock_mhz=median_of(reading.clock_mhz for reading in readings),
        temperature_c=median_of(reading.temperature_c for reading in readings),
        capped=median_of(reading.capped for reading in readings),
    )


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
