"""Warnings about cells whose first iteration exceeds their deadlines, by a rough estimate. They refuse nothing."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.engine import progress
from orchestrator.plan import estimate
from protocol.cell import AUTO, Cell, Device
from protocol.failure import Phase

_SHOWN: Final = 3  # cells named


def sentences(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Iterator[str]:
    """Yield the warning. A burn-in has none: its cells end with their time."""
    if configuration.burn_in is not None:
        return
    by_uuid, named = {device.uuid: device for device in devices}, progress.alike(plan.cells)
    found: dict[str, tuple[float, float]] = {}
    for cell in plan.cells:
        device = by_uuid[cell.devices[0]]
        takes_s, allowed_s = _iteration_s(cell, configuration, device), _allowed_s(configuration)
        if takes_s > allowed_s:
            found[_name(named.words(cell), cell.batch_size)] = takes_s, allowed_s
    if found:
        more = len(found) - _SHOWN
        names = [*list(found)[:_SHOWN], *([plural(more, "other cell")] if more > 0 else [])]
        takes_s, allowed_s = max(found.values())
        yield (
            f"no result is to be expected of {listed(names, 'and')}: an iteration would take "
            f"{estimate.about(takes_s).removeprefix('about ')}, as estimated, and their deadlines end launches after "
            f"{estimate.about(allowed_s).removeprefix('about ')}. Choose a smaller input or batch"
        )


def _name(words: str, batch_size: int) -> str:
    return f"{words} {'auto' if batch_size == AUTO else f'b{batch_size}'}"


def _iteration_s(cell: Cell, configuration: Configuration, device: Device) -> float:
    first = msgspec.structs.replace(cell, batch_size=1) if cell.batch_size == AUTO else cell
    return estimate.iteration_s(first, configuration.by_name[cell.model], device)


def _allowed_s(configuration: Configuration) -> float:
    allowance = configuration.deadlines.allowance
    return max(allowance(phase, configuration.measurement) for phase in (Phase.WARM_UP, Phase.MEASURE))
