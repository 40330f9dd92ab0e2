"""What a launch and its JAX process send each other, as MessagePack."""

from typing import Final

import msgspec

from protocol.cell import DeviceKind, Precision
from protocol.result import CallProfile
from worker.timing import TimedBlock


class Array(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array in row-major order. dtype: as numpy and torch both call it."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator and its inputs. parent: PID of the launch. window_s: of each timed window. copies: rotated."""

    parent: int
    operator: str
    kind: DeviceKind
    precision: Precision
    window_s: float
    copies: int
    inputs: tuple[Array, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured, or why JAX cannot compute it here. series: as in ShapeResult. block: of the pure times."""

    unsupported: str = ""
    output: Array | None = None
    series: dict[str, bytes] = {}
    block: TimedBlock | None = None
    profile: CallProfile = CallProfile()


VARIABLES: Final = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # three quarters of the GPU's memory otherwise
    "TF_CPP_MIN_LOG_LEVEL": "1",
}
PLATFORMS: Final = {DeviceKind.CPU: "cpu", DeviceKind.CUDA: "cuda"}
"""Kind of device → JAX_PLATFORMS, so that JAX never falls back to the CPU."""
