"""The chapter of operators: wrong results first, categories with grades, best and worst, every row, a roofline."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.operators import Grade, OperatorRow, OperatorStatus
from orchestrator.figures.report import Report
from orchestrator.kinds.ops.analysis import roofs, title
from orchestrator.kinds.ops.settings import EAGER
from orchestrator.report.charts import Kind, Roof, Roofline, RoofPoint
from orchestrator.report.device_labels import label_of
from orchestrator.report.layout import Answer
from orchestrator.report.numbers import number, share, unit
from orchestrator.report.sections import Badge, Chart, Finding, Section, Table, Tone, drawn, numbers, table, texts

_SHOWN: Final = 5
_SAME: Final = 100.0
_POINTS: Final = "large"
"""The shape that the roofline shows."""


def operators(report: Report) -> Section | None:
    """Return the whole chapter; None for another kind of run."""
    rows = _rows(report)
    if not rows:
        return None
    charts, points = drawn(_roofline(report, rows))
    return Section(
        "operators",
        "Operators",
        (_success(rows),),
        charts=charts,
        tables=(_categories(rows), _every(rows, report), *points),
        findings=tuple(_findings(rows)),
    )


def briefly(report: Report) -> Section | None:
    """Return the part that a terminal shows after a run: categories and findings."""
    rows = _rows(report)
    if not rows:
        return None
    return Section(
        "operators", "Operators", (_success(rows),), tables=(_categories(rows),), findings=tuple(_findings(rows))
    )


def answer(report: Report) -> Answer | None:
    """Return WRONG with the names of implementations; None where all are right, so that the verdict stands."""
    wrong = dict.fromkeys(title(row) for row in _rows(report) if row.status is OperatorStatus.WRONG)
    return Answer(Badge(f"WRONG: {'; '.join(wrong)}", Tone.BAD), _success(_rows(report))) if wrong else None


def _rows(report: Report) -> Sequence[OperatorRow]:
    return () if report.operators is None else report.operators.rows


def _success(rows: Sequence[OperatorRow]) -> str:
    counts = Counter(row.status for row in rows)
    others = [f"{counts[one]} {one}" for one in OperatorStatus if one is not OperatorStatus.OK and counts[one]]
    good = counts[OperatorStatus.OK]
    rate = f"{good} of {plural(len(rows), 'shape')} right and measured ({100 * good / len(rows):.0f} %)"
    return f"{', '.join((rate, *others))}."


def _categories(rows: Sequence[OperatorRow]) -> Table:
    found: dict[tuple[str, str], list[OperatorRow]] = {}
    for row in rows:
        found.setdefault((row.category, row.implementation), []).append(row)
    entries = []
    for (category, implementation), some in found.items():
        good = [row for row in some if row.status is OperatorStatus.OK]
        grades = Counter(row.grade for row in good)
        speeds = [row.eager_percent for row in good if row.eager_percent]
        mean = math.exp(math.fsum(map(math.log, speeds)) / len(speeds)) if speeds else None
        roof = [row.roof_percent for row in good if row.roof_percent is not None]
        entries.append(
            (
                category,
                implementation,
                f"{100 * len(good) / len(some):.0f} %",
                "" if mean is None else share(mean),
                *(str(grades[one] or "") for one in Grade),
                share(sum(roof) / len(roof)) if roof else "",
            )
        )
    heads = ("Right", "Of eager", "≥ 90 %", "≥ 70 %", "≥ 50 %", "≥ 20 %", "< 20 %")
    columns = (*texts("Category", "Implementation"), *numbers(*heads), *numbers("Of roof", priority=1))
    return replace(table("By category", columns, entries, name="categories"), framed=False)


def _every(rows: Sequence[OperatorRow], report: Report) -> Table:
    several = len(report.gpu_info) > 1
    entries = [
        (
            *((label_of(row.gpu_uuid, report),) if several else ()),
            row.operator,
            row.implementation,
            row.precision,
            row.shape,
            _state(row),
            _ms(row.real_ms),
            _ms(row.pure_ms),
            _ms(row.real_backward_ms),
            _ms(row.pure_backward_ms),
            _number(row.gb_per_second),
            _number(row.tflops),
            _share(row.memory_percent),
            _share(row.compute_percent),
            _share(row.eager_percent),
            "" if row.deviation is None else f"{row.deviation:.1e}",
        )
        for row in rows
    ]
    columns = (
        *(texts("GPU") if several else ()),
        *texts("Operator", "Implementation", "Precision", "Shape", "Result"),
        *numbers("Real ms", priority=1),
        *numbers("Pure ms"),
        *numbers("Real f+b ms", priority=5),
        *numbers("Pure f+b ms", priority=4),
        *numbers("GB/s", "TFLOP/s", priority=3),
        *numbers("Of hbm", "Of gemm", priority=2),
        *numbers("Of eager"),
        *numbers("Deviation", priority=6),
    )
    words = "f+b: forward and backward pass together. Rates are those of the forward pass, by its pure time."
    return replace(table("Every operator", columns, entries, words, name="operators"), framed=False)


def _state(row: OperatorRow) -> Badge | str:
    return str(row.status) if row.status is OperatorStatus.OK else Badge(row.status, Tone.BAD)


def _findings(rows: Sequence[OperatorRow]) -> Iterator[Finding]:
    wrong = [row for row in rows if row.status is OperatorStatus.WRONG]
    if wrong:
        lines = tuple(f"{title(row)}, {row.shape}: {row.reason}" for row in wrong)
        yield Finding(Badge("WRONG", Tone.BAD), "Wrong results", lines, opened=True, listed=True)
    failed = [row for row in rows if row.status is OperatorStatus.FAILED]
    if failed:
        lines = tuple(f"{title(row)}, {row.shape}: {row.reason}" for row in failed)
        yield Finding(Badge("failed", Tone.WARN), "Shapes without a result", lines, opened=True, listed=True)
    compared = sorted((row for row in rows if row.eager_percent is not None), key=lambda row: row.eager_percent or 0.0)
    faster = [row for row in compared if (row.eager_percent or 0.0) > _SAME]
    if faster:
        best = tuple(_line(row) for row in reversed(faster[-_SHOWN:]))
        yield Finding(None, "Fastest against eager", best, opened=True, listed=True)
    slow = [row for row in compared if row.grade is not Grade.EXCELLENT][:_SHOWN]
    if slow:
        lines = tuple(_line(row) for row in slow)
        yield Finding(Badge("slow", Tone.WARN), "Slowest against eager", lines, opened=True, listed=True)
    far = sorted(
        (row for row in rows if row.implementation == EAGER and row.advice), key=lambda row: row.roof_percent or 0.0
    )
    if far:
        lines = tuple(
            f"{title(row)}, {row.shape}: {_share(row.roof_percent) or 'unknown share'} of its roof: {row.advice}"
            for row in far[:_SHOWN]
        )
        yield Finding(None, "Eager, farthest from the roof", lines, opened=True, listed=True)


def _line(row: OperatorRow) -> str:
    line = f"{title(row)}, {row.shape}: {_share(row.eager_percent)} of eager's speed ({_ms(row.pure_ms)} ms)"
    return f"{line}: {row.advice}" if row.advice else line


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def _share(value: float | None) -> str:
    return "" if value is None else share(value)


def _roofline(report: Report, rows: Sequence[OperatorRow]) -> tuple[Chart, Table]:
    """One plot for each device, of the large shapes in eager."""
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
