"""Texts of trends, shared by terminal and HTML."""

from collections.abc import Iterator

from orchestrator.config.naming import plural
from orchestrator.history.trend import Trend, TrendPoint
from orchestrator.stats.change_points import LEAST
from protocol.cell import DeviceKind


def cell(trend: Trend) -> str:
    """Return "resnet50 inference bf16 b8 (loaded, input 224, channels_last)"."""
    key = trend.key
    sizes = [f"input {key.input_size}"] if key.input_size is not None else []
    return f"{trend.cell} ({', '.join([key.mode, *sizes, *([key.memory_format] if key.memory_format else [])])})"


def device(trend: Trend) -> str:
    """Return the device: a GPU is the same in every host, but every host has a cpu:0."""
    on_cpu = trend.kind == DeviceKind.CPU
    return f"{trend.gpu_uuid} of {trend.hostname}" if on_cpu else f"{trend.gpu_name}, {trend.gpu_uuid}"


def figure(value: float) -> str:
    """Return "0.012346", "98.765", "4,512.3"."""
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.5g}"


def change(point: TrendPoint) -> str:
    """Return the change of the level with this run: "-5.0 %", or ""."""
    return "" if point.change_percent is None else f"{point.change_percent:+.1f} %"


def remarks(point: TrendPoint) -> Iterator[str]:
    """Yield what changed with a run, and why it does not count."""
    yield from point.stack
    if point.left_out:
        yield f"not counted: {point.left_out}"


def unjudged(trend: Trend) -> str:
    """Return why no change can be found in a trend, or ""."""
    if trend.kind == DeviceKind.CPU:
        return "a CPU device drifts, so nothing is judged"
    values = [point.value for point in trend.points if point.value is not None and not point.left_out]
    if len(values) < 2 * LEAST:
        return f"changes are told from {2 * LEAST} runs on that count, and {plural(len(values), 'run')} did"
    return "of a figure that can be zero no change is told" if min(values) <= 0 else ""
