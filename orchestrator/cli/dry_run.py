"""The tables of --dry-run: what would be run, in which order, and about how long it takes."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from orchestrator.cli import left_out
from orchestrator.cli.program import table
from orchestrator.configuration.naming import counted, shortened
from orchestrator.configuration.resolved import Configuration, Plan
from orchestrator.configuration.yaml_schema import listed
from orchestrator.deciding.budget import Budget
from orchestrator.planning import estimate
from orchestrator.report.files import target
from orchestrator.sampling.overheating import HELD_S
from protocol.cell import Cell, Device, MemoryFormat, Mode

NAME_WIDTH: Final = 24
DEVICES_SHOWN: Final = 8
WIDTH: Final = 80


def describe(plan: Plan, configuration: Configuration, devices: Sequence[Device], notes: Sequence[str] = ()) -> str:
    """The plan in at most 80 columns, and where the files would go. notes: what else a person should know of it."""
    total = estimate.about(estimate.total_s(plan, configuration, devices))
    return "\n".join(
        (
            *_tables(plan, configuration, devices),
            *_formats(plan.cells),
            *_burn_in(configuration),
            *_folded(f"Left out: {sentence}." for sentence in left_out.sentences(plan, devices)),
            *_folded(f"Note: {note}." for note in notes),
            f"{counted(len(plan.cells), 'cell')}, {counted(plan.launches, 'launch', 'launches')}, {total} in all.",
            *_limit(plan, configuration, devices),
            *(f"Report: {target(Path(configuration.output_path), kind)}" for kind in configuration.formats),
            f"Run:    a new folder in {configuration.runs_folder}",
            "Nothing was run or written.",
        )
    )


def _limit(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Iterable[str]:
    """What a time limit will leave of the plan, as far as can be told before anything ran."""
    limit_s = configuration.time_limit_s
    if limit_s is None:
        return
    budget = Budget(configuration, devices, limit_s, began=0.0)
    fitting = sum(budget.forecast(plan, device) for device in devices)
    words = f"{configuration.preset or 'It'} ends within {limit_s:g} s, enough for about {fitting} launches"
    yield f"{words}; the rest is dropped."


def _burn_in(configuration: Configuration) -> Iterable[str]:
    """What the table of a burn-in does not show: its steps of load, and when a GPU is stopped."""
    asked = configuration.burn_in
    if asked is None:
        return []
    lines = []
    if asked.steps:
        first, *others = asked.steps.values()
        apart = any(other.offset_s != first.offset_s for other in others)
        when = "one device after the other" if apart else "all devices in phase"
        lines.append(f"Steps of load: {first.on_s:g} s at work, {first.off_s:g} s at rest, {when}.")
    if asked.max_temperature_c is not None:
        lines.append(f"A GPU that is at {asked.max_temperature_c} degrees C for {HELD_S:g} s is stopped, and fails.")
    return _folded(lines)


def _tables(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> list[str]:
    """A table for each kind of device: those of a kind run the same cells in the same order."""
    cells = {cell.id: cell for cell in plan.cells}
    alike: dict[tuple[tuple[str, ...], ...], list[Device]] = {}
    for device in devices:
        order = plan.order[device.uuid]
        # Every round holds every cell once, but for scans; the first one is shown.
        first_round = [cells[cell_id] for cell_id, number in order if number == 0]
        alike.setdefault(tuple(map(_row, first_round)), []).append(device)
    header = ("#", "Model", "Phase", "Precision", "Batch", "Input", "A launch")
    lines: list[str] = []
    for rows, group in alike.items():
        first = [cells[cell_id] for cell_id, number in plan.order[group[0].uuid] if number == 0]
        numbered = [
            (str(number), *row, _about(cell, configuration, group))
            for number, (row, cell) in enumerate(zip(rows, first, strict=True), start=1)
        ]
        lines += [
            *_devices(group, len(devices), first[0].mode),
            f"Profile {configuration.profile}, seed {configuration.seed}, {_launches(configuration.launches)}",
            "",
            table(header, numbered, numbers=frozenset({0, 4, 5, 6})),
            "",
        ]
    return lines


def _row(cell: Cell) -> tuple[str, ...]:
    name = shortened(cell.model, NAME_WIDTH)
    size = "" if cell.input_size is None else str(cell.input_size)
    if cell.new_tokens is not None:
        size += f"+{cell.new_tokens}"
    return (name, cell.workload, cell.precision, str(cell.batch_size or "auto"), size)


def _about(cell: Cell, configuration: Configuration, devices: Sequence[Device]) -> str:
    slowest = max(estimate.launch_s(cell, configuration, device) for device in devices)
    return estimate.about(slowest).removeprefix("about ")


def _formats(cells: Sequence[Cell]) -> Iterable[str]:
    """Which models see their images by pixel; said once, because it is the same for every cell of a model."""
    names = dict.fromkeys(cell.model for cell in cells if cell.memory_format is MemoryFormat.CHANNELS_LAST)
    return _folded([f"Images by pixel (channels_last): {', '.join(names)}."] if names else [])


def _folded(lines: Iterable[str]) -> list[str]:
    return [
        part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    ]


def _devices(devices: Sequence[Device], of: int, mode: Mode) -> list[str]:
    """Those of one kind among `of` devices of the run."""
    shown = [f"  {device.label}: {device.name}"[:WIDTH] for device in devices[:DEVICES_SHOWN]]
    shared = [device.label for device in devices if device.shared_cores]
    if len(devices) > DEVICES_SHOWN:
        shown.append(f"  and {len(devices) - DEVICES_SHOWN} more")
    if shared:
        shown += _folded([f"  There are not enough cores: {listed(shared, 'and')} share theirs with others of these."])
    how = "one after the other" if mode is Mode.SOLO else "all at once"
    if of == 1:
        return ["One device runs the cells below:", *shown]
    if len(devices) == of:
        return [f"Each of {of} devices runs the cells below, {how}:", *shown]
    return [f"{len(devices)} of {of} devices, at work {how}, run the cells below:", *shown]


def _launches(launches: int) -> str:
    if launches == 1:
        return "one launch of each cell, in this order:"
    return f"{launches} launches of each cell: this round,\nthen {launches - 1} more in other orders:"
