"""Rows of operators from results of launches: times, rates, percent of GPU limits, grades. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from orchestrator.analysis.cell_figures import contaminated, throttled
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import KindAnalysis
from orchestrator.analysis.operator_results import call_time, fate, is_host_bound, shape_results
from orchestrator.analysis.results import probes
from orchestrator.config.naming import plural, sizes_of
from orchestrator.figures.cells import ProbeMetrics
from orchestrator.figures.exit_code import Cause, CauseKind
from orchestrator.figures.health import HealthReport
from orchestrator.figures.operators import (
    Grade,
    OperatorRow,
    OperatorsReport,
    OperatorStatus,
    TimeName,
)
from orchestrator.figures.report import Report
from orchestrator.kinds.ops.settings import COMPILED, EAGER
from orchestrator.plan.operator_cells import operator_of
from orchestrator.report.device_labels import label_of
from orchestrator.state.archive import Archive
from protocol.cell import Cell, OperatorShape, Precision, Workload
from protocol.result import ShapeResult

GRADES: Final = (
    (90.0, Grade.EXCELLENT),
    (70.0, Grade.GOOD),
    (50.0, Grade.FAIR),
    (20.0, Grade.POOR),
    (0.0, Grade.CRITICAL),
)
"""(Least speed in percent of that of eager, grade), best grade first."""
_HOST_RATIO: Final = 3.0
"""Ratio of the time of a call to its device time above which the host limits the call."""
_NAMED: Final = 3
"""Most implementations that a reason for the exit code names."""
_NOISY: Final = 50.0
"""Least uncertainty (± percent, 95 %) of a noisy time. It gives no grade, and only the advice to repeat it."""
_NEAR_ROOF: Final = 60.0
_FAR_FROM_ROOF: Final = 20.0


class Roofs(NamedTuple):
    """The limits (roofs) of a device as probes measured them.

    tb_per_second: bandwidth of its memory in TB/s; None if unknown. tflops: precision → TFLOP/s of matrix products;
    precisions without a result are missing.
    """

    tb_per_second: float | None
    tflops: Mapping[str, float]


def analyse(archive: Archive, evidence: Evidence, health: HealthReport) -> KindAnalysis:
    """Return the operators' part of the report, and a reason for the exit code if a cell failed at some shapes."""
    found = tuple(graded(_rows(archive, evidence)))
    failed = [row for row in found if row.status is OperatorStatus.FAILED and _has_result(row, found)]
    return KindAnalysis(operators=OperatorsReport(rows=found), failed=tuple(_without_result(failed)))


def _without_result(failed: Sequence[OperatorRow]) -> Iterator[str]:
    if failed:
        names = list(dict.fromkeys(map(title, failed)))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{plural(len(failed), 'shape')} failed: {', '.join(names[:_NAMED])}{more}"


def judge(archive: Archive, evidence: Evidence, report: Report) -> Iterator[Cause]:
    """Yield a cause of exit code 1 for each operator, implementation, precision and device with a wrong result."""
    wrong: dict[str, OperatorRow] = {}
    for row in report.operators.rows if report.operators else ():
        if row.status is OperatorStatus.WRONG:
            wrong.setdefault(place(row, report), row)
    for name, row in wrong.items():
        yield Cause(kind=CauseKind.WRONG, text=f"WRONG: {name}, {row.shape}: {row.reason}")


def title(row: OperatorRow) -> str:
    """Return the name of a row without its shape: "softmax, eager, bf16"."""
    return f"{row.operator}, {row.implementation}, {row.precision}"


def place(row: OperatorRow, report: Report) -> str:
    """Return the title of a row, and its device if the run has several: "softmax, eager, bf16, GPU 0"."""
    return f"{title(row)}, {label_of(row.gpu_uuid, report)}" if len(report.gpu_info) > 1 else title(row)


def roofs(measured: Iterable[ProbeMetrics], gpu_uuid: str) -> Roofs:
    """Return the limits of the device `gpu_uuid`. measured: results of the probes, of any device."""
    mine = [probe for probe in measured if probe.gpu_uuid == gpu_uuid]
    rates = [rate for probe in mine for rate in (probe.copy_gb_per_sec, probe.triad_gb_per_sec) if rate]
    products = {probe.precision: probe.sustained_tflops for probe in mine if probe.sustained_tflops}
    return Roofs(max(rates) / 1000 if rates else None, products)


def grade(percent: float) -> Grade:
    """Return the grade of a speed. percent: the speed in percent of that of eager, at least 0."""
    return next(one for least, one in GRADES if percent >= least)


def graded(rows: Iterable[OperatorRow]) -> Iterator[OperatorRow]:
    """Yield the rows in the same order, with advice. Rows but those of eager also get a speed and its grade.

    The speed is relative to eager, in percent. It is None if eager has no time for the same device, operator, precision
    and shape, or if one of the two times is noisy. The grade (see GRADES) is then None, too.
    """
    every = tuple(rows)
    eager = {_place(row): row for row in every if row.implementation == EAGER}
    for row in every:
        reference = eager.get(_place(row))
        if row.implementation == EAGER or reference is None:
            yield replace(row, advice=advice(row))
            continue
        percent = _percent(reference, row, TimeName.PURE)
        judged = replace(
            row,
            eager_percent=percent,
            eager_backward_percent=_percent(reference, row, TimeName.PURE_BACKWARD),
            grade=None if percent is None else grade(percent),
        )
        yield replace(judged, advice=advice(judged))


