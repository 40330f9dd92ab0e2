"""Meanings of the driver's error numbers (Xid), after NVIDIA's documentation. No number is ignored."""

import enum
from collections.abc import Collection
from typing import Final


class XidKind(enum.StrEnum):
    """Kinds of Xids. Each value is the meaning in words."""

    APPLICATION = "caused by an application"
    MEMORY = "memory was repaired"
    RESET = "fault of the GPU"
    MACHINE = "the GPU was lost"
    LINK = "fault of NVLink"
    FOLLOWS = "follows another error"
    SUSPECT = "unknown to gpubench, so the GPU gets WARN"


_NUMBERS: Final = {
    XidKind.MEMORY: (63, 92, 94),
    XidKind.APPLICATION: (8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 60, 68, 69, 80),
    XidKind.RESET: (46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    XidKind.MACHINE: (79,),
    XidKind.LINK: (74, *range(144, 151)),
    XidKind.FOLLOWS: (45,),
}
_KINDS: Final = {number: kind for kind, numbers in _NUMBERS.items() for number in numbers}

HARDWARE: Final = frozenset({XidKind.RESET, XidKind.MACHINE, XidKind.LINK})
"""Kinds of Xids that are a fault of the hardware, or leave it unusable: verdict FAIL. All others: WARN."""
ENDS_USE: Final = frozenset({XidKind.RESET, XidKind.MACHINE})
"""Kinds of Xids after which nothing more may run on the GPU."""


_NAMES: Final = {
    13: "exception of the graphics engine",
    31: "memory page fault",
    48: "double-bit memory error",
    62: "microcontroller halted",
    63: "memory row remapped",
    64: "memory row not remapped",
    74: "NVLink error",
    79: "fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP firmware timed out",
    120: "GSP firmware error",
}


def described(number: int) -> str:
    """Return an Xid in words, with its name if it is a common one: "Xid 79 (fallen off the bus): the GPU was lost"."""
    name = f" ({_NAMES[number]})" if number in _NAMES else ""
    return f"Xid {number}{name}: {kind(number)}"


def kind(number: int) -> XidKind:
    """Return the kind of an Xid, given its number: SUSPECT for an unknown one."""
    return _KINDS.get(number, XidKind.SUSPECT)


def roots(numbers: Collection[int]) -> tuple[int, ...]:
    """Return the distinct Xids in the given order, without XidKind.FOLLOWS. If all are of that kind, return all."""
    distinct = tuple(dict.fromkeys(numbers))
    own = tuple(number for number in distinct if kind(number) is not XidKind.FOLLOWS)
    return own or distinct
