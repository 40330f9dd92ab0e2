"""An immutable mapping. A changed copy is cheap: it shares a base and copies only the changes."""

import math
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_LEAST: Final = 64


class Layered(Mapping[K, V]):
    """An immutable mapping that keeps the order of insertion, like a dict. `but` returns a changed copy."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, base: Mapping[K, V], changes: Mapping[K, V] | None = None, added: int = 0) -> None:
        """Build the mapping. changes: override and extend `base`. added: number of keys of changes that base lacks."""
        self._base = base
        self._changes = changes or {}
        self._length = len(base) + added

    def but(self, key: K, value: V) -> "Layered[K, V]":
        """Return a copy in which `key` has this value."""
        added = len(self) - len(self._base) + (key not in self._changes and key not in self._base)
        changes = {**self._changes, key: value}
        if len(changes) > max(_LEAST, math.isqrt(len(self._base))):
            return Layered({**self._base, **changes})
        return Layered(self._base, changes, added)

    def thawed(self) -> "Layered[K, V]":
        """Return a copy whose `but` changes and returns the copy itself. For a caller that needs no earlier version."""
        return _Thawed(dict(self))

    def frozen(self) -> "Layered[K, V]":
        """Return an immutable mapping again, after `thawed`. Do not change the thawed copy afterwards."""
        return Layered(self._base, self._changes, len(self) - len(self._base))

    def __getitem__(self, key: K) -> V:
        return self._changes[key] if key in self._changes else self._base[key]

    def __iter__(self) -> Iterator[K]:
        yield from self._base
        yield from (key for key in self._changes if key not in self._base)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Layered({dict(self)!r})"


class _Thawed(Layered[K, V]):
    __slots__ = ()
    _base: dict[K, V]

    def but(self, key: K, value: V) -> Layered[K, V]:
        self._base[key] = value
        return self

    def __getitem__(self, key: K) -> V:
        return self._base[key]

    def __len__(self) -> int:
        return len(self._base)
