"""Append-only files of the telemetry process, readable after any crash.

    length (4 bytes) · CRC-32 (4 bytes) · body        … and again

Little-endian. A frame that was not written to its end is cut off when the file is opened again. A frame with a wrong
checksum is skipped.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orchestrator.errors import RunFolderError
from orchestrator.system import safe_read

_FRAME: Final = struct.Struct("<II")


class FrameFile:
    """A file of frames, opened for appending. The constructor raises OSError if opening fails.

    It cuts off an unfinished frame at the end: whatever follows the last one that the function `frames` yields.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._size = max((end for end, _ in frames(safe_read.read(path))), default=0)
            os.ftruncate(self._fd, self._size)
        except OSError:
            os.close(self._fd)
            raise

    @property
    def size(self) -> int:
        """Size of all whole frames in bytes."""
        return self._size

    def append(self, body: bytes) -> None:
        """Write one frame, whole or not at all. Raises OSError if writing fails."""
        frame = _FRAME.pack(len(body), zlib.crc32(body)) + body
        written = 0
        try:
            while written < len(frame):
                written += os.write(self._fd, frame[written:])  # a full disk first shortens a write, then refuses
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(frame)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def contents(path: Path) -> bytes:
    """Return the bytes of a file of frames; b"" if it does not exist. Raises RunFolderError if it cannot be read."""
    try:
        return safe_read.read(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RunFolderError(
            f"{path}: cannot be read: {error.strerror}. Restore the file, or remove it: the report then lacks its "
            "readings."
        ) from error


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each whole frame as (offset of its end, body). The body is b"" if its checksum is wrong.

    Ends at the first frame whose length is 0 or goes beyond `data`, whatever follows.
    """
    offset = 0
    while offset + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, offset)
        end = offset + _FRAME.size + length
        if length == 0 or end > len(data):
            return
        body = data[offset + _FRAME.size : end]
        yield end, body if zlib.crc32(body) == checksum else b""
        offset = end
