"""Series of measured times in milliseconds as bytes: float32, little endian (`numpy.frombuffer(data, "<f4")`)."""

import array
import math
import sys
from collections.abc import Iterable

from protocol.errors import ProtocolError


def pack(values: Iterable[float]) -> bytes:
    """Return `values` (milliseconds) as float32 bytes. Raises ProtocolError if a value is not finite."""
    packed = array.array("f", values)
    if not all(map(math.isfinite, packed)):
        raise ProtocolError("a series of times holds a value that is not finite")
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(data: bytes) -> list[float]:
    """Return the values (milliseconds) in `data`, as written by `pack`. ProtocolError: truncated, or not all finite."""
    unpacked = array.array("f")
    if len(data) % unpacked.itemsize:
        raise ProtocolError(f"a series of times is {len(data)} bytes long, not a multiple of {unpacked.itemsize}")
    unpacked.frombytes(data)
    if sys.byteorder == "big":
        unpacked.byteswap()
    values = unpacked.tolist()
    if not math.isfinite(sum(values)):  # float32 never sum to infinity in a double; NaN and infinity remain
        raise ProtocolError("a series of times holds a value that is not finite")
    return values


def has_sign(data: bytes) -> bool:
    """Return True if any value in `data`, as written by `pack`, is negative or -0.0."""
    return not data[3::4].isascii()
