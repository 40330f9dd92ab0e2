"""Decide how long to wait for a GPU that is busy with other processes before it is quarantined. Pure."""

import enum
from dataclasses import dataclass
from typing import Final

from protocol.messages import Sample

PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Block:
    """A busy GPU that launches wait for. until: monotonic seconds. limit_bytes: free with at most this used memory."""

    until: float
    limit_bytes: int | None


class BlockOutcome(enum.Enum):
    """The decision about a busy GPU: wait on, it is free, or it is quarantined (GIVEN_UP)."""

    WAITS = enum.auto()
    FREE = enum.auto()
    GIVEN_UP = enum.auto()


def block(limit_bytes: int | None, now: float) -> Block:
    """Begin to wait for a busy GPU at `now` (seconds). limit_bytes: see Block; None: memory in use is not looked at."""
    return Block(until=now + PATIENCE_S, limit_bytes=limit_bytes)


def given_up(foreign: str) -> str:
    """Return the reason to quarantine a GPU that stayed busy. foreign: the other process, empty for none."""
    what = f"{foreign} still uses the GPU" if foreign else "its memory was not freed"
    return f"{what} after {PATIENCE_S:.0f} s"


def judge(waits: Block, foreign: str, newest: Sample | None, now: float) -> BlockOutcome:
    """Decide about a busy GPU. foreign: the other process on the GPU, empty for none. newest: its newest sample."""
    used = None if newest is None else newest.memory_used_bytes
    taken = waits.limit_bytes is not None and used is not None and used > waits.limit_bytes
    if not foreign and not taken:
        return BlockOutcome.FREE
    return BlockOutcome.GIVEN_UP if now >= waits.until else BlockOutcome.WAITS
