"""What was asked for and not measured: what no cell could be planned for, and what was dropped."""

from collections.abc import Iterator, Sequence

from orchestrator.config.naming import by_reason, sized
from orchestrator.figures.cells import Status
from orchestrator.figures.report import CellEntry, Report
from orchestrator.report.device_labels import labels
from orchestrator.report.sections import Badge, Finding, Section, Tone


def not_measured(report: Report) -> Section | None:
    """What was asked for and not attempted; None where everything was."""
    dropped = [entry for entry in report.cells if entry.status is Status.DROPPED]
    if not report.left_out and not dropped:
        return None
    findings = (
        Finding(Badge("dropped", Tone.QUIET), why, tuple(dropped_lines(cells, report)), opened=True, listed=True)
        for why, cells in dropped_by_reason(dropped).items()
    )
    return Section("left-out", "Not measured", tuple(left_out(report)), findings=tuple(findings))


def left_out(report: Report) -> Iterator[str]:
    """Each reason once, with every model that it holds for, and with the devices where it does not hold for all."""
    told = ((one.reason, one.model_name, one.gpu_uuid) for one in report.left_out)
    for reason, models, uuids in by_reason(told):
        concerned = [device for device in report.gpu_info if device.gpu_uuid in uuids]
        where = "" if len(concerned) == len(report.gpu_info) else f" ({labels(concerned)})"
        yield f"{models}: {reason}{where}"


def dropped_by_reason(dropped: Sequence[CellEntry]) -> dict[str, list[CellEntry]]:
    """By what their reasons have in common: what differs are the seconds of each cell, which report.json has."""
    found: dict[str, list[CellEntry]] = {}
    for cell in dropped:
        found.setdefault(cell.reason.partition(":")[0].capitalize(), []).append(cell)
    return found


def input_sizes(report: Report) -> dict[tuple[str, str], set[int | None]]:
    """The input sizes that the run has, by model and workload."""
    found: dict[tuple[str, str], set[int | None]] = {}
    for cell in report.cells:
        found.setdefault((cell.model_name, cell.workload), set()).add(cell.input_size)
    return found


def dropped_lines(cells: Sequence[CellEntry], report: Report) -> Iterator[str]:
    """What was dropped, model by model; what was dropped on several devices is named once."""
    sizes = input_sizes(report)
    models: dict[str, dict[str, None]] = {}
    for cell in cells:
        batch = "" if cell.workload in ("load", "probe") else f" b{cell.batch_size_requested}"
        name = sized(cell.model_name, cell.input_size, sizes[cell.model_name, cell.workload])
        models.setdefault(name, {})[f"{cell.workload} {cell.precision}{batch}"] = None
    for model, dropped in models.items():
        yield f"{model}: {', '.join(dropped)}"
