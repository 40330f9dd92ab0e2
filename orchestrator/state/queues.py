"""The rest of a queue after its first launches were taken, as a view: to copy long queues would be slow. Pure."""

from collections.abc import Iterator, Sequence
from operator import eq
from typing import TypeVar, overload

T = TypeVar("T")


class Rest(Sequence[T]):  # noqa: PLW1641  # no hash: it equals tuples and lists, which hash in other ways
    """An immutable view of `items` from index `begin` on: a queue whose first launches were taken."""

    __slots__ = ("_begin", "_items")

    def __init__(self, items: tuple[T, ...], begin: int) -> None:
        self._items, self._begin = items, begin

    def __len__(self) -> int:
        return len(self._items) - self._begin

    def __iter__(self) -> Iterator[T]:
        return map(self._items.__getitem__, range(self._begin, len(self._items)))

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        within = range(self._begin, len(self._items))[at]
        return self._items[within] if isinstance(within, int) else tuple(map(self._items.__getitem__, within))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __repr__(self) -> str:
        return repr(tuple(self))


def without(queue: Sequence[T], item: T) -> Sequence[T]:
    """Return the queue without the first occurrence of `item`: a view if it is the queue's first item, else a copy.

    Raises ValueError if the queue lacks `item`, IndexError if the queue is empty.
    """
    if queue[0] == item:
        return Rest(queue._items, queue._begin + 1) if isinstance(queue, Rest) else Rest(tuple(queue), 1)
    at = queue.index(item)
    return (*queue[:at], *queue[at + 1 :])
