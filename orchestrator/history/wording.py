"""Texts about trends, for terminal and HTML, and about what earlier runs found on devices. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.history.records import Offence
from orchestrator.history.trend import Trend, TrendPoint
from orchestrator.stats.change_points import LEAST
from protocol.cell import Device, DeviceKind

LONGEST: Final = 160
"""Most characters of a reason in a remark on a device."""


def cell(trend: Trend) -> str:
    """Describe the cell of a trend: "resnet50 inference bf16 b8 (loaded, input 224, channels_last)"."""
    key = trend.key
    sizes = [f"input {key.input_size}"] if key.input_size is not None else []
    return f"{trend.cell} ({', '.join([key.mode, *sizes, *([key.memory_format] if key.memory_format else [])])})"


def device(trend: Trend) -> str:
    """Describe the device of a trend: "NVIDIA H200, GPU-5317…". A CPU device gets its host name: "cpu:0 of node1"."""
    on_cpu = trend.kind == DeviceKind.CPU
    return f"{trend.gpu_uuid} of {trend.hostname}" if on_cpu else f"{trend.gpu_name}, {trend.gpu_uuid}"


def figure(value: float) -> str:
    """Format a figure with five significant digits, from 1000 on with one decimal: "98.765", "4,512.3"."""
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.5g}"


def change(point: TrendPoint) -> str:
    """Format TrendPoint.change_percent, the lasting change that begins with this run: "-5.0 %"; "" without a change."""
    return "" if point.change_percent is None else f"{point.change_percent:+.1f} %"


def remarks(point: TrendPoint) -> Iterator[str]:
    """Yield each version or setting that differs from the run before, then why the run is not judged, if it is not."""
    yield from point.stack
    if point.excluded:
        yield f"not counted: {point.excluded}"


def unjudged(trend: Trend) -> str:
    """Return why no change can be found in a trend: "a CPU device drifts, so nothing is judged"; "" if one can."""
    if trend.kind == DeviceKind.CPU:
        return "a CPU device drifts, so nothing is judged"
    values = [point.value for point in trend.points if point.value is not None and not point.excluded]
    if len(values) < 2 * LEAST:
        return f"it takes at least {2 * LEAST} counted runs to judge changes"
    return "changes of a figure that can be zero are not judged" if min(values) <= 0 else ""


def earlier_findings(devices: Sequence[Device], offences: Iterable[Offence]) -> dict[str, str]:
    """Return UUID → remark on the device's newest FAIL or, if it has none, newest WARN. offences: oldest first.

    Devices without an offence are missing. Example: "WARN in its health on 2026-04-01 (run 20260401-213000-1f2e3d):
    reason; 2 runs found FAIL or WARN".
    """
    against: dict[str, list[Offence]] = {}
    for offence in offences:
        against.setdefault(offence.gpu_uuid, []).append(offence)
    return {one.uuid: _finding(against[one.uuid]) for one in devices if one.uuid in against}


def _finding(offences: Sequence[Offence]) -> str:
    gravest = [one for one in offences if HealthVerdict.FAIL in (one.health, one.burn_in)] or offences
    shown = gravest[-1]
    verdict = HealthVerdict.FAIL if HealthVerdict.FAIL in (shown.health, shown.burn_in) else HealthVerdict.WARN
    by_burn_in = shown.burn_in == verdict
    what, words = ("a burn-in", shown.burn_in_words) if by_burn_in else ("its health", shown.health_words)
    why = f": {words[:LONGEST]}{'…' if len(words) > LONGEST else ''}" if words else ""
    more = f"; {plural(len(offences), 'run')} found FAIL or WARN" if len(offences) > 1 else ""
    return f"{verdict} in {what} on {shown.test_date[:10]} (run {shown.run_id}){why}{more}"
