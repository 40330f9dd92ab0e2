"""Listens to the telemetry process, for tests of what it says."""

import select
import time
from collections.abc import Callable
from typing import Final

from orchestrator.sampling.telemetry import Telemetry
from protocol.messages import FromSampler

PATIENCE_S: Final = 20.0


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
