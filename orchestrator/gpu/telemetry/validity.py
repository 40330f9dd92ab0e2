"""Whether the result of a launch (measurement) is valid, by foreign processes and by its readings. Pure.

    foreign process ──contaminated──▶ Failure(CONTAMINATED): wait until it has left, measure again
    readings ──judge──▶ Failure(THROTTLED): cool down, measure again        None: the result counts

A software power cap does not count as throttling (docs/method-reference.md, "Throttling").
"""

from typing import Final

from orchestrator.gpu.telemetry import clock_events
from orchestrator.gpu.telemetry.readings import Readings
from protocol.failure import Category, Failure, Phase

LIMIT: Final = 0.01
"""Fraction of the measured time with a slowed-down GPU above which a result does not count."""


def throttled(readings: Readings) -> bool | None:
    """Whether the GPU was slowed down for a larger fraction of the measured time than LIMIT. None if unknown."""
    return None if readings.slowdown is None else readings.slowdown > LIMIT


def judge(readings: Readings) -> Failure | None:
    """Return the failure of a launch whose GPU was throttled; None if it was not, or if that is unknown."""
    if readings.slowdown is None or not throttled(readings):
        return None
    evidence = {
        "thermal_violation": readings.thermal_violation,
        "slowdown_samples": readings.slowdown_samples,
        "temperature_max_c": readings.temperature_max_c,
        "sm_clock_mhz": readings.sm_clock_mhz,
    }
    return Failure(
        category=Category.THROTTLED,
        message=f"the GPU was slowed down for {readings.slowdown * 100:.0f}% of the measured time "
        f"({_why(readings)}), the limit is {LIMIT * 100:g}%",
        phase=Phase.MEASURE,
        evidence={name: f"{value:g}" for name, value in evidence.items() if value is not None},
    )


def contaminated(process: str) -> Failure:
    """Return the failure of a launch during which `process` (text, "PID 4711 python3") also computed on the GPU."""
    return Failure(category=Category.CONTAMINATED, message=f"{process} also used the GPU", phase=Phase.MEASURE)


def _why(readings: Readings) -> str:
    reasons = clock_events.reason_names([(readings.reasons or 0) & clock_events.SLOWDOWN]) or ("for temperature",)
    hottest = "" if readings.temperature_max_c is None else f", {readings.temperature_max_c} °C"
    return ", ".join(reasons) + hottest
