"""Warnings about cells whose first iteration exceeds their deadlines, by a rough estimate. They refuse nothing."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from orchestrator.config.naming import plural
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.yaml_schema import listed
from orchestrator.engine import progress
from orchestrator.plan import estimate
from protocol.cell import AUTO, Device
from protocol.failure import Phase

_SHOWN: Final = 3  # cells named


def sentences(plan: Plan, configuration: Configuration, devices: Sequence[Device]) -> Iterator[str]:
    """Yield the warning. A burn-in has none: its cells end with their time."""
    if configuration.burn_in is not None:
        return
    by_uuid, named = {device.uuid: device for device in devices}, progress.alike(plan.cells)
    allowance = configuration.deadlines.allowance
    allowed_s = max(allowance(phase, configuration.measurement) for phase in (Phase.WARM_UP, Phase.MEASURE))
    found: dict[str, float] = {}
    for cell in plan.cells:
        scanned = cell.batch_size == AUTO  # a scan begins with a batch of 1
        first = msgspec.structs.replace(cell, batch_size=1) if scanned else cell
        takes_s = estimate.iteration_s(first, configuration.by_name[cell.model], by_uuid[cell.devices[0]])
        if takes_s > allowed_s:
            found[f"{named.words(cell)} {'auto' if scanned else f'b{cell.batch_size}'}"] = takes_s
    if found:
        more = len(found) - _SHOWN
        names = [*list(found)[:_SHOWN], *([plural(more, "other cell")] if more > 0 else [])]
        yield (
            f"no result is to be expected of {listed(names, 'and')}: an iteration would take "
            f"{estimate.about(max(found.values())).removeprefix('about ')}, as estimated, and their deadlines end "
            f"launches after {estimate.about(allowed_s).removeprefix('about ')}. Choose a smaller input or batch"
        )
