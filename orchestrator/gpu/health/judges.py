"""Judge the health signals of a GPU (config/health_signals.py) by the limits of configs/health.yaml. Pure."""

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.config.health_signals import Board
from orchestrator.gpu.health import xids
from orchestrator.gpu.health.clocks import ClockUse
from orchestrator.gpu.health.course import SOURCES, Course
from orchestrator.gpu.health.limits import Limits
from orchestrator.gpu.health.xids import XidKind
from orchestrator.gpu.nvml_errors import RESET_REQUIRED
from orchestrator.gpu.telemetry.overheating import HELD_S
from protocol.failure import Category, Failure


class State(enum.StrEnum):
    """The state of one health signal.

    UNREADABLE: the signal applies to this GPU, but a value is missing. NOT_APPLICABLE: such GPUs do not have it, or it
    has nothing to judge (no launch failed).
    """

    PASS = "pass"  # noqa: S105 - a verdict, no password
    WARN = "warn"
    FAIL = "fail"
    UNREADABLE = "unreadable"
    NOT_APPLICABLE = "not applicable"


class Action(enum.StrEnum):
    """What to do about a GPU, mildest advice first.

    RESUME: to measure what is missing. PAIRS: run checks of links with one other GPU, to find out which one is faulty.
    """

    NOTHING = ""
    RESUME = "go on with `resume`"
    AGAIN = "burn it in again"
    PAIRS = "test it with one other at a time"
    MONITOR = "watch for a repeat"
    SLOW = "find out why it is slow"
    COOL = "check its cooling"
    RESET = "reset the GPU"
    REBOOT = "reboot the machine"
    REPLACE = "take it out of service"

    @property
    def severity(self) -> int:
        """Place among the actions, the mildest at 0."""
        return tuple(Action).index(self)

    @property
    def advice(self) -> str:
        """The action with details: what to check, or what to do if it does not help."""
        return f"{self}{_DETAILS.get(self, '')}"


_IF_REPEATED: Final = "; if the error recurs, take the GPU out of service"
_DETAILS: Final = {
    Action.COOL: ": fans, dust, airflow at its slot",
    Action.RESET: _IF_REPEATED,
    Action.REBOOT: _IF_REPEATED,
}


@dataclass(frozen=True)
class Judgement:
    """The judged state of a signal, why (text, may be ""), and what to do.

    partly: judged without some of its values. If the signal is required, that is not enough for PASS.
    """

    state: State
    message: str = ""
    action: Action = Action.NOTHING
    partly: bool = False


@dataclass(frozen=True)
class Case:
    """The facts about one GPU that its health signals are judged by.

    board: facts that decide which signals apply. course: changes of its health values over the run. use: shares of time
    with lowered clocks. siblings: changes on identical GPUs. xids: the driver's error numbers, ordered by time.
    failures: failed launches with a hardware fault. accused: other failed launches that are attributed to this GPU.
    """

    board: Board
    course: Course
    limits: Limits
    use: ClockUse = field(default_factory=ClockUse)
    siblings: tuple[Course, ...] = ()
    xids: tuple[int, ...] = ()
    failures: tuple[Failure, ...] = ()
    accused: tuple[Failure, ...] = ()


WELL: Final = Judgement(State.PASS)
_ABSENT: Final = Judgement(State.NOT_APPLICABLE)
_RESETS: Final = f"(NVML error {RESET_REQUIRED})"
"""How the reason that reader.py gives ends, if a GPU needs a reset."""


def _warn(message: str, action: Action = Action.MONITOR) -> Judgement:
    return Judgement(State.WARN, message, action)


def _fail(message: str, action: Action) -> Judgement:
    return Judgement(State.FAIL, message, action)


def _unreadable(message: str) -> Judgement:
    return Judgement(State.UNREADABLE, message)


def _gpu(case: Case) -> Judgement:
    if case.course.broken:
        return _fail(case.course.broken, Action.RESET if _RESETS in case.course.broken else Action.REBOOT)
    if case.course.damaged:
        return _fail(case.course.damaged, Action.REPLACE)
    return WELL if case.course.last else _unreadable("no readings")


