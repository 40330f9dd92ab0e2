"""The chapter on operators: wrong results, grades, best and worst rows, all rows but unmeasured ones, roofline."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.config.yaml_schema import listed
from orchestrator.figures.operators import Grade, OperatorRow, OperatorStatus, TimeName
from orchestrator.figures.report import Report
from orchestrator.kinds.ops.analysis import place, roofs
from orchestrator.kinds.ops.settings import EAGER
from orchestrator.report.charts.types import Kind, Roof, Roofline, RoofPoint
from orchestrator.report.device_labels import label_of
from orchestrator.report.layout import Answer
from orchestrator.report.numbers import number, share, unit
from orchestrator.report.remarks import HOST_LIMITED, HOST_MARK
from orchestrator.report.sections import Badge, Chart, Finding, Section, Table, Tone, drawn, numbers, table, texts

_EACH: Final = "(operator, implementation, precision, shape)"
_SHOWN: Final = 5
_BRIEFLY_SHOWN: Final = 3
_SPEEDLESS: Final = {
    OperatorStatus.WRONG: (Tone.BAD, "Wrong results"),
    OperatorStatus.FAILED: (Tone.WARN, "Shapes without a result"),
    OperatorStatus.UNSUPPORTED: (Tone.QUIET, "Shapes that cannot be measured here"),
}
_SAME: Final = 100.0
_POINTS: Final = "large"
"""Name of the shape whose rows the roofline chart shows."""


def operators(report: Report) -> Section | None:
    """Return the whole chapter on operators; None for another kind of run."""
    rows = _rows(report)
    if not rows:
        return None
    charts, points = drawn(_roofline(report, rows))
    tables = (_categories(rows), _slowest(rows, report, _SHOWN), _every(rows, report), *points)
    return Section(
        "operators",
        "Operators",
        (_success(rows), *_to_do(rows)),
        charts=charts,
        tables=tuple(table for table in tables if table.rows),
        findings=(*_without_speed(rows, report), *_extremes(rows, report)),
    )


def briefly(report: Report) -> Section | None:
    """Return the short chapter for a terminal, without wrong results, which `answer` shows; None without rows."""
    rows = _rows(report)
    if not rows:
        return None
    tables = (_categories(rows, together=True), _slowest(rows, report, _BRIEFLY_SHOWN))
    return Section(
        "operators",
        "Operators",
        (_success(rows),),
        tables=tuple(table for table in tables if table.rows),
        findings=tuple(_shortened(one) for one in _without_speed(rows, report, (OperatorStatus.FAILED,))),
        notes=tuple(itertools.islice(_to_do(rows), _BRIEFLY_SHOWN)),
    )


def answer(report: Report) -> Answer | None:
    """Return a verdict with the first wrong row, "WRONG: softmax, compiled, bf16 and 2 more"; None if none is wrong."""
    rows = _rows(report)
    wrong = dict.fromkeys(place(row, report) for row in rows if row.status is OperatorStatus.WRONG)
    return Answer(Badge(f"WRONG: {' '.join(_first(wrong, 1))}", Tone.BAD), _success(rows)) if wrong else None


def _first(lines: Collection[str], most: int) -> Iterator[str]:
    yield from itertools.islice(lines, most)
    if len(lines) > most:
        yield f"and {len(lines) - most} more"


def _shortened(finding: Finding) -> Finding:
    return replace(finding, lines=tuple(_first(finding.lines, 1)))


def _rows(report: Report) -> Sequence[OperatorRow]:
    return () if report.operators is None else report.operators.rows


def _success(rows: Sequence[OperatorRow]) -> str:
    counts = Counter(row.status for row in rows)
    others = [f"{counts[one]} {one}" for one in OperatorStatus if one is not OperatorStatus.OK and counts[one]]
    good = counts[OperatorStatus.OK]
    rate = f"{good} of {plural(len(rows), 'measurement')} {_EACH} right ({100 * good / len(rows):.0f} %)"
    return f"{', '.join((rate, *others))}."


def _to_do(rows: Sequence[OperatorRow]) -> Iterator[str]:
    """Yield "3 measurements: <advice>" for each advice, most frequent first."""
    for advice, count in Counter(row.advice for row in rows if row.advice).most_common():
        yield f"{plural(count, 'measurement')}: {advice}"


def _categories(rows: Sequence[OperatorRow], *, together: bool = False) -> Table:
    """Return a table with a line for each category and implementation. together: a line for each category only.

    A line has the number of rows with a right result, their mean speed relative to eager, the number of rows of each
    grade, and their mean share of the roof.
    """
    found: dict[tuple[str, ...], list[OperatorRow]] = {}
    for row in rows:
        found.setdefault((row.category,) if together else (row.category, _name(row)), []).append(row)
    entries = []
    for group, some in found.items():
        good = [row for row in some if row.status is OperatorStatus.OK]
        grades = Counter(row.grade for row in good)
        speeds = [row.eager_percent for row in good if row.eager_percent]
        mean = math.exp(math.fsum(map(math.log, speeds)) / len(speeds)) if speeds else None
        roof = [row.roof_percent for row in good if row.roof_percent is not None]
        entries.append(
            (
                *group,
                f"{len(good)}/{len(some)}",
                "" if mean is None else share(mean),
                *(str(grades[one] or "") for one in Grade),
                share(sum(roof) / len(roof)) if roof else "",
            )
        )
    names = ("Category",) if together else ("Category", "Impl.")
    columns = (*texts(*names), *numbers("Right", "Of eager", "≥90%", "≥70%", "≥50%", "≥20%", "<20%", "Of roof"))
    return replace(table("By category", columns, entries, name="categories"), framed=False)


def _slowest(rows: Sequence[OperatorRow], report: Report, most: int) -> Table:
    several = len(report.gpu_info) > 1
    slow = [row for row in _compared(rows) if row.grade is not Grade.EXCELLENT]
    entries = [
        (
            *((label_of(row.gpu_uuid, report),) if several else ()),
            row.operator,
            _name(row),
            row.precision,
            row.shape,
            _speed(row),
            _pure(row),
            _interval(row, TimeName.PURE),
            _ms(row.ms(TimeName.REAL)),
            _interval(row, TimeName.REAL),
        )
        for row in slow[:most]
    ]
    columns = (
        *(texts("GPU") if several else ()),
        *texts("Operator", "Impl.", "Prec.", "Shape"),
        *numbers("Speed", "Pure ms"),
        *numbers("+/-", priority=1),
        *numbers("Real ms", priority=2),
        *numbers("+/-", priority=3),
    )
    over = dict.fromkeys(row.times[TimeName.PURE].interval_over for row in slow[:most])
    words = f"Speed: relative to eager. +/-: half of the 95 % interval, over the {' or '.join(over)}."
    made = table("Slowest compared with eager", columns, entries, words, name="slowest")
    return replace(made, framed=False, continued=False, remarks=_limited(slow[:most]))


def _compared(rows: Iterable[OperatorRow]) -> list[OperatorRow]:
    """Return the rows that have a speed relative to eager, slowest first."""
    return sorted((row for row in rows if row.eager_percent is not None), key=lambda row: row.eager_percent or 0.0)


def _interval(row: OperatorRow, name: TimeName) -> str:
    return _share(row.times[name].interval_percent) if name in row.times else ""


def _every(rows: Sequence[OperatorRow], report: Report) -> Table:
    several = len(report.gpu_info) > 1
    entries = [
        (
            *((label_of(row.gpu_uuid, report),) if several else ()),
            row.operator,
            _name(row),
            row.precision,
            row.shape,
            _pure(row) if row.status is OperatorStatus.OK else Badge(row.status, Tone.BAD),
            _speed(row),
            _ms(row.ms(TimeName.REAL)),
            _share(row.memory_percent),
            _share(row.compute_percent),
            _number(row.gb_per_second),
            _number(row.tflops),
            _share(row.eager_backward_percent),
            _ms(row.ms(TimeName.PURE_BACKWARD)),
            _ms(row.ms(TimeName.REAL_BACKWARD)),
            "" if row.deviation is None else f"{row.deviation:.1e}",
        )
        for row in rows
        if row.status is not OperatorStatus.MISSING
    ]
    columns = (
        *(texts("GPU") if several else ()),
        *texts("Operator", "Impl.", "Prec.", "Shape"),
        *numbers("Pure ms", "Of eager"),
        *numbers("Real ms", priority=1),
        *numbers("Of hbm", "Of gemm", priority=2),
        *numbers("GB/s", "TFLOP/s", priority=3),
        *numbers("f+b of eager", priority=3),
        *numbers("Pure f+b ms", priority=4),
        *numbers("Real f+b ms", priority=5),
        *numbers("Deviation", priority=6),
    )
    words = (
        "Times of a call. Pure: on the device. Real: with the host. f+b: forward and backward pass together. Rates are "
        "those of the forward pass, by its pure time."
    )
    missing = sum(row.status is OperatorStatus.MISSING for row in rows)
    words += f" Not listed: {plural(missing, 'shape')} not measured." if missing else ""
    made = table("Every operator", columns, entries, words, name="operators")
    return replace(made, framed=False, continued=False, remarks=_limited(rows))


def _without_speed(
    rows: Sequence[OperatorRow], report: Report, statuses: Iterable[OperatorStatus] = tuple(_SPEEDLESS)
) -> Iterator[Finding]:
    for status in statuses:
        tone, words = _SPEEDLESS[status]
        found: dict[str, list[OperatorRow]] = {}
        for row in rows:
            if row.status is status:
                found.setdefault(place(row, report), []).append(row)
        lines = tuple(
            f"{name}, {listed([row.shape for row in of], 'and')}: {of[0].reason}" for name, of in found.items()
        )
        if lines:
            yield Finding(Badge(status, tone), words, lines, opened=True, listed=True)


def _extremes(rows: Sequence[OperatorRow], report: Report) -> Iterator[Finding]:
    faster = [row for row in _compared(rows) if (row.eager_percent or 0.0) > _SAME]
    if faster:
        best = tuple(
            f"{_shape(row, report)}: {_speed(row)} of eager's speed ({_pure(row)} ms)"
            for row in reversed(faster[-_SHOWN:])
        )
        yield Finding(None, "Fastest against eager", best, opened=True, listed=True)
    far = sorted(
        (row for row in rows if row.implementation == EAGER and row.advice and row.status is OperatorStatus.OK),
        key=lambda row: row.roof_percent or 0.0,
    )
    if far:
        lines = tuple(
            f"{_shape(row, report)}: {_share(row.roof_percent) or 'unknown share'} of its roof: {row.advice}"
            for row in far[:_SHOWN]
        )
        yield Finding(None, "Eager, farthest from the roof", lines, opened=True, listed=True)


def _name(row: OperatorRow) -> str:
    """Return the name of the row's implementation without a folder: "eager", "kernels.py:my_softmax"."""
    return row.implementation.rpartition("/")[2]


