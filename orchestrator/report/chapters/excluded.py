"""What was requested but not measured: excluded combinations (never planned) and dropped cells (no time left)."""

from collections.abc import Iterator, Sequence

from orchestrator.config.naming import by_reason, sized
from orchestrator.figures.cells import Status
from orchestrator.figures.report import CellEntry, Report
from orchestrator.report.device_labels import labels
from orchestrator.report.sections import Badge, Finding, Section, Tone


def not_measured(report: Report) -> Section | None:
    """Return excluded combinations and dropped cells, with reasons; None if there are neither."""
    dropped = [entry for entry in report.cells if entry.status is Status.DROPPED]
    if not report.excluded and not dropped:
        return None
    by_cause: dict[str, list[CellEntry]] = {}  # the reason without the seconds of each cell
    for cell in dropped:
        by_cause.setdefault(cell.reason.partition(":")[0].capitalize(), []).append(cell)
    findings = (
        Finding(Badge("dropped", Tone.QUIET), why, tuple(_dropped_lines(cells, report)), opened=True, listed=True)
        for why, cells in by_cause.items()
    )
    return Section("left-out", "Not measured", tuple(exclusions(report)), findings=tuple(findings))


def exclusions(report: Report) -> Iterator[str]:
    """Yield "h2d, d2h: REASON (cpu:0)" for each reason: its models, and its devices unless these are all of the run."""
    rows = ((one.reason, one.model_name, one.gpu_uuid) for one in report.excluded)
    for reason, models, uuids in by_reason(rows):
        concerned = [device for device in report.gpu_info if device.gpu_uuid in uuids]
        where = "" if len(concerned) == len(report.gpu_info) else f" ({labels(concerned)})"
        yield f"{models}: {reason}{where}"


def input_sizes(report: Report) -> dict[tuple[str, str], set[int | None]]:
    """Return (model, workload) → input sizes that the run planned. None in a set: no input size."""
    found: dict[tuple[str, str], set[int | None]] = {}
    for cell in report.cells:
        found.setdefault((cell.model_name, cell.workload), set()).add(cell.input_size)
    return found


def _dropped_lines(cells: Sequence[CellEntry], report: Report) -> Iterator[str]:
    sizes = input_sizes(report)
    models: dict[str, dict[str, None]] = {}
    for cell in cells:
        batch = "" if cell.workload in ("load", "probe") else f" b{cell.batch_size_requested}"
        name = sized(cell.model_name, cell.input_size, sizes[cell.model_name, cell.workload])
        models.setdefault(name, {})[f"{cell.workload} {cell.precision}{batch}"] = None
    for model, dropped in models.items():
        yield f"{model}: {', '.join(dropped)}"
