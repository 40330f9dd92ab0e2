"""Which GPU is too hot to continue: at its limit for ten seconds. Pure.

    once a second: temperature, and degrees left until it slows itself down ──▶ over the limit? ──▶ since when ──▶ why

The limit is the GPU's own (T.Limit, or a threshold on older boards), and the requested one. Only the load is ended.
"""

from typing import Final

import msgspec

HELD_S: Final = 10.0
"""For which a GPU must be at its limit: a moment at it is how a GPU under load holds its temperature."""


class TemperatureStop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a GPU is too hot. celsius: what a person asked for; None: the GPU's own limit alone."""

    celsius: int | None = None
    held_s: float = HELD_S


class Thermometer:
    """Follows the GPUs of a run."""

    def __init__(self, stop: TemperatureStop) -> None:
        self._stop = stop
        self._since_ns: dict[str, int] = {}
        self._told: set[str] = set()

    def too_hot(self, uuid: str, now_ns: int, temperature_c: int | None, margin_c: int | None) -> str:
        """Why a GPU must stop; empty where it may continue, and after the first report. None: not read.

        margin_c: degrees left until the GPU slows itself down.
        """
        limit = self._reached(temperature_c, margin_c)
        if not limit:
            self._since_ns.pop(uuid, None)
            return ""
        since_ns = self._since_ns.setdefault(uuid, now_ns)
        if uuid in self._told or now_ns - since_ns < self._stop.held_s * 1e9:
            return ""
        self._told.add(uuid)
        at = "" if temperature_c is None else f", {temperature_c} degrees C"
        return f"too hot: for {self._stop.held_s:g} s at {limit}{at}; look at the cooling"

    def _reached(self, temperature_c: int | None, margin_c: int | None) -> str:
        """The limit that it is at, in words."""
        asked = self._stop.celsius
        if asked is not None and temperature_c is not None and temperature_c >= asked:
            return f"the {asked} degrees C of --max-temperature"
        if margin_c is not None and margin_c <= 0:
            return "the limit at which it slows itself down"
        return ""
