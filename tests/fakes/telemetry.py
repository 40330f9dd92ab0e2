"""Starts the telemetry process and receives its messages."""

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from orchestrator.gpu.telemetry.client import Telemetry
from protocol.messages import DeviceFree
from tests.fakes.nvml import uuid

PATIENCE_S: Final = 20.0


@contextmanager
def sampling(folder: Path, *gpus: int, interval_ms: int = 20) -> Iterator[Telemetry]:
    """Telemetry of some GPUs of the fake, stopped at the end."""
    telemetry = Telemetry.start(map(uuid, gpus), folder, interval_ms)
    try:
        yield telemetry
    finally:
        telemetry.stop()


Message = TypeVar("Message")


def hear(telemetry: Telemetry, kind: type[Message], wanted: Callable[[Message], bool] = lambda _: True) -> Message:
    """The first message of a kind that is wanted."""
    poller = select.poll()
    poller.register(telemetry, select.POLLIN)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        poller.poll(1000)
        for message in telemetry.receive():
            if isinstance(message, kind) and wanted(message):
                return message
    raise AssertionError(f"the telemetry process sent no {kind.__name__}")


def free(telemetry: Telemetry, gpu: int) -> DeviceFree:
    """The answer whether a GPU of the fake is free."""
    return hear(telemetry, DeviceFree, lambda message: message.uuid == uuid(gpu))
