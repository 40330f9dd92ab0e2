"""The output of --dry-run: what would run, in which order, and about how long it takes."""

import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from orchestrator.cli import plan_notes
from orchestrator.cli.program import table
from orchestrator.config.naming import plural
from orchestrator.config.report_formats import target
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.gpu.telemetry.overheating import HELD_S
from orchestrator.kinds.burn_in import injections, rounds
from orchestrator.kinds.burn_in.settings import written
from orchestrator.plan import estimate
from orchestrator.state import added_launches
from orchestrator.state.time_budget import Budget
from orchestrator.stats.stragglers import MOST_LAUNCHES
from protocol.cell import Cell, Device, DeviceKind, MemoryFormat, Mode, Workload

NAME_WIDTH: Final = 24
DEVICES_SHOWN: Final = 8
_HOW: Final = {Mode.SOLO: "one after the other", Mode.LOADED: "all at once"}
WIDTH: Final = 80


def describe(
    plan: Plan,
    configuration: Configuration,
    devices: Sequence[Device],
    notes: Sequence[str] = (),
    *,
    launches: str = "",
) -> str:
    """Return the text of --dry-run: the plan, in at most 80 columns, and where its files go.

    notes: remarks on the plan. launches: sentence about the number of launches; "" for none.
    """
    return "\n".join(
        (
            *_tables(plan, configuration, devices),
            *_channels_last(plan.cells),
            *_burn_in(configuration, devices),
            *_folded(f"Excluded: {sentence}." for sentence in plan_notes.exclusions(plan, devices)),
            *_folded(f"Note: {note}." for note in notes),
            *_totals(plan, configuration, devices),
            *_folded([launches] if launches else []),
            *(f"Report: {target(Path(configuration.output_path), kind)}" for kind in configuration.formats),
            f"Run:    a new folder in {configuration.runs_folder}",
            "Nothing was run or written.",
        )
    )