def advice(row: OperatorRow) -> str:
    """Return the most important advice on a row, such as "use the eager implementation"; "" if there is none."""
    if row.status is OperatorStatus.WRONG:
        return "fix the wrong result, which has no speed"
    pure_ms, real_ms = row.ms(TimeName.PURE), row.ms(TimeName.REAL)
    if row.status is not OperatorStatus.OK or pure_ms is None or real_ms is None:
        return ""
    if _is_noisy(row, TimeName.PURE):
        return f"measure it again on an idle machine, because the time is uncertain by ±{_NOISY:g} % or more"
    if row.eager_percent is not None and row.eager_percent < GRADES[0][0]:
        return "use the eager implementation"
    if row.eager_backward_percent is not None and row.eager_backward_percent < GRADES[0][0]:
        return "use the eager implementation for training, because its forward and backward pass together are faster"
    if row.graphed and real_ms > _HOST_RATIO * pure_ms:
        return "fuse the operator with its neighbours or use a CUDA graph, because the host limits its speed"
    if row.roof_percent is None or row.roof_percent >= _NEAR_ROOF:
        return ""
    if row.roof_percent < _FAR_FROM_ROOF:
        limit = "the memory" if (row.memory_percent or 0.0) > (row.compute_percent or 0.0) else "the arithmetic"
        return f"try another layout or kernel, because the speed is far below what {limit} allows"
    return ""


def _place(row: OperatorRow) -> tuple[str, ...]:
    return row.gpu_uuid, row.operator, row.precision, row.shape


def _percent(reference: OperatorRow, row: OperatorRow, name: TimeName) -> float | None:
    if _is_noisy(reference, name) or _is_noisy(row, name):
        return None
    reference_ms, own_ms = reference.ms(name), row.ms(name)
    return 100 * reference_ms / own_ms if reference_ms and own_ms else None


def _is_noisy(row: OperatorRow, name: TimeName) -> bool:
    return name in row.times and (row.times[name].interval_percent or 0.0) >= _NOISY


def _has_result(row: OperatorRow, rows: Sequence[OperatorRow]) -> bool:
    """Whether any shape of the row's device, operator, implementation and precision did not fail. rows: all rows."""
    alike = (row.gpu_uuid, title(row))
    return any((one.gpu_uuid, title(one)) == alike and one.status is not OperatorStatus.FAILED for one in rows)


def _rows(archive: Archive, evidence: Evidence) -> Iterator[OperatorRow]:
    measured = probes(archive, evidence)
    for cell in archive.stored.plan.cells:
        if cell.workload is Workload.OPERATOR:
            yield from _of_cell(cell, archive, evidence, roofs(measured, cell.devices[0]))


def _of_cell(cell: Cell, archive: Archive, evidence: Evidence, limits: Roofs) -> Iterator[OperatorRow]:
    model, device = archive.stored.configuration.by_name[cell.model], archive.devices[cell.devices[0]]
    operator = operator_of(model)
    launches = [evidence.launches[number] for number in evidence.outcomes[cell.id].valid_launches]
    implementation = model.name.rpartition("=")[0] if model.own else COMPILED if cell.compiles else EAGER
    for shape in operator.shapes[device.kind]:
        found = shape_results(cell, shape, evidence)
        status, reason = fate(found, cell, evidence)
        deviations = [one.deviation for one in found if one.deviation is not None and math.isfinite(one.deviation)]
        row = OperatorRow(
            cell=cell.id,
            gpu_uuid=device.uuid,
            operator=operator.name,
            category=operator.category,
            implementation=implementation,
            precision=cell.precision,
            mode=cell.mode,
            shape=shape.name,
            sizes=sizes_of(shape.sizes),
            status=status,
            reason=reason,
            deviation=max(deviations, default=None),
            tolerance=operator.tolerance[cell.precision],
            gradient_verified=operator.backward and bool(found) and not any(one.no_gradient for one in found),
            throttled=throttled(launches),
            contaminated=contaminated(device, launches),
            intensity=shape.flops / shape.moved[cell.precision],
        )
        yield row if status is not OperatorStatus.OK else _timed(row, shape, found, limits)


def _timed(row: OperatorRow, shape: OperatorShape, found: Sequence[ShapeResult], limits: Roofs) -> OperatorRow:
    times = {name: time for name in TimeName if (time := call_time(name, found)) is not None}
    if TimeName.PURE not in times:
        return replace(row, status=OperatorStatus.FAILED, reason="its times are zero")
    pure = times[TimeName.PURE].call_ms
    gb_per_second, tflops = shape.moved[Precision(row.precision)] / pure / 1e6, shape.flops / pure / 1e9
    memory_percent = gb_per_second / limits.tb_per_second / 10 if limits.tb_per_second else None
    graphed = all(one.graphed for one in found if not one.error) if row.gpu_uuid[:3] != "cpu" else None
    peak = limits.tflops.get(row.precision)
    compute_percent = 100 * tflops / peak if peak and tflops else None
    return replace(
        row,
        times=times,
        graphed=graphed,
        host_bound=is_host_bound(found, graphed=graphed),
        gb_per_second=gb_per_second,
        tflops=tflops or None,
        memory_percent=memory_percent,
        compute_percent=compute_percent,
        roof_percent=max((one for one in (memory_percent, compute_percent) if one is not None), default=None),
    )
