"""What a baseline has of a cell, whichever of its devices measured it: one cell, on what counts as one device. Pure.

    the cell on each device of it ── those that compare ─┬─ the same board is one of them ──▶ that one
                                                         └─ the devices in the middle ──────▶ their launches together

In the middle: one device, or of an even number the two, by their median. So one bad board of several moves nothing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Final

from msgspec.structs import replace

from orchestrator.compare import cell_facts
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import SideCell, SideDevice

_DOUBTS: Final[dict[str, Callable[[Sequence[bool]], bool]]] = {"steady": all, "contaminated": any, "power_capped": any}
"""What one of the cells has, the whole has; steady it is where all are."""


def partners(known: Sequence[Place], place: Place, *, any_device: bool = False) -> Sequence[Place]:
    """What of a baseline a cell is held against. known: that cell, on each device that the baseline has it of.

    A board beside itself comes first, so that what boards differ by neither hides a change nor looks like one. Where
    none compares, the one that shares most with it, so that the fact that differs can be named; none of none.
    any_device: also another model of GPU may be compared, and the same board is one of several: a score is of machines.
    """
    compare = [one for one in known if not cell_facts.difference(one, place, any_device=any_device)]
    if not compare:
        return sorted(known, key=lambda one: one.device.gpu_name != place.device.gpu_name)[:1]
    own = [one for one in compare if one.device.gpu_uuid == place.device.gpu_uuid]
    if own and not any_device:
        return own
    ranked = sorted(compare, key=lambda one: median(one.cell.rates))
    return ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]


def together(places: Sequence[Place]) -> Place:
    """These, at least one, as one cell with the launches of all."""
    first = places[0]
    if len(places) == 1:
        return first
    cells = [one.cell for one in places]
    of = device([one.device for one in places])
    watched = {cell.throttled for cell in cells}
    cell = replace(
        first.cell,
        gpu_uuid=of.gpu_uuid,
        values=_launches(cells),
        parameters=next((cell.parameters for cell in cells if cell.parameters is not None), None),
        throttled=True if True in watched else None if None in watched else False,
        **{name: told([getattr(cell, name) for cell in cells]) for name, told in _DOUBTS.items()},
    )
    return Place(of, cell)


def _launches(cells: Sequence[SideCell]) -> tuple[float, ...]:
    """The launches of all, on logarithms moved to the mean of the boards.

    What boards differ by is in the margin; between the launches it would look like noise, and widen every interval.
    Each is as far from the mean of its own board as makes their variance that within the boards, which has as many
    degrees fewer as there are boards. Where each board has one launch, nothing is known within: they stay as they are.
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
    """These, at least one, as one device: its names are those of all, and so are facts in which they differ."""
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
