"""The table of --dry-run: what would be run, in which order, and about how long it takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orchestrator import estimate
from orchestrator.cli.program import table
from orchestrator.configuration import Configuration, Plan
from orchestrator.report.files import target
from protocol.cell import Cell, Device, Mode

NAME_WIDTH: Final = 24
DEVICES_SHOWN: Final = 8


def describe(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> str:
    """The plan in at most 80 columns, and where the files would go.

    Every device runs the same cells in the same order, so one table serves all.
    """
    cells = {cell.id: cell for cell in plan.cells}
    first = devices[0]
    order = plan.order[first.uuid]
    # Every round holds every cell once; the first one is shown.
    rows = [
        _row(number, cells[cell_id], configuration, devices)
        for number, (cell_id, _) in enumerate(order[: len(order) // configuration.launches], start=1)
    ]
    header = ("#", "Model", "Phase", "Precision", "Batch", "Input", "A launch")
    total = estimate.about(estimate.total_s(plan, configuration, devices))
    return "\n".join(
        (
            *_devices(devices, cells[order[0][0]].mode),
            f"Profile {configuration.profile}, seed {configuration.seed}, {_launches(configuration.launches)}",
            "",
            table(header, rows, numbers=frozenset({0, 4, 5, 6})),
            "",
            f"{len(plan.cells)} cells, {sum(map(len, plan.order.values()))} launches, {total} in all.",
            *(f"Report: {target(Path(configuration.output_path), kind)}" for kind in configuration.formats),
            f"Run:    a new folder in {configuration.runs_folder}",
            "Nothing was run or written.",
        )
    )


def _row(number: int, cell: Cell, configuration: Configuration, devices: Sequence[Device]) -> tuple[str, ...]:
    slowest = max(estimate.launch_s(cell, configuration, device) for device in devices)
    name = cell.model if len(cell.model) <= NAME_WIDTH else f"{cell.model[: NAME_WIDTH - 1]}…"
    size = "" if cell.input_size is None else str(cell.input_size)
    about = estimate.about(slowest).removeprefix("about ")
    return (str(number), name, cell.workload, cell.precision, str(cell.batch_size), size, about)


def _devices(devices: Sequence[Device], mode: Mode) -> list[str]:
    shown = [f"  {device.label}: {device.name}"[:80] for device in devices[:DEVICES_SHOWN]]
    if len(devices) > DEVICES_SHOWN:
        shown.append(f"  and {len(devices) - DEVICES_SHOWN} more")
    if len(devices) == 1:
        return ["One device runs the cells below:", *shown]
    how = "one after the other" if mode is Mode.SOLO else "all at once"
    return [f"Each of {len(devices)} devices runs the cells below, {how}:", *shown]


def _launches(launches: int) -> str:
    if launches == 1:
        return "one launch of each cell, in this order:"
    return f"{launches} launches of each cell: this round,\nthen {launches - 1} more in other orders:"
