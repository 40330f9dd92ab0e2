"""Messages between a launch and its JAX process, each followed by the bytes of its arrays.

length of the message │ message (protocol/codec.py) │ array │ array │ …
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from protocol import codec
from protocol.cell import DeviceKind, Precision
from protocol.result import CallProfile
from worker.timing import TimedBlock

_LENGTH: Final = struct.Struct("<Q")


class Array(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array in row-major order. dtype: its name in both numpy and torch. size: in bytes."""

    shape: tuple[int, ...]
    dtype: str
    size: int


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to time an operator in JAX. Its message is followed by the bytes of `arrays`, the inputs.

    parent: PID of the launch. operator: key of FUNCTIONS in functions.py. kind: of the device to use. window_s:
    approximate seconds of each series of 5 to 2000 timed calls (or rounds of calls). copies: number of copies of the
    inputs, used in turn.
    """

    parent: int
    operator: str
    kind: DeviceKind
    precision: Precision
    window_s: float
    copies: int
    arrays: tuple[Array, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times and output of an operator in JAX, forward pass only.

    unsupported: why JAX cannot run here; then the other fields are empty. Else "". arrays: one element, the
    output. series: name → milliseconds of a call, packed by protocol.floats. "host": until the call returned. "real":
    until the idle device had finished it. "pure": mean in each round of calls back to back. block: timed block of all
    rounds of "pure". profile: of one call in addition to the timed ones.
    """

    unsupported: str = ""
    arrays: tuple[Array, ...] = ()
    series: dict[str, bytes] = {}
    block: TimedBlock | None = None
    profile: CallProfile = CallProfile()


VARIABLES: Final = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # JAX would take three quarters of the GPU's memory
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # the user's cache would shorten the compile time
}
PLATFORMS: Final = {DeviceKind.CPU: "cpu", DeviceKind.CUDA: "cuda"}
"""Kind of device → value of the variable JAX_PLATFORMS. It keeps JAX from falling back to the CPU."""


def joined(message: Request | Answer, contents: Sequence[bytes]) -> bytes:
    """Return the bytes to send: the encoded message, then its arrays. contents: bytes of each array, in order."""
    head = codec.encode(message)
    return b"".join((_LENGTH.pack(len(head)), head, *contents))


def separated(data: bytes) -> tuple[bytes, memoryview]:
    """Split the bytes that `joined` returned into the encoded message and the bytes of all its arrays."""
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    return data[_LENGTH.size : end], memoryview(data)[end:]


def contents(arrays: Sequence[Array], data: memoryview) -> Iterator[memoryview]:
    """Yield the bytes of each of `arrays`, in order. data: the bytes of all arrays, one after the other."""
    begin = 0
    for array in arrays:
        yield data[begin : begin + array.size]
        begin += array.size
