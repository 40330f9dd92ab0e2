"""How long to wait for a GPU that is busy or whose memory is not freed, before it is quarantined. Pure."""

import enum
from dataclasses import dataclass
from typing import Final

from protocol.messages import Sample

PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Block:
    """A GPU that waits. until: monotonic seconds. limit_bytes: memory in use below which it is free."""

    until: float
    limit_bytes: int | None


class BlockOutcome(enum.Enum):
    """The decision about a GPU that waits."""

    WAITS = enum.auto()
    FREE = enum.auto()
    GIVEN_UP = enum.auto()


def block(limit_bytes: int | None, now: float) -> Block:
    """Begin to wait now. limit_bytes: None where the memory in use says nothing."""
    return Block(until=now + PATIENCE_S, limit_bytes=limit_bytes)


def given_up(foreign: str) -> str:
    """Why a GPU is quarantined that waited too long."""
    what = f"{foreign} computes on it, and" if foreign else "its memory was not given back, and"
    return f"{what} it was waited for {PATIENCE_S:.0f} s"


def judge(waits: Block, foreign: str, newest: Sample | None, now: float) -> BlockOutcome:
    """Decide about a GPU that waits. foreign: the other process on it, empty for none. newest: its newest sample."""
    used = None if newest is None else newest.memory_used_bytes
    taken = waits.limit_bytes is not None and used is not None and used > waits.limit_bytes
    if not foreign and not taken:
        return BlockOutcome.FREE
    return BlockOutcome.GIVEN_UP if now >= waits.until else BlockOutcome.WAITS
