"""Check a measured time against the probes of the same device in the same run. Pure.

A plausible model does not compute faster than the gemm probe (matrix products) over its whole measurement. It does not
read its weights faster than the hbm probe (device memory) copies or adds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from orchestrator.figures.cells import ProbeMetrics
from orchestrator.figures.parts import SHARE_IN_DOUBT, UNSTEADY, Plausibility
from protocol.result import COUNTED_WITHIN_MS, SteadyState

NOT_COUNTED: Final = "operations were not counted: torch's counter failed, or does not see every kernel of this model"
TOO_LONG: Final = (
    "operations were not counted: that takes one more iteration, which is not run if one takes more than "
    f"{COUNTED_WITHIN_MS / 1000:g} s"
)
WRITTEN: Final = "operations are not counted for generation"
_MOST_PERCENT: Final = 100.0
_LEAST_COVERED: Final = 0.8
"""Least share of the measured blocks' time that their iterations take: the rest is one synchronisation per block."""


@dataclass(frozen=True)
class Reached:
    """Rates that probes measured on a device. tflops: precision → TFLOP/s. gb_per_sec: 1e9 bytes/s of device memory.

    doubts: precision → why its TFLOP/s may not be sustained.
    """

    tflops: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    gb_per_sec: float | None = None


@dataclass(frozen=True)
class Seen:
    """Facts of a result that decide whether its time is plausible.

    iteration_ms: mean. flops: operations of an iteration; None if not counted. model_bytes: of the weights. generates:
    whether it is text generation, whose operations are not counted. covered: sum of the iteration times / measured
    time, of the launch where this is least; None if unknown.
    """

    iteration_ms: float  # mean
    flops: float | None  # of an iteration
    model_bytes: int  # of the weights
    generates: bool = False  # text, whose operations are not counted
    covered: float | None = None  # least share of the measured time of a launch that its iterations add up to


def reached(probes: Sequence[ProbeMetrics], gpu_uuid: str) -> Reached:
    """Return the rates that probes measured on the device `gpu_uuid`. probes: those of all devices."""
    mine = [probe for probe in probes if probe.gpu_uuid == gpu_uuid]
    tflops = {probe.precision: probe.sustained_tflops for probe in mine if probe.sustained_tflops is not None}
    rates = [rate for probe in mine for rate in (probe.copy_gb_per_sec, probe.triad_gb_per_sec) if rate is not None]
    doubts = {probe.precision: why for probe in mine if probe.precision in tflops and (why := _doubt(probe))}
    return Reached(tflops=tflops, doubts=doubts, gb_per_sec=max(rates, default=None))


def judge(seen: Seen | None, precision: str, device: Reached) -> Plausibility:
    """Compare a measured time with the rates of its device. Each implausible figure adds a text to `flags`.

    seen: None without a result; then all figures are None and `note` is "". Other figures that cannot be computed, as
    without a probe, are None, and `note` says why.
    """
    if seen is None:
        return Plausibility(
            achieved_tflops=None, gemm_tflops=None, gemm_percent=None, least_iteration_ms=None, flags=(), note=""
        )
    gemm = device.tflops.get(precision)
    achieved = seen.flops / seen.iteration_ms / 1e9 if seen.flops is not None else None
    percent = achieved / gemm * 100 if achieved is not None and gemm is not None else None
    least_ms = seen.model_bytes / device.gb_per_sec / 1e6 if device.gb_per_sec is not None else None
    flags = []
    if percent is not None and percent > _MOST_PERCENT:
        flags.append(
            f"{percent:.0f}% of what gemm sustains here in {precision}: either fewer operations were done than are "
            "counted (Winograd and FFT convolutions need fewer), or the time is wrong"
        )
    if least_ms is not None and seen.iteration_ms < least_ms:
        flags.append(
            f"an iteration takes {seen.iteration_ms:.3g} ms, but reading the model's weights once takes "
            f"{least_ms:.3g} ms: either some of them were not read (or came from a cache), or the time is wrong"
        )
    if seen.covered is not None and seen.covered < _LEAST_COVERED:
        flags.append(
            f"the iterations add up to {seen.covered:.0%} of the time that they took: their clock was slowed down. "
            "Look for code of the model that changes the module time"
        )
    missing = [
        f"{SHARE_IN_DOUBT}: {device.doubts[precision]}" if percent is not None and precision in device.doubts else "",
        _not_counted(seen) if seen.flops is None else "",
        "" if gemm is not None else f"no gemm rate in {precision} was measured on this device in this run",
        "" if least_ms is not None else "no hbm rate was measured on this device in this run",
    ]
    return Plausibility(
        achieved_tflops=achieved,
        gemm_tflops=gemm,
        gemm_percent=percent,
        least_iteration_ms=least_ms,
        flags=tuple(flags),
        note="; ".join(filter(None, missing)),
    )


def _doubt(probe: ProbeMetrics) -> str:
    if probe.sustained_tflops is None:
        return ""
    unsteady = UNSTEADY if probe.steady_state == SteadyState.NONE else ""
    drifting = f"drifting by {probe.drift_percent:+.1f}%" if probe.drifting and probe.drift_percent is not None else ""
    return ", ".join(filter(None, (unsteady, drifting)))


def _not_counted(seen: Seen) -> str:
    if seen.generates:
        return WRITTEN
    return TOO_LONG if seen.iteration_ms > COUNTED_WITHIN_MS else NOT_COUNTED
