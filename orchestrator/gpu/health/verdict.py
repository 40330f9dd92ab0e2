"""Verdicts on a GPU and on the machine, with the signals that led to them. Pure. The first match wins.

FAIL            a signal shows faulty hardware
UNKNOWN         a required signal could not be read, the readings broke off, or nothing could be read
WARN            a signal needs attention
PASS            all required signals were read, and all that were read are healthy
NOT APPLICABLE  a device without such signals
"""

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from orchestrator.config.health_signals import SIGNALS, BoardClass, Signal
from orchestrator.gpu.health import xids
from orchestrator.gpu.health.course import Course, Look
from orchestrator.gpu.health.judges import JUDGES, Action, Case, Judgement, State
from orchestrator.gpu.health.records import LOOK_NS, NOT_COUNTED, UNSUPPORTED

GAP_NS: Final = 3 * LOOK_NS
"""Gap between two readings of a working GPU above which its readings have broken off."""


class HealthVerdict(enum.StrEnum):
    """Verdict on a GPU, on the machine, or on all of them. The module's docstring says when each is given."""

    PASS = "PASS"  # noqa: S105 - a verdict, no password
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    NOT_APPLICABLE = "NOT APPLICABLE"


GRAVEST_FIRST: Final = (
    HealthVerdict.FAIL,
    HealthVerdict.UNKNOWN,
    HealthVerdict.WARN,
    HealthVerdict.PASS,
    HealthVerdict.NOT_APPLICABLE,
)
_OF_A_SLICE: Final = frozenset({"launches"})
"""Names of signals that a MIG slice has for itself. All others are those of the whole GPU."""
_OF_A_LOST_SLICE: Final = _OF_A_SLICE | {"xid"}
"""Names of signals that are judged for a slice after a grave Xid, which ends all slices of its GPU."""


@dataclass(frozen=True)
class Finding:
    """One health signal of one GPU or of the machine, as judged.

    start, end, rise: first reading, last reading and increase of the first value that the signal is judged by. None if
    it was not read. rise is meaningful for counters only, and goes on across resets. required: PASS needs this signal.
    """

    name: str
    title: str
    required: bool
    judgement: Judgement
    start: int | None = None
    end: int | None = None
    rise: int | None = None


@dataclass(frozen=True)
class Opinion:
    """A verdict on a GPU or the machine. findings: the judged signals. lacking: required signals not read all the time.

    action: the gravest action of any finding. note: why there is no verdict or readings are incomplete, or "".
    """

    verdict: HealthVerdict
    findings: tuple[Finding, ...]
    action: Action
    lacking: tuple[str, ...] = ()
    note: str = ""

    @property
    def applicable(self) -> tuple[Finding, ...]:
        """Findings whose signal applies to the device."""
        return tuple(finding for finding in self.findings if finding.judgement.state is not State.NOT_APPLICABLE)

    @property
    def readable(self) -> tuple[Finding, ...]:
        """Findings whose signal applies and could be read completely."""
        return tuple(
            finding
            for finding in self.applicable
            if finding.judgement.state is not State.UNREADABLE and not finding.judgement.partly
        )


@dataclass(frozen=True)
class Reaction:
    """Reaction of a run to a fault. quarantine: True if it measures nothing more on the GPU. reason: why, or ""."""

    quarantine: bool
    reason: str = ""


def reaction(numbers: Collection[int], *, broken: str = "") -> Reaction:
    """Decide whether to quarantine a GPU: if it is broken, or after an Xid of a kind in xids.ENDS_USE.

    numbers: the GPU's Xids so far. broken: why NVML reports it as unusable, or "" if it does not.
    """
    if broken:
        return Reaction(quarantine=True, reason=broken)
    grave = [number for number in xids.roots(numbers) if xids.kind(number) in xids.ENDS_USE]
    if grave:
        return Reaction(quarantine=True, reason=xids.described(grave[0]))
    return Reaction(quarantine=False)