def _xid(case: Case) -> Judgement:
    course = case.course
    sources = _sources(course)
    if not case.xids:
        if course.deaf or not course.looks:
            return _unreadable(sources or course.deaf or "errors of the driver were not recorded")
        return Judgement(State.PASS, sources)
    roots = xids.roots(case.xids)
    meanings = [xids.described(number) for number in roots]
    message = "; ".join([*meanings, sources] if sources else meanings)
    kinds = {xids.kind(number) for number in roots}
    if kinds & xids.HARDWARE:
        return _fail(message, Action.REBOOT if XidKind.MACHINE in kinds else Action.RESET)
    action = Action.RESET if XidKind.MEMORY in kinds else Action.MONITOR
    return Judgement(State.WARN, message, action, partly=bool(course.deaf))


def _sources(course: Course) -> str:
    if not course.unheard:
        return ""
    heard = [source for source in SOURCES if source not in course.unheard]
    return ", ".join(
        f"{source} {'heard' if source in heard else f'not heard ({course.unheard[source]})'}" for source in SOURCES
    )


def _launches(case: Case) -> Judgement:
    if not case.failures and not case.accused:
        return _ABSENT
    if not case.failures:
        kinds = ", ".join(dict.fromkeys(failure.category for failure in case.accused))
        return _warn(f"{len(case.accused)} failed ({kinds}). Other work shows that this device is probably the cause")
    first, others = case.failures[0], len(case.failures) - 1
    code = "" if first.code is None else f" (code {first.code})"
    more = f", and {others} more" if others else ""
    lost = any(failure.category is Category.DEVICE_LOST for failure in case.failures)
    return _fail(f"{first.category}: {first.message}{code}{more}", Action.REBOOT if lost else Action.RESET)


_RECOVERY: Final = {
    1: _fail("the driver requests a reset of the GPU", Action.RESET),
    2: _fail("the driver requests a reboot", Action.REBOOT),
    3: _warn("the driver requests no peer-to-peer work on the GPU", Action.MONITOR),
    4: _fail("the driver requests to drain and reset the GPU", Action.RESET),
    5: _fail("the driver requests recovery of the memory-sharing domain (IMEX)", Action.REBOOT),
    6: _fail("the driver requests a bus reset", Action.RESET),
    7: _fail("the driver requests a reboot", Action.REBOOT),
}


def _recovery(case: Case) -> Judgement:
    worst = case.course.highest["recovery_action"]
    return WELL if worst == 0 else _RECOVERY.get(worst, _fail(f"the driver requests action {worst}", Action.REBOOT))


def _ecc_uncorrected(case: Case) -> Judgement:
    if risen := case.course.uncorrected:
        return _fail(f"{risen} in this run", Action.RESET)
    before = case.course.last["ecc_uncorrected"]
    return _fail(f"{before} since the driver was loaded, before this run", Action.RESET) if before else WELL


def _ecc_corrected(case: Case) -> Judgement:
    risen = case.course.rise["ecc_corrected"]
    return _warn(f"{risen} in this run") if risen > case.limits.ecc_corrected else WELL


def _sram(case: Case) -> Judgement:
    return _fail("beyond the threshold", Action.REPLACE) if case.course.highest["sram_threshold"] else WELL


def _rows_failed(case: Case) -> Judgement:
    return _fail("remapping has failed", Action.REPLACE) if case.course.highest["rows_failed"] else WELL


def _rows_pending(case: Case) -> Judgement:
    return (
        _fail("rows are waiting to be remapped. Reset first", Action.RESET)
        if case.course.last["rows_pending"]
        else WELL
    )


def _retired_pages(case: Case) -> Judgement:
    pages = case.course.last["retired_pages"]
    return _fail(f"{pages} pages", Action.REPLACE) if pages >= case.limits.retired_pages else WELL


def _slowdown(case: Case) -> Judgement:
    use, limits = case.use, case.limits
    if not use.readings:
        return _unreadable("no readings of the clocks")
    if use.slowed_worst is not None and use.slowed_worst >= limits.slowdown_fail_share:
        return _fail(f"{use.slowed_worst:.0%} of ten minutes. Check cooling and power supply", Action.COOL)
    if use.slowed > limits.slowdown_warn_share:
        return _warn(f"{use.slowed:.0%} of the time. Check cooling and power supply")
    return WELL


def _power_limit(case: Case) -> Judgement:
    limit, default = case.course.lowest["power_limit_mw"], case.course.last["power_default_mw"]
    if limit < default and case.use.capped:
        return _warn(f"lowered from {default / 1000:.0f} W to {limit / 1000:.0f} W, and reached")
    return WELL


