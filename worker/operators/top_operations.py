"""The operations of a call that take the longest. Without torch."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from protocol.result import OperationTime

_SHOWN: Final = 3
_LONGEST_NAME: Final = 120


def longest(events: Iterable[tuple[str, float]]) -> tuple[OperationTime, ...]:
    """Sum the (name, milliseconds) of `events` by name. Return the three operations with most time, longest first.

    Names are cut to 120 characters first, so that longer names with the same beginning count as one operation.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for name, time_ms in events:
        found[name[:_LONGEST_NAME]].append(time_ms)
    rows = (OperationTime(name=name, calls=len(times), time_ms=sum(times)) for name, times in found.items())
    return tuple(sorted(rows, key=lambda row: -row.time_ms)[:_SHOWN])