def of_gpu(case: Case, required: Collection[str], *, gap: str = "") -> Opinion:
    """Return the verdict on one GPU. required: names of signals that PASS needs. gap: why readings are missing, or "".

    A MIG slice is NOT APPLICABLE unless it had launches that failed by a hardware fault, or a grave Xid.
    """
    if case.board.kind is not BoardClass.SLICE:
        return _opinion(tuple(_finding(signal, case, required) for signal in SIGNALS), gap)
    lost = reaction(case.xids).quarantine
    if not (case.failures or lost):
        return not_applicable("not judged: the signals of a slice are those of the whole GPU")
    signals = [signal for signal in SIGNALS if signal.name in (_OF_A_LOST_SLICE if lost else _OF_A_SLICE)]
    return _opinion(tuple(_finding(signal, case, required) for signal in signals), gap)


def not_applicable(note: str) -> Opinion:
    """Return the verdict NOT APPLICABLE for a device without health signals. note: the reason."""
    return Opinion(HealthVerdict.NOT_APPLICABLE, (), Action.NOTHING, note=note)


def of_node(course: Course, *, reboots: int, differences: Sequence[str], gpus: bool, gap: str = "") -> Opinion:
    """Return the verdict on the machine, from its error counters, its reboots and the settings of its GPUs.

    UNKNOWN if no counter could be read to the end. If the machine has none: WARN after a reboot or with differences,
    else NOT APPLICABLE. course: changes of the counters. reboots: number of reboots during the run. differences: texts,
    one for each setting in which identical GPUs differ. gpus: True if the run has GPUs. gap: why readings are
    incomplete, or "".
    """
    reboot = Judgement(State.WARN, "the machine was rebooted during the run", Action.MONITOR)
    findings = [_plain("reboot", "reboots", reboot if reboots else Judgement(State.PASS))]
    counters: list[Finding] = []
    if gpus:
        differs = Judgement(State.WARN, "; ".join(differences), Action.MONITOR)
        well = Judgement(State.PASS)
        findings.append(_plain("siblings", "same configuration of identical GPUs", differs if differences else well))
        counters = [_counter(name, title, course, risen, gap) for name, (title, risen) in _COUNTERS.items()]
        findings += counters
    states = {counter.judgement.state for counter in counters} - {State.NOT_APPLICABLE}
    unread = states == {State.UNREADABLE}
    opinion = _opinion(tuple(findings), "no error counter of the machine was read" if unread else "")
    if states or opinion.verdict is HealthVerdict.WARN:
        return opinion
    return replace(opinion, verdict=HealthVerdict.NOT_APPLICABLE)


def worst(verdicts: Iterable[HealthVerdict], default: HealthVerdict = HealthVerdict.NOT_APPLICABLE) -> HealthVerdict:
    """Return the worst of these verdicts in the order of GRAVEST_FIRST; `default` if there is none."""
    return min(verdicts, key=GRAVEST_FIRST.index, default=default)


@dataclass(frozen=True)
class Work:
    """Time in which a GPU worked, in monotonic ns of one boot.

    unwatched_ns: time at which telemetry ended early; None if it did not.
    """

    boot_id: str
    begin_ns: int
    end_ns: int
    unwatched_ns: int | None = None


def broke_off(looks: Iterable[Look], parts: Iterable[Work]) -> str:
    """Return why a part of a GPU's work lacks health readings, such as "no readings for 40 s"; "" if none does.

    looks: readings, in any order. A part lacks readings if it has none, has a gap above GAP_NS without any, or goes on
    after telemetry ended. If several do, the reason is that of the first one in the order of `parts`.
    """
    made = tuple(looks)
    return next(filter(None, (_uncovered(made, part) for part in parts)), "")


def _uncovered(looks: Sequence[Look], work: Work) -> str:
    # A reading soon after the end counts: short work may be over before the first one.
    seen = sorted(
        min(look.at_ns, work.end_ns)
        for look in looks
        if look.boot_id == work.boot_id and look.at_ns <= work.end_ns + GAP_NS
    )
    if not seen:
        return "no readings: NVML was not usable, or telemetry was off"
    inside = [at_ns for at_ns in seen if at_ns > work.begin_ns]
    moments = [work.begin_ns if inside else seen[-1], *inside, work.end_ns]
    widest_ns = max(after - before for before, after in pairwise(moments))
    if widest_ns > GAP_NS:
        return f"no readings for {widest_ns / 1e9:.0f} s"
    if work.unwatched_ns is not None and work.unwatched_ns < work.end_ns:
        return f"no readings for {(work.end_ns - work.unwatched_ns) / 1e9:.0f} s: telemetry ended too early"
    return ""


