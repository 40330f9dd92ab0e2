"""Facts that must agree before two cells (models in one configuration) are compared, and facts that are reported.

identity facts   must agree, or the cell is NOT COMPARABLE
faults           keep a cell out of limits, scores, baselines, trends; in `compare` NOT COMPARABLE or a doubt
doubts           a cell that was not steady is judged by the prior standard deviation (that of configs/margins.yaml), or
                 by its own if that is larger
not watched      throttling is unknown: prevents SAME, NO CHANGE SEEN and FASTER, and is a remark on other verdicts
stack facts      versions and settings: they are what people compare, so the title names those that differ
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from orchestrator.compare.run_figures import Side, SideCell, SideDevice
from orchestrator.figures.cells import Status
from orchestrator.figures.parts import UNSTEADY
from orchestrator.figures.quality import SPREAD_LIMIT_PERCENT
from orchestrator.gpu.environment import EFFECTS
from orchestrator.stats.two_runs import LEAST_LAUNCHES
from protocol.cell import DeviceKind
from protocol.failure import Category

_FEW: Final = {1: "one launch", 2: "two launches"}
_READ_BY_LAUNCHES: Final = frozenset({"torch", "CUDA", "cuDNN", "torchvision", "transformers", "python"})
"""Facts of the stack that only launches report, so that a run without any result does not know them."""
_ABSENT: Final = dict.fromkeys(("iterations", "warm-up iterations"), "adaptive")
UNWATCHED: Final = "throttling unknown"


class Place(NamedTuple):
    """A cell of one run, with the device that measured it."""

    device: SideDevice
    cell: SideCell


class _Fact(NamedTuple):
    words: str
    read: Callable[[Place], str]


class _Fault(NamedTuple):
    """A fault that keeps a cell from being compared. words: its name. found: returns whether a cell has it.

    with_status: texts name the cell's status, too. remedy: what to do. same_work: `compare` shows the change of speed
    nevertheless. judged: `compare` also gives a verdict, by the standard deviation of the cell or of
    configs/margins.yaml, whichever is larger.
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
"""Facts of the device that must agree, besides those of the cell, those of the model, and the key of the cell."""

STEADIER: Final = (
    "this machine varies, and a longer profile would not help: end other programs, choose a larger batch (-b), measure "
    "one device at a time (--solo) or on fixed cores (taskset)"
)
_FAULTS: Final = (
    _Fault("without a result", lambda one: not one.cell.values, with_status=True),
    _Fault("wrong", lambda one: bool(one.cell.wrong), remedy="fix the result: it has no speed while it is wrong"),
    _Fault("measured at a smaller batch than requested", lambda one: one.cell.status != Status.OK),
    _Fault(
        "throttled",
        lambda one: one.cell.throttled is True,
        remedy="let the GPU cool, and measure again",
        same_work=True,
    ),
    _Fault(
        str(Category.CONTAMINATED),
        lambda one: one.cell.contaminated,
        remedy="end the other process, and measure again",
        same_work=True,
    ),
    _Fault(
        f"times were {UNSTEADY}",
        lambda one: not one.cell.steady,
        remedy="measure longer, as with --profile rigorous",
        same_work=True,
        judged=True,
    ),
)


def fault(place: Place) -> str:
    """Return the gravest fault of a cell, such as "throttled"; "" without a fault."""
    found = _gravest(_FAULTS, place)
    return "" if found is None else _fault_words(found, (place,))


def advice(place: Place) -> str:
    """Return the fault of a cell with its remedy, "throttled (let the GPU cool, and measure again)", or ""."""
    found = _gravest(_FAULTS, place)
    if found is None:
        return ""
    remedy = STEADIER if found.judged and _varies(place) else found.remedy
    words = _fault_words(found, (place,))
    return f"{words} ({remedy})" if remedy else words


def _varies(place: Place) -> bool:
    """Whether a cell's times are unsteady because of the machine, so that measuring longer would not help."""
    values = place.cell.values
    return place.device.kind == DeviceKind.CPU or max(values) > (1 + SPREAD_LIMIT_PERCENT / 100) * min(values)


