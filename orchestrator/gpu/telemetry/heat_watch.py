"""Asks the GPUs of a run how hot they are, once a second, from within the telemetry process; overheating.py judges."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.gpu.health.reader import QUESTIONS
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import NvmlError
from orchestrator.gpu.telemetry.overheating import TemperatureStop, Thermometer
from protocol.messages import Sample, TooHot

_LOOK_NS: Final = 1_000_000_000


class HeatWatch:
    """Follows some GPUs. hot: UUID → degrees that one says in place of its own, a fault on purpose."""

    def __init__(self, nvml: Nvml, stop: TemperatureStop, hot: Mapping[str, int]) -> None:
        self._nvml = nvml
        self._thermometer = Thermometer(stop)
        self._hot = hot
        self._next_ns = 0

    def look(self, newest: Mapping[str, Sample], now_ns: int) -> Iterator[TooHot]:
        """GPUs that must not go on, each said once. newest: the newest sample of each. Not more than once a second."""
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + _LOOK_NS
        for uuid, sample in newest.items():
            if reason := self._thermometer.too_hot(uuid, now_ns, sample.temperature_c, self._margin_c(uuid)):
                yield TooHot(uuid=uuid, reason=reason, at_ns=now_ns)

    def _margin_c(self, uuid: str) -> int | None:
        """Degrees left until the GPU slows itself down; None where that cannot be read."""
        with contextlib.suppress(NvmlError):
            margin_c = self._nvml.ask(uuid, QUESTIONS["gpu_margin_c"])
            really_c = self._nvml.read(uuid).temperature_c if uuid in self._hot else None
            return margin_c if really_c is None else margin_c - (self._hot[uuid] - really_c)
        return None
