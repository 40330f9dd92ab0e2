"""What must agree before two cells are compared, and what may differ and is named.

identity facts   must agree, or the cell is NOT COMPARABLE
faults           keep a cell out of limits, scores, baselines, trends; in `compare` they are identity facts or doubts
doubts           prevent any verdict: INCONCLUSIVE
not watched      prevents SAME and FASTER, and is reported with all else
stack facts      are what people compare: named in the title
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from orchestrator.compare.run_figures import Side, SideCell, SideDevice
from orchestrator.figures.cells import Status
from protocol.cell import DeviceKind

ONE_LAUNCH: Final = "one launch: no verdict"
UNWATCHED: Final = "whether it was throttled is not known"


class Place(NamedTuple):
    """A cell of one run on its device."""

    device: SideDevice
    cell: SideCell


class _Fact(NamedTuple):
    words: str
    read: Callable[[Place], str]


class _Fault(NamedTuple):
    """What neither side may have. has_ratio: `compare` still reports a ratio. remedy: how to measure valid times."""

    words: str
    found: Callable[[Place], bool]
    with_status: bool = False
    remedy: str = ""
    has_ratio: bool = False


_OF_THE_CELL: Final = (
    _Fact("batch size", lambda one: str(one.cell.ran_at)),
    _Fact("metric", lambda one: one.cell.metric),
)
_OF_THE_MODEL: Final = _Fact(
    "parameters", lambda one: "unknown" if one.cell.parameters is None else f"{one.cell.parameters}"
)
_OF_THE_DEVICE: Final = (
    _Fact("GPU model", lambda one: one.device.gpu_name),
    _Fact("memory", lambda one: _with_unit(one.device.memory_mb, "MB")),
    _Fact("power limit", lambda one: _with_unit(one.device.power_limit_w, "W")),
)
"""The other facts are in the key of a cell, by which it is paired."""

_FAULTS: Final = (
    _Fault("without a result", lambda one: not one.cell.values, with_status=True),
    _Fault("measured at a smaller batch than asked for", lambda one: one.cell.status != Status.OK),
    _Fault("throttled", lambda one: one.cell.throttled is True, remedy="let it cool, and measure again"),
    _Fault("contaminated by another process", lambda one: one.cell.contaminated, remedy="measure it alone"),
    _Fault(
        "times were not steady after warm-up",
        lambda one: not one.cell.steady,
        remedy="measure longer, as with --profile rigorous",
        has_ratio=True,
    ),
)


def fault(place: Place) -> str:
    """Return why nothing may be based on a cell, or ""."""
    found = _gravest(_FAULTS, place)
    return "" if found is None else _fault_words(found, (place,))


def advice(place: Place) -> str:
    """Return `fault` with its remedy."""
    found = _gravest(_FAULTS, place)
    return "" if found is None else ": ".join(filter(None, (_fault_words(found, (place,)), found.remedy)))


def difference(before: Place, after: Place, *, any_device: bool = False) -> str:
    """Return the fact that prevents a comparison of two cells, or "". any_device: another GPU model is allowed."""
    if (found := _gravest((one for one in _FAULTS if not one.has_ratio), before, after)) is not None:
        who = {name: one for name, one in (("the first", before), ("the second", after)) if found.found(one)}
        return f"{' and '.join(who)} {'are' if len(who) > 1 else 'is'} {_fault_words(found, who.values())}"
    facts = (*_OF_THE_CELL, *(() if any_device else _OF_THE_DEVICE))
    for fact in facts:
        if fact.read(before) != fact.read(after):
            return f"{fact.words} {fact.read(before)}, then {fact.read(after)}"
    counts = {_OF_THE_MODEL.read(before), _OF_THE_MODEL.read(after)} - {"unknown"}
    if len(counts) > 1:
        return f"{_OF_THE_MODEL.words} {_OF_THE_MODEL.read(before)}, then {_OF_THE_MODEL.read(after)}"
    return ""


def _gravest(faults: Iterable[_Fault], *places: Place) -> _Fault | None:
    return next((fault for fault in faults if any(map(fault.found, places))), None)


def _fault_words(found: _Fault, places: Iterable[Place]) -> str:
    states = ", ".join(dict.fromkeys(one.cell.status.value for one in places))
    return f"{found.words} ({states})" if found.with_status else found.words


def doubt(before: Place, after: Place) -> str:
    """Return why there is a ratio but no verdict, or ""."""
    if DeviceKind.CPU in (before.device.kind, after.device.kind):
        return "a CPU device gets no performance verdict: the machine drifts"
    if (found := _gravest((one for one in _FAULTS if one.has_ratio), before, after)) is not None:
        return found.words
    if min(len(before.cell.values), len(after.cell.values)) < 2:
        return ONE_LAUNCH
    return ""


def not_watched(kind: str, throttled: bool | None) -> bool:  # noqa: FBT001  # a state of three, as the report has it
    """Whether nobody knows if a cell was throttled. CPU devices have no such telemetry, so they need none."""
    return throttled is None and kind != DeviceKind.CPU


def unwatched(before: Place, after: Place) -> str:
    """Return which side has no throttling telemetry, or ""."""
    sides = {"the first": before, "the second": after}
    who = [name for name, one in sides.items() if not_watched(one.device.kind, one.cell.throttled)]
    return f"whether {' and '.join(who)} {'were' if len(who) > 1 else 'was'} throttled is not known" if who else ""


class Change(NamedTuple):
    """A stack fact that differs; "" where it is unknown."""

    name: str
    before: str
    after: str

    @property
    def words(self) -> str:
        """The change in words: "driver 570 -> 580"."""
        return f"{self.name} {self.before or 'unknown'} -> {self.after or 'unknown'}"


def changes(before: Side, after: Side, paired: Iterable[tuple[SideDevice, SideDevice]]) -> Iterator[Change]:
    """Yield the differences of the stacks, then of the paired devices."""
    yield from differences(before.stack, after.stack)
    seen: dict[Change, None] = {}
    for old, new in paired:
        if old.gpu_uuid != new.gpu_uuid:
            seen[Change("board", old.gpu_uuid, new.gpu_uuid)] = None
        for change in differences(old.stack, new.stack):
            seen[change] = None
    yield from seen


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    """Yield the differences between two stacks, of runs or of devices."""
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            yield Change(name, old, new)


def _with_unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:g} {unit}"