def difference(before: Place, after: Place, *, any_device: bool = False) -> str:
    """Return why two cells cannot be compared, such as "batch size 8, then 4"; "" if they can.

    The reason is a fault of one or both cells, or a fact that differs. Unsteady times are no reason. any_device: allow
    another GPU model, memory or power limit.
    """
    if (found := _gravest((one for one in _FAULTS if not one.judged), before, after)) is not None:
        who = {name: one for name, one in _sides(before, after) if found.found(one)}
        return f"{_fault_words(found, who.values())} in {' and '.join(who)}"
    return _differing_fact(before, after, any_device=any_device)


def is_same_work(before: Place, after: Place) -> bool:
    """Whether two cells did the same work on equal devices, so that a ratio can be shown.

    They may be throttled, contaminated or unsteady.
    """
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
    """Return "times were not steady after warm-up" if one of two compared cells has this fault, else ""."""
    found = _gravest((one for one in _FAULTS if one.judged), before, after)
    return "" if found is None else found.words


def measures_host(before: Place, after: Place) -> bool:
    """Whether two cells are judged by the expected spread of host-bound cells, not by that of GPU-bound cells.

    True in each of these cases:

        one or both are host-bound, or ran on a CPU device
        for both it is unknown whether they are host-bound
        one was not steady, and one (the same or the other) has too few launches to show its own spread
    """
    launches = min(len(before.cell.values), len(after.cell.values))
    # An unsteady cell of several launches shows its own scatter; the prior of the host would hide a GPU's change.
    unknown = launches < LEAST_LAUNCHES and doubt(before, after)
    if DeviceKind.CPU in (before.device.kind, after.device.kind) or unknown:
        return True
    bound = {before.cell.host_bound, after.cell.host_bound}
    return True in bound or False not in bound


def few_launches(before: Place, after: Place) -> str:
    """Return "one launch" or "two launches" if the cell with fewer has so few that its spread is unknown; else ""."""
    return _FEW.get(min(len(before.cell.values), len(after.cell.values)), "")


def not_watched(kind: str, throttled: bool | None) -> bool:  # noqa: FBT001  # a state of three, as the report has it
    """Whether `throttled` of a cell is unknown (None). False for the `kind` CPU, which needs no such telemetry."""
    return throttled is None and kind != DeviceKind.CPU


def unwatched(before: Place, after: Place) -> str:
    """Return "throttling unknown in the first run", or in the second, or in both; "" if it is known in both."""
    who = [name for name, one in _sides(before, after) if not_watched(one.device.kind, one.cell.throttled)]
    return f"{UNWATCHED} in {' and '.join(who)}" if who else ""


def _sides(before: Place, after: Place) -> tuple[tuple[str, Place], ...]:
    return ("the first run", before), ("the second run", after)


class Change(NamedTuple):
    """A version or setting that differs between two runs or devices, with its values before and after.

    A value is "" if it is not set or unknown, or if it is adaptive, as a number of iterations can be.
    """

    name: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """Name with both values: "driver 570 -> 580"."""
        return f"{self.name} {shown(self.name, self.before)} -> {shown(self.name, self.after)}"


def shown(name: str, value: str | None) -> str:
    """Return the value of the version or setting `name` as text.

    Without a value: "not set" (variables), "adaptive" (iterations), or "unknown".
    """
    if name in EFFECTS:
        return value or "not set"
    return value.replace(", ", " and ") if value else _ABSENT.get(name, "unknown")  # a run may have several drivers


def changes(before: Side, after: Side, paired: Iterable[tuple[SideDevice, SideDevice]]) -> Iterator[Change]:
    """Yield the differing versions and settings of two runs, then those of `paired` devices, each once.

    paired: (device of `before`, its partner in `after`). If their UUIDs differ, the change "board" has both UUIDs.
    """
    yield from differences(before.stack, after.stack)
    seen: dict[Change, None] = {}
    for old, new in paired:
        if old.gpu_uuid != new.gpu_uuid:
            seen[Change("board", old.gpu_uuid, new.gpu_uuid)] = None
        for change in differences(old.stack, new.stack):
            seen[change] = None
    yield from seen


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    """Yield the versions and settings that differ between two runs or devices.

    before, after: name of a version or setting ("driver") → its value. An unknown version is no difference if only
    launches report it, such as torch's: a run without results lacks it.
    """
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new and ((old and new) or name not in _READ_BY_LAUNCHES):
            yield Change(name, old, new)


def _with_unit(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:g} {unit}"
