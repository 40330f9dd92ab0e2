"""Starts the telemetry process and listens to it, for tests of what it says."""

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from orchestrator.gpu.telemetry.client import Telemetry
from protocol.messages import Digest, FromSampler
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


def digest(message: FromSampler) -> bool:
    """Whether it is a digest."""
    return isinstance(message, Digest)


def hear(telemetry: Telemetry, wanted: Callable[[FromSampler], bool]) -> FromSampler:
    """The first message that is wanted."""
    poller = select.poll()
    poller.register(telemetry, select.POLLIN)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        poller.poll(1000)
        for message in telemetry.receive():
            if wanted(message):
                return message
    raise AssertionError("the telemetry process did not say it")
