"""The chapter of the run's course: sensor readings of each GPU over time, and the launches on all devices."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.figures.timeline import DeviceTimeline, Stretch, Timeline
from orchestrator.report.charts.types import Bar, Course, Kind, Reading, Spans
from orchestrator.report.device_labels import by_uuid
from orchestrator.report.layout import Layout
from orchestrator.report.numbers import NOT_AVAILABLE, number
from orchestrator.report.sections import Chart, Section, Table, drawn, numbers, table, texts

READINGS: Final[Mapping[str, tuple[str, str]]] = {
    "utilization_percent": ("Utilisation", "%"),
    "power_w": ("Power", "W"),
    "temperature_c": ("Temperature", "C"),
    "sm_clock_mhz": ("SM clock", "MHz"),
    "memory_clock_mhz": ("Memory clock", "MHz"),
}
GAP_S: Final = 10.0
"""Seconds between two points from which a line has a gap; three times the usual distance if that is longer."""

Point = tuple[float, float | None, float | None, float | None]


def course(report: Report, timeline: Timeline, layout: Layout) -> Section | None:
    """Return charts of all launches over time, and of the readings of each GPU; None without either."""
    names = by_uuid(report)
    known = [device for device in timeline.devices if device.gpu_uuid in names]
    charts, tables = drawn(_launches(layout, timeline, known, names), _readings(timeline, known, names))
    return Section("course", "Over time", charts=charts, tables=tables, wide=True) if charts else None


def _launches(
    layout: Layout, timeline: Timeline, timelines: list[DeviceTimeline], names: Mapping[str, str]
) -> tuple[Chart, Table]:
    bars = tuple(bar for row, device in enumerate(timelines) for bar in _bars(device, row))
    labels = tuple(names[device.gpu_uuid] for device in timelines)
    rows = [_row(names[device.gpu_uuid], device) for device in timelines if device.spans]
    header = (*texts("Device"), *numbers("Launches without a result", "First began", "Last ended"))
    each = f"Each launch of the {layout.title.lower()}" if layout.title else "Each launch"
    chart = Chart(
        "launches",
        "Launches on each device",
        Kind.SPANS,
        f"{each}, coloured by its workload. A red mark is a launch without a result; launches that the time limit "
        "ended have none. Launches too close together to be seen apart are drawn as one."
        f"{_not_drawn(timelines)}",
        (Spans("launches", round(timeline.began * 1000), labels, bars),) if bars else (),
        "launches",
    )
    return chart, table("Launches on each device", header, rows, "Times since the run began.", name="launches")


def _row(name: str, device: DeviceTimeline) -> tuple[str, ...]:
    failed = sum(span.failed for span in device.spans) + device.unseen
    ended_s = max(span.end_s for span in device.spans)
    return (name, str(failed), _clock(device.spans[0].start_s), _clock(ended_s))


def _not_drawn(timelines: list[DeviceTimeline]) -> str:
    unseen = sum(device.unseen for device in timelines)
    words = f" Only the earliest launches without a result of each device are drawn: {unseen} more are not."
    return words if unseen else ""


def _bars(device: DeviceTimeline, row: int) -> Iterator[Bar]:
    for span in device.spans:
        yield Bar(row, span.start_s, span.end_s, span.workload or "several", span.failed, span.words)


def _readings(timeline: Timeline, timelines: list[DeviceTimeline], names: Mapping[str, str]) -> tuple[Chart, Table]:
    plots, rows = [], []
    for device in timelines:
        every = (Reading(*words, tuple(_points(name, device.stretches))) for name, words in READINGS.items())
        readings = tuple(one for one in every if any(mean is not None for _, mean, _, _ in one.points))
        if not readings:
            continue
        who = names[device.gpu_uuid]
        plots.append(Course(who, round(timeline.began * 1000), readings, tuple(_bars(device, 0))))
        rows += [(who, f"{one.title}, {one.unit}", *_summary(one)) for one in readings]
    header = (*texts("GPU", "Reading"), *numbers("Lowest", "Median point", "Highest"))
    chart = Chart(
        "readings",
        "Utilisation, power, temperature and clocks",
        Kind.COURSE,
        "Line: mean reading of each short interval. Band: lowest and highest reading of the interval. Strip on top: "
        "the launches. Red line: a launch without a result."
        f"{_not_drawn(timelines)}",
        tuple(plots),
        "readings",
        "GPU",
    )
    return chart, table("Readings of each GPU", header, rows, name="readings")


def _points(name: str, stretches: tuple[Stretch, ...]) -> Iterator[Point]:
    for number_of, stretch in enumerate(stretches):
        if number_of:
            yield stretch.at_s[0], None, None, None
        apart = sorted(later - earlier for earlier, later in pairwise(stretch.at_s))
        gap_s = max(GAP_S, 3 * apart[len(apart) // 2]) if apart else GAP_S
        curve = stretch.curves[name]
        before = stretch.at_s[0]
        for at_s, mean, low, high in zip(stretch.at_s, curve.mean, curve.low, curve.high, strict=True):
            if at_s - before > gap_s:
                yield (at_s + before) / 2, None, None, None
            before = at_s
            yield at_s, mean, low, high


def _summary(reading: Reading) -> tuple[str, str, str]:
    lows = [low for _, _, low, _ in reading.points if low is not None]
    means = sorted(mean for _, mean, _, _ in reading.points if mean is not None)
    highs = [high for _, _, _, high in reading.points if high is not None]
    if not means:
        return (NOT_AVAILABLE,) * 3
    return number(min(lows)), number(means[len(means) // 2]), number(max(highs))


def _clock(seconds: float) -> str:
    whole = round(max(0.0, seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
