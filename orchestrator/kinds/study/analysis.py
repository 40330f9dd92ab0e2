"""Rows of a study from results of launches: one row for each cell. Pure."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from orchestrator.analysis.cell_figures import contaminated, throttled
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import KindAnalysis
from orchestrator.analysis.operator_results import call_time, fate, is_host_bound, median_ms, shape_results
from orchestrator.config.naming import sizes_of
from orchestrator.figures.exit_code import Cause, CauseKind
from orchestrator.figures.health import HealthReport
from orchestrator.figures.operators import OperatorStatus
from orchestrator.figures.report import Report
from orchestrator.figures.studies import StudyOperation, StudyReport, StudyRow
from orchestrator.plan.operator_cells import operator_of
from orchestrator.state.archive import Archive
from protocol.cell import JAX, Cell
from protocol.result import CallProfile, ShapeResult


def analyse(archive: Archive, evidence: Evidence, health: HealthReport) -> KindAnalysis:
    """Return the study's part of the report. Rows that differ only in the implementation follow each other."""
    configuration = archive.stored.configuration
    rows = [_row(cell, archive, evidence) for cell in archive.stored.plan.cells]
    sizes = [row.sizes for row in rows]
    varied = tuple(name for name in sizes[0] if len({one[name] for one in sizes}) > 1)
    found = tuple(_compared(rows))
    versions = {one.result.environment.jax for one in evidence.launches.values()} - {None}
    jax = ", ".join(sorted(filter(None, versions))) or None
    return KindAnalysis(study=StudyReport(name=configuration.study, varied=varied, jax_version=jax, rows=found))


def judge(archive: Archive, evidence: Evidence, report: Report) -> Iterator[Cause]:
    """Yield a cause of exit code 1 for each operation, implementation and precision with a wrong result."""
    wrong: dict[str, StudyRow] = {}
    for row in report.study.rows if report.study else ():
        if row.status is OperatorStatus.WRONG:
            wrong.setdefault(title(row), row)
    for name, row in wrong.items():
        yield Cause(kind=CauseKind.WRONG, text=f"WRONG: {name}, {sizes_of(row.sizes)}: {row.reason}")


def title(row: StudyRow) -> str:
    """Return the name of a row without its sizes: "conv2d, im2col, fp32"."""
    return f"{row.operation}, {row.implementation}, {row.precision}"


def point(row: StudyRow) -> tuple[object, ...]:
    """Return (device UUID, operation, sizes, precision) of a row: what its comparable rows have in common."""
    return row.gpu_uuid, row.operation, tuple(row.sizes.items()), row.precision


def _compared(rows: Sequence[StudyRow]) -> Iterator[StudyRow]:
    """Yield the rows with their speed relative to the implementation of rows[0]: above 1 is faster.

    Rows of one point (GPU, operation, sizes, precision) come together. A row without a time, or at a point where that
    implementation has none, is yielded unchanged.
    """
    first = rows[0].implementation
    base = {point(row): row.device_ms for row in rows if row.implementation == first}
    places = {place: number for number, place in enumerate(dict.fromkeys(map(point, rows)))}
    for row in sorted(rows, key=lambda row: places[point(row)]):
        reference_ms = base.get(point(row))
        yield replace(row, relative_speed=reference_ms / row.device_ms) if reference_ms and row.device_ms else row


def _row(cell: Cell, archive: Archive, evidence: Evidence) -> StudyRow:
    operator = operator_of(archive.stored.configuration.by_name[cell.model])
    device = archive.devices[cell.devices[0]]
    (shape,) = operator.shapes[device.kind]
    found = shape_results(cell, shape, evidence)
    status, reason = fate(found, cell, evidence)
    deviations = [one.deviation for one in found if one.deviation is not None]
    compared = status in {OperatorStatus.OK, OperatorStatus.WRONG}
    launches = [evidence.launches[number] for number in evidence.outcomes[cell.id].valid_launches]
    row = StudyRow(
        cell=cell.id,
        gpu_uuid=device.uuid,
        operation=operator.name,
        implementation=operator.implementation,
        sizes=shape.sizes,
        precision=cell.precision,
        mode=cell.mode,
        compile_mode=JAX if operator.variant == JAX else cell.compile_mode,
        status=status,
        reason=reason,
        shape_ok=all(one.compared for one in found) if compared else None,
        values_ok=status is OperatorStatus.OK if compared and all(one.compared for one in found) else None,
        deviation=max(deviations, default=None),
        tolerance=operator.tolerance[cell.precision],
        throttled=throttled(launches),
        contaminated=contaminated(device, launches),
    )
    return _measured(row, found) if status is OperatorStatus.OK else row


def _measured(row: StudyRow, found: Sequence[ShapeResult]) -> StudyRow:
    device = call_time("pure", found)
    if device is None:
        return replace(row, status=OperatorStatus.FAILED, reason="its times are zero")
    profiles = [one.profile for one in found if one.profile is not None]
    last = profiles[-1] if profiles else CallProfile()
    graphed = all(one.graphed for one in found if not one.error) if row.gpu_uuid[:3] != "cpu" else None
    return replace(
        row,
        device_ms=device.call_ms,
        launch_values=device.launch_values,
        interval_percent=device.interval_percent,
        host_ms=median_ms(found, "host"),
        total_ms=median_ms(found, "real"),
        compile_ms=max((one.compile_ms for one in profiles if one.compile_ms is not None), default=None),
        peak_bytes=max((one.peak_bytes for one in profiles if one.peak_bytes is not None), default=None),
        kernels=last.kernels,
        operations=tuple(StudyOperation(name=one.name, calls=one.calls, time_ms=one.time_ms) for one in last.top),
        graphed=graphed,
        host_bound=is_host_bound(found, graphed=graphed),
    )
