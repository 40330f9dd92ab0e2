"""Decide how long to wait for a GPU that is busy with other processes before it is quarantined. Pure."""

import enum
from dataclasses import dataclass
from typing import Final

from protocol.messages import Sample

PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Block:
    """A busy GPU that launches wait for. until: end of the wait, in seconds of the loop's clock.

    limit_bytes: the GPU is free if at most this memory is used; None: the used memory does not matter.
    """

    until: float
    limit_bytes: int | None


class BlockOutcome(enum.Enum):
    """The decision about a busy GPU. WAITS: wait on. FREE: use it. GIVEN_UP: quarantine it."""

    WAITS = enum.auto()
    FREE = enum.auto()
    GIVEN_UP = enum.auto()


def block(limit_bytes: int | None, now: float) -> Block:
    """Return a Block for a busy GPU: launches wait for it PATIENCE_S seconds, from `now` on.

    now: in seconds of the loop's clock. limit_bytes: the GPU is free if at most this memory is used; None: the used
    memory does not matter.
    """
    return Block(until=now + PATIENCE_S, limit_bytes=limit_bytes)


def given_up(foreign: str) -> str:
    """Return the reason, as text, to quarantine a busy GPU. foreign: the process on it; "": its memory is not freed."""
    what = f"{foreign} still uses the GPU" if foreign else "its memory was not freed"
    return f"{what} after {PATIENCE_S:.0f} s"


def judge(waits: Block, foreign: str, newest: Sample | None, now: float) -> BlockOutcome:
    """Return FREE if no other process is on the GPU and its used memory is at most `waits.limit_bytes`.

    Else return GIVEN_UP if `waits.until` has come, and WAITS before. foreign: the other process on the GPU, or "".
    newest: newest sample of the GPU; without one, or if its used memory is unknown, the memory counts as free. now: in
    seconds of the same clock as `waits.until`.
    """
    used = None if newest is None else newest.memory_used_bytes
    taken = waits.limit_bytes is not None and used is not None and used > waits.limit_bytes
    if not foreign and not taken:
        return BlockOutcome.FREE
    return BlockOutcome.GIVEN_UP if now >= waits.until else BlockOutcome.WAITS