def _totals(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Iterable[str]:
    if configuration.burn_in is not None:
        lasts = written(configuration.burn_in.duration_s)
        yield from _folded(
            [f"The burn-in ends within {lasts}, reports included. Cells for which no time is left are dropped."]
        )
        return
    total = estimate.about(estimate.total_s(plan, configuration, devices))
    yield f"{plural(len(plan.cells), 'cell')}, {plural(plan.launches, 'launch', 'launches')}, {total} in all."
    may_add = added_launches.applies(configuration, devices)
    if may_add and (more := added_launches.at_most(plan.cells, configuration.launches, devices)):
        launches = plural(more, "more launch", "more launches")
        yield from _folded([f"Up to {launches} if a GPU looks slow, at most {MOST_LAUNCHES} of a cell."])
    limit_s = configuration.time_limit_s
    if limit_s is None:
        return
    budget = Budget(configuration, devices, limit_s, began=0.0)
    fitting = [slot for device in devices for slot in budget.forecast(plan, device)]
    all_fit = len(fitting) >= plan.launches
    enough = (
        f"{'the launch' if plan.launches == 1 else f'all {plan.launches} launches'} by estimate"
        if all_fit
        else f"about {len(fitting)} launches; the rest is dropped"
    )
    what = f"The preset {configuration.preset}" if configuration.preset else "The run"
    yield from _folded([f"{what} ends within {limit_s:g} s, enough for {enough}."])
    yield from _folded(_without_time(plan, {cell for cell, _ in fitting}))


def _without_time(plan: Plan, fitting: Collection[str]) -> Iterable[str]:
    fits_by_name: dict[str, set[bool]] = {}
    for cell in plan.cells:
        batch = "" if cell.workload is Workload.PROBE or not cell.batch_size else f" b{cell.batch_size}"
        mode = f" {cell.mode}" if len({other.mode for other in plan.cells}) > 1 else ""
        name = f"{cell.model} {cell.workload} {cell.precision}{batch}{mode}"
        fits_by_name.setdefault(name, set()).add(cell.id in fitting)
    if without := [name for name, fits in fits_by_name.items() if fits == {False}]:
        yield f"Probably no time for: {', '.join(without)}."


def _burn_in(configuration: Configuration, devices: Sequence[Device]) -> Iterable[str]:
    burn_in = configuration.burn_in
    if burn_in is None:
        return []
    lines = []
    if burn_in.steps:
        first, *others = burn_in.steps.values()
        apart = any(other.offset_s != first.offset_s for other in others)
        when = "one device after the other" if apart else "all devices in phase"
        lines.append(f"Steps of load: {first.on_s:g} s at work, {first.off_s:g} s at rest, {when}.")
    if burn_in.max_temperature_c is not None and any(device.kind is DeviceKind.CUDA for device in devices):
        lines.append(f"A GPU that is at {burn_in.max_temperature_c} °C for {HELD_S:g} s is stopped, and fails.")
    by_uuid = {device.uuid: device for device in devices}
    lines += [f"Injected: {injections.describe(fault, by_uuid[fault.device])}." for fault in burn_in.injections]
    if burn_in.injections:
        lines.append("The injected faults taint the run: it tests the detectors and can never pass.")
    return _folded(lines)


def _tables(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> list[str]:
    cells = {cell.id: cell for cell in plan.cells}
    # Devices of a kind run the same cells in the same order.
    alike: dict[tuple[tuple[str, ...], ...], list[Device]] = {}
    for device in devices:
        order = plan.order[device.uuid]
        # Every round holds every cell once, except scans.
        first_round = [cells[cell_id] for cell_id, number in order if number == 0]
        alike.setdefault(tuple(map(_row, first_round)), []).append(device)
    modes = tuple(dict.fromkeys(cell.mode for cell in plan.cells))
    header = ("#", "Model", "Phase", "Precision", "Batch", "Input", *(["Mode"] if len(modes) > 1 else []), "A launch")
    lines: list[str] = []
    for rows, group in alike.items():
        first = [cells[cell_id] for cell_id, number in plan.order[group[0].uuid] if number == 0]
        how, launches = _how(plan, configuration, devices, group, first)
        numbered = [
            part
            for number, (row, cell, launch) in enumerate(zip(rows, first, launches, strict=True), start=1)
            for part in _wrapped((str(number), *row, *([cell.mode] if len(modes) > 1 else []), launch))
        ]
        lines += [
            *_devices(group, len(devices), modes),
            *how,
            "",
            table(header, numbered, numbers=frozenset({0, 4, 5, len(header) - 1})),
            "",
        ]
    return lines


def _wrapped(row: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    number, name, *others = row
    first, *rest = textwrap.wrap(name, NAME_WIDTH, break_on_hyphens=False) or [""]
    yield number, first, *others
    yield from (("", part, *("" for _ in others)) for part in rest)


def _row(cell: Cell) -> tuple[str, ...]:
    size = "" if cell.input_size is None else str(cell.input_size)
    if cell.new_tokens is not None:
        size += f"+{cell.new_tokens}"
    how = f"{cell.precision} {cell.compile_mode}" if cell.compiles else cell.precision
    return (cell.model, cell.workload, how, str(cell.batch_size or "auto"), size)


def _about(cell: Cell, configuration: Configuration, group: Sequence[Device], devices: Sequence[Device]) -> str:
    slowest = max(
        estimate.launch_s(cell, configuration, device, estimate.scale(configuration, device, devices))
        for device in group
    )
    return estimate.about(slowest).removeprefix("about ")


def _channels_last(cells: Sequence[Cell]) -> Iterable[str]:
    names = dict.fromkeys(cell.model for cell in cells if cell.memory_format is MemoryFormat.CHANNELS_LAST)
    return _folded([f"Memory format channels_last: {', '.join(names)}."] if names else [])


def _folded(lines: Iterable[str]) -> list[str]:
    return [
        part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    ]


def _devices(devices: Sequence[Device], of: int, modes: Sequence[Mode]) -> list[str]:
    shown = _folded(f"  {device.label}: {device.name}" for device in devices[:DEVICES_SHOWN])
    shared = [device.label for device in devices if device.shared_cores]
    if len(devices) > DEVICES_SHOWN:
        shown.append(f"  and {len(devices) - DEVICES_SHOWN} more")
    if shared:
        shown += _folded([f"  There are not enough cores: {listed(shared, 'and')} share cores with other devices."])
    how = " and ".join(_HOW[mode] for mode in modes)
    if of == 1:
        return ["One device runs the cells below:", *shown]
    if len(devices) == of:
        return [*_folded([f"Each of {of} devices runs the cells below, {how}:"]), *shown]
    return [*_folded([f"{len(devices)} of {of} devices, at work {how}, run the cells below:"]), *shown]


def _how(
    plan: Plan,
    configuration: Configuration,
    devices: Sequence[Device],
    group: Sequence[Device],
    first: Sequence[Cell],
) -> tuple[list[str], list[str]]:
    """Return (lines above the table of a first round, texts with the time of one launch of each cell, in order).

    first: cells of this first round, in order. group: the devices that begin with it. devices: all devices of the run.
    """
    burn_in = configuration.burn_in
    if burn_in is None:
        number = configuration.launches
        order = "one launch of each cell, in this order:"
        if number > 1:
            order = f"{number} launches of each cell: this round,\nthen {number - 1} more in other orders:"
        title = f"Profile {configuration.profile}, seed {configuration.seed}, {order}"
        return [title], [_about(cell, configuration, group, devices) for cell in first]
    each = (rounds.of(plan, configuration, devices, device) for device in group)
    longest = max(each, key=lambda estimated: estimated.round_s)
    title = f"Burn-in of {written(burn_in.duration_s)}, level {burn_in.level}, seed {configuration.seed}."
    cell_s = f"{burn_in.cell_s[group[0].kind]:.3g} s"
    takes = f"takes about {rounds.format_round(longest.round_s)} with start-up"
    number_of_rounds = f"about {rounds.format_count(longest.possible)} rounds fit"
    summary = f"A round of {len(first)} cells of {cell_s} {takes}; {number_of_rounds}. The first round:"
    return [title, *_folded([summary])], [rounds.format_launch(launch_s) for launch_s in longest.launches_s]