_COUNTERS: Final = {
    "aer_fatal": ("PCIe errors, fatal", Judgement(State.FAIL, "", Action.REPLACE)),
    "aer_nonfatal": ("PCIe errors, not fatal", Judgement(State.WARN, "", Action.MONITOR)),
    "aer_correctable": ("PCIe errors, corrected", Judgement(State.WARN, "", Action.MONITOR)),
    "memory_uncorrected": ("errors of the machine's memory, uncorrected", Judgement(State.FAIL, "", Action.REPLACE)),
    "memory_corrected": ("errors of the machine's memory, corrected", Judgement(State.WARN, "", Action.MONITOR)),
}
"""Error counter of the machine → its title, and its judgement if it rises during the run."""


def _finding(signal: Signal, case: Case, required: Collection[str]) -> Finding:
    course = case.course
    telling = signal.reads[0] if signal.reads else ""
    return Finding(
        name=signal.name,
        title=signal.title,
        required=signal.name in required,
        judgement=_judged(signal, case),
        start=course.first.get(telling),
        end=course.last.get(telling),
        rise=course.rise.get(telling),
    )


def _judged(signal: Signal, case: Case) -> Judgement:
    if not signal.applies(case.board):
        return Judgement(State.NOT_APPLICABLE)
    missing = [name for name in signal.reads if name not in case.course.last]
    if missing:
        unread = (_unread(name, case) for name in missing)
        return max(unread, key=lambda judgement: judgement.state is not State.NOT_APPLICABLE)
    judgement = JUDGES[signal.name](case)
    refused = [case.course.refusals[name] for name in signal.reads if name in case.course.refusals]
    if refused and judgement.state is not State.FAIL:
        return Judgement(State.UNREADABLE, f"no longer read: {refused[0]}")
    return judgement


def _unread(name: str, case: Case) -> Judgement:
    """Judge a health value that was never read on this GPU.

    WARN: this GPU does not support it, but an identical one does. NOT_APPLICABLE: no identical GPU supports it
    either. UNREADABLE: for any other reason.
    """
    why = case.course.refusals.get(name, "no readings")
    siblings = [course for course in case.siblings if name in course.last or name in course.refusals]
    having = sum(name in course.last for course in siblings)
    if why == UNSUPPORTED and having:
        message = f"{why}, but read on {having} of {len(siblings)} identical GPUs. Compare VBIOS and settings"
        return Judgement(State.WARN, message, Action.MONITOR, partly=True)
    absent = why == UNSUPPORTED and all(course.refusals[name] == UNSUPPORTED for course in siblings)
    return Judgement(State.NOT_APPLICABLE if absent else State.UNREADABLE, why)


def _plain(name: str, title: str, judgement: Judgement) -> Finding:
    return Finding(name, title, required=False, judgement=judgement)


def _counter(name: str, title: str, course: Course, risen: Judgement, gap: str) -> Finding:
    if name not in course.last:
        why = course.refusals.get(name, gap or "no readings")
        return _plain(name, title, Judgement(State.NOT_APPLICABLE if why == NOT_COUNTED else State.UNREADABLE, why))
    rise, refused = course.rise[name], course.refusals.get(name, "")
    if rise:
        judgement = Judgement(risen.state, f"{rise} in this run", risen.action)
    elif gap or refused:
        judgement = Judgement(State.UNREADABLE, gap or f"no longer read: {refused}")
    else:
        judgement = Judgement(State.PASS)
    return Finding(name, title, False, judgement, course.first[name], course.last[name], rise)


def _opinion(findings: tuple[Finding, ...], gap: str) -> Opinion:
    states = [finding.judgement.state for finding in findings]
    unread = {State.UNREADABLE} if not gap else set(State) - {State.NOT_APPLICABLE}
    lacking = tuple(
        finding.name
        for finding in findings
        if finding.required and (finding.judgement.state in unread or finding.judgement.partly)
    )
    read = {State.PASS, State.WARN, State.FAIL} & set(states)
    if State.FAIL in states:
        verdict = HealthVerdict.FAIL
    elif lacking or gap or not read:
        verdict = HealthVerdict.UNKNOWN
    else:
        verdict = HealthVerdict.WARN if State.WARN in states else HealthVerdict.PASS
    action = max((finding.judgement.action for finding in findings), key=lambda action: action.severity)
    return Opinion(verdict, findings, action, lacking, gap)