def _shape(row: OperatorRow, report: Report) -> str:
    return f"{place(row, report)}, {row.shape}"


def _pure(row: OperatorRow) -> str:
    return f"{_ms(row.ms(TimeName.PURE))}{HOST_MARK if row.host_bound else ''}"


def _speed(row: OperatorRow) -> str:
    return f"{_share(row.eager_percent)}{HOST_MARK if row.host_bound and row.eager_percent else ''}"


def _limited(rows: Iterable[OperatorRow]) -> tuple[str, ...]:
    return (HOST_LIMITED,) if any(row.host_bound for row in rows) else ()


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def _share(value: float | None) -> str:
    return "" if value is None else share(value)


def _roofline(report: Report, rows: Sequence[OperatorRow]) -> tuple[Chart, Table]:
    """Return the roofline of the rows with the shape "large" in eager, as chart and table.

    The chart has a plot for each device whose memory bandwidth is known, if such a row of the device has a rate.
    """
    plots, entries = [], []
    for device in report.gpu_info:
        limits = roofs(report.probes, device.gpu_uuid)
        if limits.tb_per_second is None:
            continue
        name = label_of(device.gpu_uuid, report)
        lines = {one: Roof(one, tflops, limits.tb_per_second) for one, tflops in limits.tflops.items()}
        points = tuple(
            RoofPoint(
                name=row.operator,
                roof=row.precision,
                intensity=row.intensity,
                tflops=row.tflops,
                open=not row.graphed,
                says=f"{row.operator} {row.precision}: {unit(row.tflops, 'TFLOP/s')}, {_share(row.roof_percent)} of "
                "its roof",
            )
            for row in rows
            if row.gpu_uuid == device.gpu_uuid
            and row.implementation == EAGER
            and row.shape == _POINTS
            and row.tflops
            and row.precision in lines
        )
        if points:
            plots.append(Roofline(name, tuple(lines.values()), points))
            entries += [(name, one.name, one.roof, number(one.intensity), number(one.tflops)) for one in points]
    chart = Chart(
        "operator-roofline",
        "Roofline of operators",
        Kind.ROOFLINE,
        "Lines: memory bandwidth and matrix products as the probes of this run sustained them. Points: large shapes in "
        "eager, with the least bytes that the operator must move. Hollow: the host may be part of the time.",
        tuple(plots),
        "operator-roofline",
        "Device",
    )
    columns = (*texts("Device", "Operator", "Precision"), *numbers("Operations per byte", "TFLOP/s"))
    return chart, table("Roofline of operators", columns, entries, name="operator-roofline")
