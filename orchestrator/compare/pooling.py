"""Combine the results of several devices of a baseline for one cell (model and configuration) into one. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Final

from msgspec.structs import replace

from orchestrator.compare import cell_facts
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import SideCell, SideDevice

_DOUBTS: Final[dict[str, Callable[[Sequence[bool]], bool]]] = {"steady": all, "contaminated": any, "power_capped": any}


def partners(candidates: Sequence[Place], place: Place, *, any_device: bool = False) -> Sequence[Place]:
    """Return those of `candidates` to compare `place` with: one or two, or none without candidates.

    candidates: the baseline's results of the same cell, one for each device. They are comparable if
    `cell_facts.difference` finds nothing. The first of these that exists is returned:

        the comparable one of the device of `place`
        the comparable one with the median rate, or the middle two of an even number (rate: median over launches)
        one that is not comparable, preferably of the same GPU model

    any_device: allow another GPU model as comparable, and skip the first line.
    """
    compare = [one for one in candidates if not cell_facts.difference(one, place, any_device=any_device)]
    if not compare:
        return sorted(candidates, key=lambda one: one.device.gpu_name != place.device.gpu_name)[:1]
    own = [one for one in compare if one.device.gpu_uuid == place.device.gpu_uuid]
    if own and not any_device:
        return own
    ranked = sorted(compare, key=lambda one: median(one.cell.rates))
    return ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]


def combined(places: Sequence[Place]) -> Place:
    """Return the results of one or more devices for the same cell as one result, with the launches of all.

    Differences between devices are removed from the values (`_launches`). The result is contaminated or power-capped if
    one is, and steady if all are. It is throttled if one is, else unknown if one is. The other fields of the cell, such
    as `figures`, are those of the first device; `parameters` is the first known number.
    """
    first = places[0]
    if len(places) == 1:
        return first
    cells = [place.cell for place in places]
    of = device([one.device for one in places])
    watched = {cell.throttled for cell in cells}
    cell = replace(
        first.cell,
        gpu_uuid=of.gpu_uuid,
        values=_launches(cells),
        parameters=next((cell.parameters for cell in cells if cell.parameters is not None), None),
        throttled=True if True in watched else None if None in watched else False,
        **{name: combine([getattr(cell, name) for cell in cells]) for name, combine in _DOUBTS.items()},
    )
    return Place(of, cell)


def _launches(cells: Sequence[SideCell]) -> tuple[float, ...]:
    """Return the values of all launches on several devices, without the differences between the devices.

    The logarithms of each device are shifted to a common mean, and stretched so that their sample variance is the
    variance within devices. With one launch per device, the values are unchanged. cells: one for each device.
    """
    logs = [[math.log(value) for value in cell.values] for cell in cells]
    launches = sum(map(len, logs))
    if launches == len(logs):
        return tuple(value for cell in cells for value in cell.values)
    means = [fmean(own) for own in logs]
    middle, stretch = fmean(means), math.sqrt((launches - 1) / (launches - len(logs)))
    return tuple(
        math.exp(middle + stretch * (launch - mean)) for own, mean in zip(logs, means, strict=True) for launch in own
    )


def device(devices: Sequence[SideDevice]) -> SideDevice:
    """Return one or more devices as one that has all their UUIDs, labels and versions."""
    first = devices[0]
    if len(devices) == 1:
        return first
    names = dict.fromkeys(name for one in devices for name in one.stack)
    return replace(
        first,
        gpu_uuid=_all(one.gpu_uuid for one in devices),
        label=_all((one.label for one in devices), " and "),
        stack={name: _all(one.stack.get(name, "unknown") for one in devices) for name in names},
    )


def _all(words: Iterable[str], between: str = ", ") -> str:
    return between.join(dict.fromkeys(words))
