"""Changes inputs: byte by byte, MessagePack also value by value, because flipped bytes seldom leave a message whole."""

import random
from typing import Any, Final

import msgpack

MARKED: Final = "marked"
ELEMENT: Final = f"</script>\"'><b {MARKED}='1'>"
"""A text that would become an element, with an attribute that no other has."""
VALUES: Final = (
    *(None, True, False, 0, 1, -1, 255, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 0.5, 1e308, 5e-324, -1e308, float("nan"), float("inf")),
    *("", "\0", ELEMENT, "\x1b[31mred", "../../x", "=1+1", "\u202e", "x" * 300),
    *(b"", b"\0" * 4, b"\xff" * 8, [], {}),
)
"""What programs trip over: ends of ranges, what is not finite, what steers pages, terminals or paths, and nothing."""

_DEPTH: Final = 100


def of_bytes(data: bytes, chance: random.Random) -> bytes:
    """One to four bytes or short stretches changed, cut, doubled, moved or put in."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randint(0, len(changed))
        length = chance.randint(1, 8)
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 2:
                del changed[at : at + length]
            case 3:
                changed[at:at] = chance.choice((b"\0", b"\xff")) * length
            case _:
                source = chance.randint(0, len(changed))
                changed[at:at] = changed[source : source + length]
    return bytes(changed)


def of_values(data: bytes, chance: random.Random) -> bytes:
    """MessagePack with one or two of its values replaced, left out or doubled; other bytes as they are."""
    try:
        value: Any = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError):
        return data
    for _ in range(chance.choice((1, 1, 2))):
        value = _changed(value, chance, value)
    try:
        return bytes(msgpack.packb(value))
    except (ValueError, TypeError, OverflowError):
        return data


def _changed(value: Any, chance: random.Random, whole: Any, depth: int = 0) -> Any:
    """The value with a change at one place somewhere within. whole: where values of others are taken from."""
    if depth < _DEPTH and isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        match chance.randrange(10):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return {**value, chance.choice(("extra", "", *value)): _any(chance, whole)}
            case _:
                return {**value, key: _changed(value[key], chance, whole, depth + 1)}
    if depth < _DEPTH and isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        match chance.randrange(10):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value[:at], value[at], *value[at:]]
            case 2:
                other = chance.randrange(len(value))
                return [*value[:at], value[other], *value[at + 1 :]]
            case _:
                return [*value[:at], _changed(value[at], chance, whole, depth + 1), *value[at + 1 :]]
    if isinstance(value, bytes) and chance.random() < 0.7:
        return of_bytes(value, chance)
    if isinstance(value, int | float) and chance.random() < 0.3:
        return value + chance.choice((-1, 1, 7, 1000))
    return _any(chance, whole)


def _any(chance: random.Random, whole: Any) -> Any:
    """A value that somebody trips over, or one that stands elsewhere."""
    if chance.random() < 0.6:
        return chance.choice(VALUES)
    while isinstance(whole, dict | list) and whole and chance.random() < 0.9:
        whole = chance.choice(list(whole.values()) if isinstance(whole, dict) else whole)
    return whole
