"""Probable reason why a slow GPU (stragglers.py) is slower than its siblings, as text. Pure.

limit of the cell            compared, in this order
────────────────────────────────────────────────────────────────────────────────────────────────────
transfers to the host        PCIe link, then the cores of the host near the GPU
memory of the GPU            memory clock
anything else                clock, heat and power limit (slowdown_reasons.py), then memory clock, host
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mode
from typing import Final

from orchestrator.stats import slowdown_reasons
from orchestrator.stats.slowdown_reasons import Reading, Reason, Why

LEAST_FALL: Final = 0.005
"""Least difference of memory clocks that counts, as a share. NVML rounds several thousand MHz to whole ones."""
_OF_THE_CLOCK: Final = frozenset({Reason.HEAT, Reason.POWER, Reason.CLOCK})


class Work(enum.Enum):
    """The main limit of the speed of a cell."""

    COMPUTE = enum.auto()
    MEMORY = enum.auto()
    TRANSFER = enum.auto()


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Known facts about a GPU in one cell. None, or () for cores: unknown.

    reading: rate, clock, temperature and power limit. link: (PCIe generation, lanes). cores: numbers of the host cores
    near the GPU. launch_bound: the GPU waited for the host.
    """

    reading: Reading
    memory_clock_mhz: float | None = None
    link: tuple[int, int] | None = None
    cores: tuple[int, ...] = ()
    launch_bound: bool | None = None


def why(work: Work, own: Traits, others: Sequence[Traits]) -> Why:
    """Return the probable reason why `own` is slower than its siblings `others` (at least one), in one cell.

    If no trait explains it, the reason depends on `work`. MEMORY for work limited by memory, OTHER for transfers. For
    COMPUTE: NOT_SLOWER if its rate is less than 0.5 % below the siblings' median, UNKNOWN if a clock is unknown, else
    OTHER.
    """
    match work:
        case Work.TRANSFER:
            words = "no known difference of its link or cores: check the host, the slot and the board"
            return _link(own, others) or _host(own, others) or Why(reason=Reason.OTHER, words=words)
        case Work.MEMORY:
            return _memory_clock(own, others) or Why(
                reason=Reason.MEMORY, words="its memory is slower, though its clock is not: check its memory errors"
            )
    slowdown = slowdown_reasons.between(slowdown_reasons.typical([other.reading for other in others]), own.reading)
    if slowdown.reason in _OF_THE_CLOCK:
        return slowdown
    if (lower := _memory_clock(own, others)) is not None:
        return lower
    return (_host(own, others, waits=True) if own.launch_bound else None) or slowdown


def _link(own: Traits, others: Sequence[Traits]) -> Why | None:
    known = [other.link for other in others if other.link is not None]
    if own.link is None or not known or own.link >= (usual := mode(known)):
        return None
    return Why(reason=Reason.LINK, words=f"its link is {_pcie(own.link)}, that of its siblings {_pcie(usual)}")


def _pcie(link: tuple[int, int]) -> str:
    return f"PCIe generation {link[0]} with {link[1]} lanes"


def _host(own: Traits, others: Sequence[Traits], *, waits: bool = False) -> Why | None:
    cores = [other.cores for other in others if other.cores]
    if own.cores and cores and own.cores != mode(cores):
        words = f"the GPU is attached to cores {_span(own.cores)} of the host, most siblings to {_span(mode(cores))}"
        return Why(reason=Reason.HOST, words=words)
    return Why(reason=Reason.HOST, words="it waits for the host, which enqueues work too slowly") if waits else None


def _span(cores: Sequence[int]) -> str:
    return str(cores[0]) if len(cores) == 1 else f"{cores[0]} to {cores[-1]}"


def _memory_clock(own: Traits, others: Sequence[Traits]) -> Why | None:
    usual = slowdown_reasons.median_of(other.memory_clock_mhz for other in others)
    if own.memory_clock_mhz is None or usual is None or own.memory_clock_mhz >= usual * (1 - LEAST_FALL):
        return None
    fall = 1 - own.memory_clock_mhz / usual
    return Why(reason=Reason.MEMORY, words=f"its memory clock is {fall:.1%} lower")
