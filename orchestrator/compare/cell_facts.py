"""What must agree before two cells are compared, and what may differ and is named.

identity facts   must agree, or the cell is NOT COMPARABLE
faults           keep a cell out of limits, scores, baselines, trends; in `compare` NOT COMPARABLE or a doubt
doubts           a cell that was not steady is judged by the prior standard deviation, or by its own if that is larger
not watched      prevents SAME, NO CHANGE SEEN and FASTER, and is a remark on every other verdict
stack facts      are what people compare, so the title names those that differ
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from orchestrator.compare.run_figures import Side, SideCell, SideDevice
from orchestrator.figures.cells import Status
from orchestrator.figures.quality import SPREAD_LIMIT_PERCENT
from orchestrator.gpu.environment import EFFECTS
from orchestrator.stats.two_runs import LEAST_LAUNCHES
from protocol.cell import DeviceKind

_FEW: Final = {1: "one launch", 2: "two launches"}
_READ_BY_LAUNCHES: Final = frozenset({"torch", "CUDA", "cuDNN", "torchvision", "transformers", "python"})
"""Stack facts that a run without any result does not know."""
_ABSENT: Final = dict.fromkeys(("iterations", "warm-up iterations"), "adaptive")
UNWATCHED: Final = "unknown if it was throttled"


class Place(NamedTuple):
    """A cell of one run on its device."""

    device: SideDevice
    cell: SideCell


class _Fact(NamedTuple):
    words: str
    read: Callable[[Place], str]


class _Fault(NamedTuple):
    """A fault that keeps a cell from being compared.

    same_work: `compare` shows the change. judged: `compare` also shows a verdict, by the prior standard deviation.
    """

    words: str
    found: Callable[[Place], bool]
    with_status: bool = False
    remedy: str = ""
    same_work: bool = False
    judged: bool = False


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

STEADIER: Final = (
    "this machine varies, and a longer profile would not help: end other programs, choose a larger batch (-b), measure "
    "one device at a time (--solo) or on fixed cores (taskset)"
)
_FAULTS: Final = (
    _Fault("without a result", lambda one: not one.cell.values, with_status=True),
    _Fault("measured at a smaller batch than requested", lambda one: one.cell.status != Status.OK),
    _Fault(
        "throttled", lambda one: one.cell.throttled is True, remedy="let it cool, and measure again", same_work=True
    ),
    _Fault(
        "contaminated by another process", lambda one: one.cell.contaminated, remedy="measure it alone", same_work=True
    ),
    _Fault(
        "times were not steady after warm-up",
        lambda one: not one.cell.steady,
        remedy="measure longer, as with --profile rigorous",
        same_work=True,
        judged=True,
    ),
)


def fault(place: Place) -> str:
    """Return the fault of a cell, because of which no limit, score or verdict uses it, or ""."""
    found = _gravest(_FAULTS, place)
    return "" if found is None else _fault_words(found, (place,))


def advice(place: Place) -> str:
    """Return `fault` with its remedy."""
    found = _gravest(_FAULTS, place)
    if found is None:
        return ""
    remedy = STEADIER if found.judged and _varies(place) else found.remedy
    return ": ".join(filter(None, (_fault_words(found, (place,)), remedy)))


def _varies(place: Place) -> bool:
    """Whether the machine makes times unsteady, so that measuring longer would not help."""
    values = place.cell.values
    return place.device.kind == DeviceKind.CPU or max(values) > (1 + SPREAD_LIMIT_PERCENT / 100) * min(values)


def difference(before: Place, after: Place, *, any_device: bool = False) -> str:
    """Return the fact that prevents a comparison of two cells, or "". any_device: another GPU model is allowed."""
    if (found := _gravest((one for one in _FAULTS if not one.judged), before, after)) is not None:
        who = {name: one for name, one in (("the first", before), ("the second", after)) if found.found(one)}
        return f"{' and '.join(who)} {'are' if len(who) > 1 else 'is'} {_fault_words(found, who.values())}"
    return _differing_fact(before, after, any_device=any_device)


def is_same_work(before: Place, after: Place) -> bool:
    """Whether two cells did the same work, so that their change can be shown without a verdict."""
    found = _gravest((one for one in _FAULTS if not one.same_work), before, after)
    return found is None and not _differing_fact(before, after)


def _differing_fact(before: Place, after: Place, *, any_device: bool = False) -> str:
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


def _fault_words(fault: _Fault, places: Iterable[Place]) -> str:
    states = ", ".join(dict.fromkeys(place.cell.status.value for place in places))
    return f"{fault.words} ({states})" if fault.with_status else fault.words


def doubt(before: Place, after: Place) -> str:
    """Return the fault because of which a cell is judged by the prior standard deviation, or ""."""
    found = _gravest((one for one in _FAULTS if one.judged), before, after)
    return "" if found is None else found.words


def measures_host(before: Place, after: Place) -> bool:
    """Whether the launches of a cell scatter like those of host cells, and not like those of GPU cells."""
    launches = min(len(before.cell.values), len(after.cell.values))
    # An unsteady cell of several launches shows its own scatter; the prior of the host would hide a GPU's change.
    unknown = launches < LEAST_LAUNCHES and doubt(before, after)
    if DeviceKind.CPU in (before.device.kind, after.device.kind) or unknown:
        return True
    bound = {before.cell.host_bound, after.cell.host_bound}
    return True in bound or False not in bound


def few_launches(before: Place, after: Place) -> str:
    """Return the remark on a verdict that uses the prior standard deviation because of few launches, or ""."""
    return _FEW.get(min(len(before.cell.values), len(after.cell.values)), "")


def not_watched(kind: str, throttled: bool | None) -> bool:  # noqa: FBT001  # a state of three, as the report has it
    """Whether it is unknown if a cell was throttled. False for CPU devices, which need no such telemetry."""
    return throttled is None and kind != DeviceKind.CPU


def unwatched(before: Place, after: Place) -> str:
    """Return which side has no throttling telemetry, or ""."""
    sides = {"the first": before, "the second": after}
    who = [name for name, one in sides.items() if not_watched(one.device.kind, one.cell.throttled)]
    return f"unknown if {' and '.join(who)} {'were' if len(who) > 1 else 'was'} throttled" if who else ""


class Change(NamedTuple):
    """A stack fact that differs; "" where it is unknown."""

    name: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """Return "driver 570 -> 580"."""
        return f"{self.name} {shown(self.name, self.before)} -> {shown(self.name, self.after)}"


def shown(name: str, value: str | None) -> str:
    """Return the value of a stack fact, or what its absence means."""
    return value or ("not set" if name in EFFECTS else _ABSENT.get(name, "unknown"))


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
    """Yield the differences between two stacks, of runs or of devices. Unknown versions have not changed."""
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new and ((old and new) or name not in _READ_BY_LAUNCHES):
            yield Change(name, old, new)


def _with_unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:g} {unit}"
