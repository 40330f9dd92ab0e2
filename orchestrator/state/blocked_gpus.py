"""How long a GPU waits that cannot be measured on now: somebody else computes on it, or its memory stays taken. Pure.

The other GPUs go on meanwhile. What does not go away within PATIENCE_S takes the GPU out of the run, so that the run
ends; `resume` gives it another chance.
"""

import enum
from dataclasses import dataclass
from typing import Final

from protocol.messages import Sample

PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Block:
    """A GPU waits. until: monotonic seconds at which it is given up. limit_bytes: memory in use when it is free."""

    until: float
    limit_bytes: int | None


class BlockOutcome(enum.Enum):
    """What is to become of a GPU that waits."""

    WAITS = enum.auto()
    FREE = enum.auto()
    GIVEN_UP = enum.auto()


def block(limit_bytes: int | None, now: float) -> Block:
    """A wait that begins now. limit_bytes: None where the memory in use says nothing."""
    return Block(until=now + PATIENCE_S, limit_bytes=limit_bytes)


def given_up(foreign: str) -> str:
    """Why a GPU is taken out that waited for too long."""
    what = f"{foreign} computes on it, and" if foreign else "its memory was not given back, and"
    return f"{what} it was waited for {PATIENCE_S:.0f} s"


def judge(waits: Block, foreign: str, newest: Sample | None, now: float) -> BlockOutcome:
    """foreign: who else computes on the GPU now, empty for nobody. newest: its newest sample, None without any."""
    used = None if newest is None else newest.memory_used_bytes
    taken = waits.limit_bytes is not None and used is not None and used > waits.limit_bytes
    if not foreign and not taken:
        return BlockOutcome.FREE
    return BlockOutcome.GIVEN_UP if now >= waits.until else BlockOutcome.WAITS