def _thermal_violation(case: Case) -> Judgement:
    seconds = case.course.rise["thermal_violation_ns"] / 1e9
    share = seconds / case.course.watched_s if case.course.watched_s else 0.0
    return _warn(f"{share:.0%} of the time") if share > case.limits.thermal_violation_share else WELL


def _temperature(value: str) -> Callable[[Case], Judgement]:
    def judge(case: Case) -> Judgement:
        if case.course.spent_s.get(value, 0.0) >= HELD_S:
            return _fail("at its limit for ten seconds or longer", Action.COOL)
        left = case.course.lowest[value]
        return _warn(f"{left} degrees below its limit") if left <= case.limits.temperature_near_c else WELL

    return judge


def _pcie_replays(case: Case) -> Judgement:
    course, rates = case.course, case.limits.pcie_replays_per_lane_minute
    minutes = course.watched_s / 60
    generation = max(1, min(course.highest["pcie_generation"], len(rates)))
    allowed = course.last["pcie_width"] * rates[generation - 1] * max(minutes, 1.0)
    risen = course.rise["pcie_replays"]
    return _warn(f"{risen} in {minutes:.1f} minutes. Reseat the board or its riser") if risen > allowed else WELL


def _pcie_generation(case: Case) -> Judgement:
    lowest, most = case.course.busy_lowest.get("pcie_generation"), case.course.last["pcie_generation_max"]
    if lowest is None:
        return _unreadable("not read under load")
    return _warn(f"{lowest} of {most} under load") if lowest < most else WELL


def _pcie_width(case: Case) -> Judgement:
    lowest, most = case.course.lowest["pcie_width"], case.course.last["pcie_width_max"]
    return _warn(f"{lowest} of {most} lanes. Reseat the board or its riser") if lowest < most else WELL


def _nvlinks(case: Case) -> Judgement:
    """FAIL if fewer NVLinks than expected were up at any time, but WARN if the GPU and its siblings never had one.

    Expected is the largest of: the number in health.yaml, the GPU's highest, the most common highest of its siblings.
    """
    lowest, highest = case.course.lowest["nvlinks_up"], case.course.highest["nvlinks_up"]
    others = Counter(up for sibling in case.siblings if (up := sibling.highest.get("nvlinks_up", 0)))
    usual = max(others, key=lambda up: (others[up], up), default=0)
    expected = max(case.board.nvlinks, usual, highest)
    if highest == 0 and usual == 0:
        return _warn("none on any of these boards, although the machine has several GPUs")
    return _fail(f"{lowest} of {expected}", Action.RESET) if lowest < expected else WELL


def _nvlink_errors(case: Case) -> Judgement:
    risen = case.course.rise["nvlink_errors"]
    return _warn(f"{risen} in this run") if risen else WELL


_FABRIC: Final = {1: "not started", 2: "in progress", 3: "completed"}


def _fabric(case: Case) -> Judgement:
    state, status = case.course.last["fabric_state"], case.course.last["fabric_status"]
    if state == 0:
        return _ABSENT
    if state == 3 and status == 0:
        return WELL
    return _fail(f"{_FABRIC.get(state, state)}, status {status}. Check the fabric manager", Action.REBOOT)


JUDGES: Final[Mapping[str, Callable[[Case], Judgement]]] = {
    "gpu": _gpu,
    "xid": _xid,
    "launches": _launches,
    "recovery_action": _recovery,
    "ecc_uncorrected": _ecc_uncorrected,
    "ecc_corrected": _ecc_corrected,
    "sram": _sram,
    "rows_failed": _rows_failed,
    "rows_pending": _rows_pending,
    "retired_pages": _retired_pages,
    "slowdown": _slowdown,
    "power_limit": _power_limit,
    "thermal_violation": _thermal_violation,
    "gpu_temperature": _temperature("gpu_margin_c"),
    "memory_temperature": _temperature("memory_margin_c"),
    "pcie_replays": _pcie_replays,
    "pcie_generation": _pcie_generation,
    "pcie_width": _pcie_width,
    "nvlinks": _nvlinks,
    "nvlink_errors": _nvlink_errors,
    "fabric": _fabric,
}
"""Signal → function that judges it, called if the signal applies and all its values could be read."""
