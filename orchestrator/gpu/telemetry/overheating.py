"""Detect GPUs that are too hot to continue: at their temperature limit for ten seconds.

    HeatWatch, once a second: temperature, margin to slowdown ──▶ Thermometer (pure): limit reached, since when ──▶ why

The limit is the GPU's own (T.Limit, or a threshold on older boards), and the requested one. The orchestrator ends the
load on this GPU and quarantines it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from orchestrator.gpu.health.reader import QUESTIONS
from orchestrator.gpu.nvml import Nvml
from orchestrator.gpu.nvml_errors import NvmlError
from protocol.messages import Sample, TooHot

HELD_S: Final = 10.0
"""Seconds at the limit after which a GPU is too hot. Shorter times are normal under load."""
_LOOK_NS: Final = 1_000_000_000


class TemperatureStop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rule for a GPU that is too hot: at one of its limits for `held_s` seconds in a row.

    The limits are the GPU's own slowdown limit and, unless None, the temperature `celsius`.
    """

    celsius: int | None = None
    held_s: float = HELD_S


class Thermometer:
    """Follows the temperatures of a run's GPUs, to see which of them stay at a limit."""

    def __init__(self, stop: TemperatureStop) -> None:
        self._stop = stop
        self._since_ns: dict[str, int] = {}
        self._reported: set[str] = set()

    def too_hot(self, uuid: str, now_ns: int, temperature_c: int | None, margin_c: int | None) -> str:
        """Return why a GPU must stop, as text; "" if it may continue, or if an earlier call returned the reason.

        now_ns: monotonic. temperature_c, margin_c (degrees left until the GPU slows itself down): None if not read.
        """
        limit = self._reached(temperature_c, margin_c)
        if not limit:
            self._since_ns.pop(uuid, None)
            return ""
        since_ns = self._since_ns.setdefault(uuid, now_ns)
        if uuid in self._reported or now_ns - since_ns < self._stop.held_s * 1e9:
            return ""
        self._reported.add(uuid)
        at = "" if temperature_c is None else f", {temperature_c} °C"
        return f"too hot: for {self._stop.held_s:g} s at {limit}{at}. Check the cooling"

    def _reached(self, temperature_c: int | None, margin_c: int | None) -> str:
        requested = self._stop.celsius
        if requested is not None and temperature_c is not None and temperature_c >= requested:
            return f"the {requested} °C of --max-temperature"
        if margin_c is not None and margin_c <= 0:
            return "its slowdown limit"
        return ""


class HeatWatch:
    """Watches the temperature of GPUs. hot: UUID → simulated degrees Celsius, used instead of the real ones."""

    def __init__(self, nvml: Nvml, stop: TemperatureStop, hot: Mapping[str, int]) -> None:
        self._nvml = nvml
        self._thermometer = Thermometer(stop)
        self._hot = hot
        self._next_ns = 0

    def look(self, newest: Mapping[str, Sample], now_ns: int) -> Iterator[TooHot]:
        """Yield the GPUs that must stop, each once in a run. newest: UUID → newest sample. now_ns: monotonic.

        Does nothing if the last look was less than a second ago.
        """
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + _LOOK_NS
        for uuid, sample in newest.items():
            if reason := self._thermometer.too_hot(uuid, now_ns, sample.temperature_c, self._margin_c(uuid)):
                yield TooHot(uuid=uuid, reason=reason, at_ns=now_ns)

    def _margin_c(self, uuid: str) -> int | None:
        with contextlib.suppress(NvmlError):
            margin_c = self._nvml.ask(uuid, QUESTIONS["gpu_margin_c"])
            really_c = self._nvml.read(uuid).temperature_c if uuid in self._hot else None
            return margin_c if really_c is None else margin_c - (self._hot[uuid] - really_c)
        return None
