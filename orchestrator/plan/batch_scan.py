"""Search for the best batch size, called a scan (`-b auto`): the next size to try, and the result. Pure.

    1, 8 ──▶ memory per item ──▶ the largest that should fit ──▶ a fresh process verifies it
                   ▲                                                │ fits: is more possible?
                   └── line through the two largest that fit ◀──────┘ does not: between the two
    then every power of two below the largest: throughput by batch size

The largest size is exact to 1/32. Running out of memory is no failure in a scan. Any failure above a size that worked
counts as a limit.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Room
from protocol.failure import Category
from protocol.result import Result

SECOND: Final = 8
"""Second batch size to try, after 1. It is large enough to show how much memory an item takes."""
GROWTH: Final = 16
"""The predicted size is tried only up to this multiple of the largest size that worked."""
RESOLUTION: Final = 32
CREEP: Final = 8
"""If the predicted size fits, the next size is at least 1/CREEP larger, before it is rounded down and limited."""
_ROUND: Final = 8
_ROUND_FROM: Final = 64


class Figures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory and throughput at a batch size. peak_bytes: allocated on a GPU, resident set on a CPU device.

    items_per_second: mean over the measured time.
    """

    peak_bytes: int
    items_per_second: float


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A batch size and the result of trying it. launch: number of the launch that tried it.

    figures: memory and throughput if the size worked, else None. category: kind of failure if it did not, else None.
    """

    launch: int
    batch_size: int
    figures: Figures | None
    category: Category | None = None


def figures(result: Result) -> Figures:
    """Return the peak memory of a launch, and its mean throughput over all measured blocks."""
    seconds = sum(block.end_ns - block.start_ns for block in result.blocks) / 1e9
    iterations = sum(block.iterations for block in result.blocks)
    memory = result.memory
    return Figures(
        peak_bytes=memory.resident_bytes if memory.cold_allocated_bytes is None else memory.cold_allocated_bytes,
        items_per_second=result.items_per_iteration * iterations / max(seconds, 1e-9),
    )


def next_batch(tried: Sequence[Tried], room: Room) -> int | None:
    """Return the batch size to try next; None once the scan has ended. tried: in any order. room: limits for it."""
    if not tried:
        return 1
    working, unfit = _apart(tried)
    if not working:
        return None
    return _larger(working, unfit, room) or _on_the_curve(working)


def largest(tried: Iterable[Tried]) -> Tried | None:
    """Return the launch with the largest batch size below the smallest that failed; None if no size worked."""
    working, _ = _apart(tried)
    return working[-1] if working else None


def best(tried: Iterable[Tried]) -> Tried | None:
    """Return the launch of highest throughput among sizes below the smallest that failed; None if no size worked."""
    working, _ = _apart(tried)
    return max(working, key=lambda one: one.figures.items_per_second if one.figures else 0.0, default=None)


def bound(tried: Iterable[Tried], room: Room) -> str:
    """Return what limits the largest batch size; "" if no size worked or the scan has not ended.

    "memory", "failure: <category>": a larger size failed. "cap": room.largest is reached. "time": an iteration at a
    larger size would take longer than room.longest_s.
    """
    tried = tuple(tried)
    working, unfit = _apart(tried)
    if not working or next_batch(tried, room) is not None:
        return ""
    if unfit is not None:
        category = next(one.category for one in tried if one.batch_size == unfit)
        return "memory" if category is Category.OUT_OF_MEMORY else f"failure: {category}"
    return "cap" if working[-1].batch_size >= room.largest else "time"


def is_an_answer(tried: Sequence[Tried], category: Category) -> bool:
    """Whether a failed try of a batch size is a result of the scan (a limit of the size), not a failure of the cell.

    It is one if `category` is out of memory, or if any earlier try worked at a size below all sizes that have failed.
    tried: the earlier tries.
    """
    return category is Category.OUT_OF_MEMORY or largest(tried) is not None


def _apart(tried: Iterable[Tried]) -> tuple[list[Tried], int | None]:
    """Return (launches below the smallest size that failed, by ascending size; that size or None)."""
    unfit = min((one.batch_size for one in tried if one.figures is None), default=None)
    working = [one for one in tried if one.figures is not None and (unfit is None or one.batch_size < unfit)]
    return sorted(working, key=lambda one: one.batch_size), unfit


def _larger(working: Sequence[Tried], unfit: int | None, room: Room) -> int | None:
    now = working[-1].batch_size
    ceiling = _ceiling(working, unfit, room)
    if now >= ceiling or (unfit is not None and unfit - now <= max(1, now // RESOLUTION)):
        return None
    line = _predicted(working, room)
    if unfit is None:
        guess = max(line, now + max(1, now // CREEP))
    else:
        margin = (unfit - now) / CREEP  # a line that is wrong must not lead to the same end again and again
        guess = line if now + margin < line < unfit - margin else (now + unfit) // 2
    return min(_rounded(guess, now), ceiling)


def _ceiling(working: Sequence[Tried], unfit: int | None, room: Room) -> int:
    fastest = max(one.figures.items_per_second for one in working if one.figures is not None)
    in_time = int(min(fastest * room.longest_s, room.largest))
    return in_time if unfit is None else min(in_time, unfit - 1)


def _predicted(working: Sequence[Tried], room: Room) -> int:
    now = working[-1]
    if len(working) == 1:
        return SECOND
    before = working[-2]
    assert now.figures is not None
    assert before.figures is not None
    far = now.batch_size * GROWTH
    slope = (now.figures.peak_bytes - before.figures.peak_bytes) / (now.batch_size - before.batch_size)
    if room.memory_bytes is None or slope <= 0:
        return far
    return min(now.batch_size + int((room.memory_bytes - now.figures.peak_bytes) / slope), far)


def _rounded(size: int, above: int) -> int:
    """Return `size` rounded down to a multiple of 8, unless `size` < _ROUND_FROM or the result would be <= `above`."""
    rounded = size - size % _ROUND if size >= _ROUND_FROM else size
    return rounded if rounded > above else size


def _on_the_curve(working: Sequence[Tried]) -> int | None:
    known = {one.batch_size for one in working}
    size = 1
    while size < working[-1].batch_size:
        if size not in known:
            return size
        size *= 2
    return None
