"""The chapter on a study: wrong, failed, unsupported and fastest cells, figures, longest operations."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.figures.operators import OperatorStatus
from orchestrator.figures.report import Report
from orchestrator.figures.studies import StudyReport, StudyRow
from orchestrator.kinds.study.analysis import point, title
from orchestrator.report.device_labels import label_of
from orchestrator.report.layout import Answer
from orchestrator.report.numbers import share
from orchestrator.report.remarks import HOST_LIMITED, HOST_MARK
from orchestrator.report.sections import Badge, Entry, Finding, Section, Table, Tone, numbers, table, texts

_MIB: Final = 2**20
_NAME: Final = 40
"""Most characters of an operation's name in a table; report.json has the whole name."""
_TONES: Final = {
    OperatorStatus.WRONG: Tone.BAD,
    OperatorStatus.FAILED: Tone.BAD,
    OperatorStatus.MISSING: Tone.WARN,
    OperatorStatus.UNSUPPORTED: Tone.QUIET,
}
_CHECKS: Final[dict[bool | None, Entry]] = {None: "", True: "ok", False: Badge("wrong", Tone.BAD)}
_WORDS: Final = (
    "Device: time of a call, in calls back to back. +/-: half of the 95 % interval of this time. Host: time until a "
    "call returns. Total: time until its work is done. Compile: time of the first call. Peak: memory of a call (CPU "
    "device: of its process). Kernels: launched by a call (CPU device: operators that call no other operator)."
)


def study(report: Report) -> Section | None:
    """Return the whole chapter on a study; None for another kind of run."""
    if report.study is None:
        return None
    rows = report.study.rows
    return Section(
        "study",
        "Study",
        (f"{report.study.name}: {_success(rows)}",),
        tables=(_figures(report, report.study), _operations(report, report.study)),
        findings=tuple(_findings(rows, report.study.varied)),
    )


def answer(report: Report) -> Answer | None:
    """Return the verdict "WRONG: softmax, compiled, bf16; …" with all wrong implementations; None if none is wrong."""
    rows = report.study.rows if report.study else ()
    wrong = dict.fromkeys(title(row) for row in rows if row.status is OperatorStatus.WRONG)
    return Answer(Badge(f"WRONG: {'; '.join(wrong)}", Tone.BAD), _success(rows)) if wrong else None


def _success(rows: Sequence[StudyRow]) -> str:
    counts = Counter(row.status for row in rows)
    others = [f"{counts[one]} {one}" for one in OperatorStatus if one is not OperatorStatus.OK and counts[one]]
    good = f"{counts[OperatorStatus.OK]} of {plural(len(rows), 'cell')} right and measured"
    return f"{', '.join((good, *others))}."


def _figures(report: Report, found: StudyReport) -> Table:
    label, mark = _labels(report, found), _marks(found.rows)
    entries = [
        (
            label(row),
            str(row.status) if row.status is OperatorStatus.OK else Badge(row.status, _TONES[row.status]),
            _device(row),
            "" if row.interval_percent is None else share(row.interval_percent),
            _ms(row.host_ms),
            _ms(row.total_ms),
            "" if row.compile_ms is None else f"{row.compile_ms / 1000:.2f}",
            "" if row.peak_bytes is None else f"{row.peak_bytes / _MIB:.1f}",
            "" if row.kernels is None else f"{row.kernels}",
            _CHECKS[row.shape_ok],
            _CHECKS[row.values_ok],
            "" if row.relative_speed is None else f"{row.relative_speed:.2f}{mark(row)}",
        )
        for row in found.rows
    ]
    columns = (
        *texts("Cell", "Result"),
        *numbers("Device ms"),
        *numbers("+/-", priority=2),
        *numbers("Host ms", priority=1),
        *numbers("Total ms"),
        *numbers("Compile s", "Peak MiB", priority=3),
        *numbers("Kernels", priority=2),
        *texts("Shape", "Values", priority=4),
        *numbers("Speed"),
    )
    words = f"{_WORDS} Speed: relative to {found.rows[0].implementation}, by device time."
    remarks = (HOST_LIMITED,) if any(map(mark, found.rows)) else ()
    made = table("Cells of the study", columns, entries, words, name="study")
    return replace(made, framed=False, remarks=remarks)


