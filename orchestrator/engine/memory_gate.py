"""Hold a device back until its memory is free: between the end of a process and the next launch (measurement).

    Gone ──admit──▶ AwaitFree ─▶ sampler ─▶ DeviceFree ──answered──▶ Passed

Without telemetry a device counts as free once its process is gone.
"""

import time
from dataclasses import dataclass
from typing import Final

from orchestrator.engine.launches.live import Gone
from orchestrator.gpu.telemetry.client import Telemetry
from protocol.cell import Device, DeviceKind
from protocol.messages import DeviceFree

TIMEOUT_S: Final = 30.0
TOLERANCE_BYTES: Final = 64 * 1024 * 1024
"""A device is free if it uses at most so much more memory than when the run began."""
_PATIENCE_S: Final = 5.0


@dataclass(frozen=True)
class Passed:
    """A device whose process is gone, and which no longer waits for its memory to become free.

    obstacle: why no launch may use the device now; empty if it is usable. teardown_ms: from the outcome on disk until
    the wait ended; 0 if there was no outcome on disk.
    """

    gone: Gone
    device: Device
    teardown_ms: float
    obstacle: str


class Gates:
    """Devices whose process is gone and that wait until their memory is free. As bool: whether any waits."""

    def __init__(self, devices: tuple[Device, ...]) -> None:
        self._devices = {device.uuid: device for device in devices}
        self._waiting: dict[str, Gone] = {}
        self._since: dict[str, float] = {}
        self._deaf = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def limit_bytes(self, uuid: str) -> int | None:
        """Return the used bytes up to which a device is free: use before the run + TOLERANCE_BYTES; None if unknown."""
        used = self._devices[uuid].memory_used_bytes
        return None if used is None else used + TOLERANCE_BYTES

    def admit(self, gone: Gone, telemetry: Telemetry | None, now: float) -> Passed | None:
        """Return a Passed for the device of a process that is gone; None if it must wait for its memory.

        Only GPUs wait, and only with telemetry. An unkillable process is an obstacle. now: seconds of the loop's clock.
        """
        device = gone.live.device
        if gone.unkillable:
            return self._pass(gone, "a process on it cannot be killed")
        limit_bytes = self.limit_bytes(device.uuid)
        if device.kind is not DeviceKind.CUDA or limit_bytes is None or telemetry is None or self._deaf:
            return self._pass(gone, "")
        try:
            telemetry.await_free(device.uuid, limit_bytes, TIMEOUT_S)
        except EOFError:  # the poller sees and reports its end
            return self._pass(gone, "")
        self._waiting[device.uuid] = gone
        self._since[device.uuid] = now
        return None

    def answered(self, answer: DeviceFree) -> Passed | None:
        """Return a Passed for the device of the sampler's answer, with an obstacle if its memory is not free.

        None if that device does not wait. Unreadable memory counts as free.
        """
        gone = self._waiting.pop(answer.uuid, None)
        if gone is None:
            return None
        if answer.free or answer.used_bytes is None:
            return self._pass(gone, "")
        used = f"{answer.used_bytes / 2**30:.1f} GiB"
        return self._pass(gone, f"its memory was not freed within {TIMEOUT_S:.0f} s ({used} in use)")

    def overdue(self, now: float) -> list[Passed]:
        """Give up waiting for overdue answers of the sampler: return a Passed without obstacle for each such device.

        If there is such a device, `admit` lets no device wait any more. now: seconds of the loop's clock.
        """
        silent = [uuid for uuid in self._waiting if now > self._since[uuid] + TIMEOUT_S + _PATIENCE_S]
        self._deaf = self._deaf or bool(silent)  # do not ask again: every cell would wait as long
        return [self._pass(self._waiting.pop(uuid), "") for uuid in silent]

    def open_all(self) -> list[Passed]:
        """Return a Passed without obstacle for each waiting device. None waits afterwards."""
        waiting, self._waiting = self._waiting, {}
        return [self._pass(gone, "") for gone in waiting.values()]

    def _pass(self, gone: Gone, obstacle: str) -> Passed:
        now_ns = time.monotonic_ns()
        teardown_ms = (now_ns - (gone.live.over_ns or now_ns)) / 1e6
        return Passed(gone, gone.live.device, teardown_ms, obstacle)
