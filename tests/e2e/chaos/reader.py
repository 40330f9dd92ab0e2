r"""Reads a journal by its documented format alone. Shares no code with the product: one mistake cannot hide in both.

file    "gpubench journal 1\n", then records
record  length (u32)  CRC of the body (u32)  sequence number (u64)  CRC of these three (u32)  │  body, MessagePack
"""

import struct
import zlib
from pathlib import Path
from typing import Any

import msgpack

Record = dict[str, Any]

_MAGIC = b"gpubench journal 1\n"
_PREFIX = struct.Struct("<IIQI")


class DamagedError(Exception):
    """The journal is not what its format says."""


def read(path: Path, *, torn: bool = False) -> list[Record]:
    """All records, as maps. torn: the last one may be incomplete, as while a run goes on. Raises DamagedError."""
    data = path.read_bytes()
    if torn and _MAGIC.startswith(data[: len(_MAGIC)]) and len(data) <= len(_MAGIC):
        return []
    if not data.startswith(_MAGIC):
        raise DamagedError(f"{path.name} does not begin like a journal")
    records: list[Record] = []
    offset = len(_MAGIC)
    while offset < len(data):
        body = _body(data, offset, len(records))
        if body is None:
            if torn:
                break
            raise DamagedError(f"{path.name}: record {len(records)} at byte {offset} of {len(data)} is damaged")
        records.append(msgpack.unpackb(body))
        offset += _PREFIX.size + len(body)
    return records


def _body(data: bytes, offset: int, sequence: int) -> bytes | None:
    if len(data) < offset + _PREFIX.size:
        return None
    length, crc, number, check = _PREFIX.unpack_from(data, offset)
    if zlib.crc32(data[offset : offset + _PREFIX.size - 4]) != check or number != sequence:
        return None
    body = data[offset + _PREFIX.size : offset + _PREFIX.size + length]
    return body if len(body) == length and zlib.crc32(body) == crc else None