def _operations(report: Report, found: StudyReport) -> Table:
    label = _labels(report, found)
    entries = [
        (label(row), one.name[:_NAME], f"{one.calls}", _ms(one.time_ms)) for row in found.rows for one in row.operations
    ]
    columns = (*texts("Cell", "Operation"), *numbers("Calls", "Time ms"))
    words = "Operations of one call under a profiler, which slows the call. Time: without the operations that it calls."
    return replace(table("Longest operations", columns, entries, words, name="study-operations"), framed=False)


def _labels(report: Report, found: StudyReport) -> Callable[[StudyRow], str]:
    def properties(row: StudyRow) -> tuple[str, ...]:
        return label_of(row.gpu_uuid, report), row.operation, _sizes(row, found.varied), row.precision

    differ = [len(set(column)) > 1 for column in zip(*map(properties, found.rows), strict=True)]
    return lambda row: " ".join((*itertools.compress(properties(row), differ), row.implementation))


def _findings(rows: Sequence[StudyRow], varied: Sequence[str]) -> Iterator[Finding]:
    for status, badge, heading in (
        (OperatorStatus.WRONG, Badge("WRONG", Tone.BAD), "Wrong results"),
        (OperatorStatus.FAILED, Badge("failed", Tone.WARN), "Cells without a result"),
        (OperatorStatus.UNSUPPORTED, Badge("unsupported", Tone.QUIET), "Cells that cannot run here"),
    ):
        if lines := tuple(_by_reason(rows, status, varied)):
            yield Finding(badge, heading, lines, opened=True, listed=True)
    if fastest := tuple(_fastest(rows, varied)):
        yield Finding(None, "Fastest of each operation, size and precision", fastest, opened=True, listed=True)


def _by_reason(rows: Sequence[StudyRow], status: OperatorStatus, varied: Sequence[str]) -> Iterator[str]:
    """Yield a line for each reason of a status, with the implementations and sizes that have it.

    An implementation is named without sizes if all its sizes have the reason. varied: dimensions whose sizes to show.
    """
    planned = Counter(map(title, rows))
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.status is status:
            found.setdefault(row.reason, {}).setdefault(title(row), []).append(_sizes(row, varied))
    for reason, by_name in found.items():
        names = (
            name if len(sizes) == planned[name] else ", ".join((name, *dict.fromkeys(filter(None, sizes))))
            for name, sizes in by_name.items()
        )
        yield f"{'; '.join(names)}: {reason}"


def _fastest(rows: Sequence[StudyRow], varied: Sequence[str]) -> Iterator[str]:
    points: dict[tuple[object, ...], list[StudyRow]] = {}
    for row in rows:
        if row.device_ms is not None:
            points.setdefault(point(row), []).append(row)
    mark = _marks(rows)
    for some in points.values():
        best = min(some, key=lambda row: row.device_ms or 0.0)
        if len(some) > 1:
            where = " ".join(filter(None, (best.operation, _sizes(best, varied), best.precision)))
            speed = "" if best.relative_speed is None else f", speed {best.relative_speed:.2f}{mark(best)}"
            yield f"{where}: {best.implementation} ({_device(best)} ms{speed})"


def _marks(rows: Sequence[StudyRow]) -> Callable[[StudyRow], str]:
    """Return a function: row → HOST_MARK if the host limits this row or its reference, else "".

    The reference is the row at the same `point` with the implementation of rows[0]. The row's speed is relative to it.
    A row without a time on the device gets "".
    """
    bound = {point(row) for row in rows if row.host_bound and row.implementation == rows[0].implementation}
    return lambda row: HOST_MARK if row.device_ms and (row.host_bound or point(row) in bound) else ""


def _device(row: StudyRow) -> str:
    return f"{_ms(row.device_ms)}{HOST_MARK if row.host_bound else ''}"


def _sizes(row: StudyRow, varied: Sequence[str]) -> str:
    return " ".join(f"{name}={row.sizes[name]}" for name in varied)


def _ms(value_ms: float | None) -> str:
    return "" if value_ms is None else f"{value_ms:.4g}"
