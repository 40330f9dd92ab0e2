"""Judge one GPU after a burn-in. The gravest verdict wins, and all reasons are reported. Pure.

FAIL      wrong bits in computing, memory or transfers, a hardware fault seen by the health checks, or too hot
UNKNOWN   the burn-in still runs or was cut short, the GPU was quarantined, too little time at work, an unexplained
          gap, contaminated by another process, a reboot, a planned cell without a check, too little memory tested, a
          launch without a result, wrong bits that cannot be read or cannot be attributed to one GPU, differing bits
          without a majority, bits that may come from another algorithm, or faults injected on purpose
WARN      slower with time or slower than its siblings, a health warning, or a failed launch that was repeated
PASS      at work for nearly the requested time (served_time.is_short), every planned cell was checked, except those
          that the software cannot verify, and nothing was found
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.config.naming import plural
from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.burn_in import Pace
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import GRAVEST_FIRST, HealthVerdict
from orchestrator.kinds.burn_in import memory_test, served_time
from orchestrator.kinds.burn_in.findings import Tally, Work
from protocol.cell import Workload
from protocol.verification import BEFORE_SENT, Mismatch

ALGORITHM_ELEMENTS: Final = 1000
"""Least number of different output elements that suggests another algorithm. Fewer count as flipped bits."""


@dataclass(frozen=True)
class Reason:
    """A reason for a verdict on a GPU, and the recommended action."""

    verdict: HealthVerdict
    text: str
    action: Action = Action.NOTHING


@dataclass(frozen=True)
class Judged:
    """The verdict on a GPU with its reasons, gravest first, and the action of the first reason. PASS has no reasons."""

    verdict: HealthVerdict
    reasons: tuple[Reason, ...]
    action: Action


def judge(work: Work) -> Judged:
    """Return the verdict on one GPU with all reasons. work: all facts of the GPU after the burn-in.

    If the run injected faults, every `action` is NOTHING.
    """
    found = [*_wrong_bits(work), *_of_health(work), *_gaps(work), *_warnings(work)]
    if work.tainted:
        found = [replace(reason, action=Action.NOTHING) for reason in found]
    # Among equally grave reasons one with an action comes first, because its action is shown with the verdict.
    found.sort(key=lambda reason: (GRAVEST_FIRST.index(reason.verdict), reason.action is Action.NOTHING))
    if not found:
        return Judged(HealthVerdict.PASS, (), Action.NOTHING)
    return Judged(found[0].verdict, tuple(found), found[0].action)


def bound(exposure: float) -> float | None:
    """Return the 95 % upper bound of the error rate after `exposure` checks or hours without an error; None for 0."""
    return 3 / exposure if exposure else None  # rule of three, Hanley and Lippman-Hand 1983


def _wrong_bits(work: Work) -> Iterator[Reason]:
    for one in work.wrong:
        mismatch = one.mismatch
        check = f"{WORKLOADS[one.workload].title} in {one.precision}"
        found = f"wrong result in {check} ({_seen(one.workload, mismatch)}; round {one.round + 1}, {one.at})"
        if one.doubt:
            yield Reason(HealthVerdict.UNKNOWN, f"{found}. {one.doubt}", Action.PAIRS)
        elif another_algorithm(mismatch):
            yield Reason(
                HealthVerdict.UNKNOWN,
                f"{found}. All differences are within rounding, so the library may have chosen another algorithm",
                Action.MONITOR,
            )
        else:
            read = "" if mismatch.same_when_read_again else ". Correct when read again: a read error"
            yield Reason(HealthVerdict.FAIL, f"{found}{read}", Action.REPLACE)
    if work.unclear:
        unclear = plural(work.unclear, "mismatch", "mismatches")
        yield Reason(
            HealthVerdict.UNKNOWN,
            f"{unclear} without details in {WORKLOADS[Workload.LINKS].title}. This GPU or errors of other devices may "
            "be the cause",
            Action.PAIRS,
        )
    for workload, tally in work.tallies.items():
        yield from _more(work, workload, tally.mismatches)
    for deviation in work.deviations:
        who = "GPUs" if deviation.between_gpus else "launches on this GPU"
        sample = deviation.sample
        yield Reason(
            HealthVerdict.FAIL,
            f"{sample.cell}, round {sample.round + 1}, {sample.begun}: its bits differ from those of "
            f"{deviation.against} of {deviation.of} {who}, starting at output {deviation.at + 1}",
            Action.REPLACE,
        )


def _more(work: Work, workload: Workload, mismatches: int) -> Iterator[Reason]:
    kept = [one for one in work.wrong if one.workload is workload]
    unclear = work.unclear if workload is Workload.LINKS else 0
    if (more := mismatches - len(kept) - unclear) > 0:
        other = "more " if kept or unclear else ""
        number = plural(more, f"{other}mismatch", f"{other}mismatches")
        reason = f"{number} without details in {WORKLOADS[workload].title}"
        if kept and all(one.doubt or another_algorithm(one.mismatch) for one in kept):
            yield Reason(HealthVerdict.UNKNOWN, f"{reason}. Those with details prove no fault", Action.MONITOR)
        else:
            yield Reason(HealthVerdict.FAIL, reason, Action.REPLACE)


def _seen(workload: Workload, mismatch: Mismatch) -> str:
    size = f"{plural(mismatch.elements, 'element')}, {plural(mismatch.bits, 'bit')} wrong"
    # Blame finds the stored words, so only what people read is reworded.
    what = mismatch.what.replace(BEFORE_SENT, "its numbers were already wrong before they were sent")
    if not mismatch.repeated:
        described = size if mismatch.elements else "wrong bits"
        return f"{what}: {described}; not repeated because the launch ended"
    if mismatch.wrong_again:
        again = f"wrong again in {mismatch.wrong_again} of {mismatch.repeated} repetitions"
    else:
        times = "a repetition" if mismatch.repeated == 1 else f"all {mismatch.repeated} repetitions"
        again = f"intermittent: afterwards right in {times}"
    if workload is Workload.REPLAY:
        return f"{what}; {again}"  # which gradients differ, and the loss; nobody knows by how many bits
    return f"{what}: {size if mismatch.elements else 'check failed, but no element differs'}; {again}"


def another_algorithm(mismatch: Mismatch) -> bool:
    """Whether a mismatch suggests another algorithm: many elements, all within rounding, right in no repetition."""
    every_time = mismatch.wrong_again == mismatch.repeated
    return mismatch.beyond_rounding is False and every_time and mismatch.elements >= ALGORITHM_ELEMENTS


def _of_health(work: Work) -> list[Reason]:
    found = [Reason(HealthVerdict.FAIL, work.too_hot, Action.COOL)] if work.too_hot else []
    if work.health in (HealthVerdict.FAIL, HealthVerdict.UNKNOWN, HealthVerdict.WARN):
        action = work.health_action if work.health is HealthVerdict.FAIL else Action.MONITOR
        found.append(Reason(work.health, f"health: {work.health_reason}", action))
    return sorted(found, key=lambda reason: -reason.action.severity)


def _gaps(work: Work) -> Iterator[Reason]:
    if work.tainted:
        yield Reason(HealthVerdict.UNKNOWN, "faults were injected on purpose")
    yield from _time(work)
    if work.idle:
        longest = max(work.idle, key=lambda gap: gap.seconds)
        others = f" (the longest of {len(work.idle)} such gaps)" if len(work.idle) > 1 else ""
        gap = f"no load for {longest.seconds:.0f} s from {longest.at}, for an unknown reason{others}"
        yield Reason(HealthVerdict.UNKNOWN, gap, Action.MONITOR)
    if work.beside:
        who = ", ".join(sorted(set(work.beside)))
        launches = plural(len(work.beside), "launch", "launches")
        yield Reason(HealthVerdict.UNKNOWN, f"{launches} contaminated by another process ({who})")
    if work.reboots:
        yield Reason(HealthVerdict.UNKNOWN, "the machine was rebooted during the burn-in", Action.MONITOR)
    for one in work.planned:
        excused = one.impossible and work.tallies.get(one.workload, Tally()).checks
        if not one.checks and not excused:
            why = one.why or "none of its launches has a result"
            action, todo = _tries(work) if one.untried else (Action.NOTHING, "")
            yield Reason(HealthVerdict.UNKNOWN, f"{one.name} never completed: {why}{todo}", action)
    memory = work.tallies.get(Workload.MEMORY, Tally())
    if memory.checks and (lacking := memory_test.lacking(memory.covered)):
        yield Reason(HealthVerdict.UNKNOWN, lacking, Action.MONITOR)
    if work.unread:
        launches = plural(len(work.unread), "launch", "launches")
        unread = f"{launches} without a valid result may have found wrong bits, which cannot be read: {work.unread[0]}"
        todo = "Make the report as a user who may read the file, or start a new burn-in"
        yield Reason(HealthVerdict.UNKNOWN, f"{unread}. {todo}", Action.AGAIN)
    for text in work.undecided:
        yield Reason(HealthVerdict.UNKNOWN, text)
    for text in work.failures:
        yield Reason(HealthVerdict.UNKNOWN, f"a launch has no result: {text}", Action.MONITOR)
    for text in work.lost_results:
        action, todo = _measures_again(work)
        yield Reason(HealthVerdict.UNKNOWN, f"the result of a launch is lost: {text}{todo}", action)


def _time(work: Work) -> Iterator[Reason]:
    action, todo = _makes_up(work)
    if work.goes_on:
        yield Reason(HealthVerdict.UNKNOWN, "the burn-in is still running")
    elif work.quarantined:
        quarantined = f"the GPU was quarantined: {work.quarantined}. Fix the cause and start a new burn-in"
        yield Reason(HealthVerdict.UNKNOWN, quarantined, Action.AGAIN)
    elif work.interrupted:
        yield Reason(HealthVerdict.UNKNOWN, f"the burn-in was cut short: {work.interrupted}. {todo}", action)
    elif served_time.is_short(work.served_s, work.requested_s, work.cell_s):
        short = f"at work for {work.served_s:.0f} s of the {work.requested_s:.0f} s requested"
        why = f": {work.lost_time}" if work.lost_time else ""
        yield Reason(HealthVerdict.UNKNOWN, f"{short}{why}. {todo}", action)


def _makes_up(work: Work) -> tuple[Action, str]:
    if work.tainted:
        return Action.NOTHING, "More time cannot make it PASS: `resume` continues with the injected faults"
    if not _has_room(work):
        return Action.AGAIN, f"Not enough time is left. {_anew(work)}"
    if work.idle or work.beside or work.reboots or work.failures:
        others = "could add the missing time, but not resolve the other UNKNOWN results"
        return Action.AGAIN, f"Start a new burn-in: `resume` {others}"
    if not _has_room(work, len(work.lost_results)):
        return Action.AGAIN, "`resume` has no time to measure every lost result again. Start a new burn-in"
    return Action.RESUME, "`gpubench-orchestrate resume` adds the missing time"


def _measures_again(work: Work) -> tuple[Action, str]:
    if work.goes_on:
        return Action.NOTHING, ""
    if work.quarantined:
        return Action.AGAIN, ". Start a new burn-in"
    if not _has_room(work, len(work.lost_results)):
        return Action.AGAIN, ". No time is left to measure it again. Start a new burn-in"
    return Action.RESUME, ". `resume` measures it again"


def _has_room(work: Work, more: int = 0) -> bool:
    short = served_time.is_short(work.served_s, work.requested_s, work.cell_s)
    launches = sum(one.untried for one in work.planned) + more or int(short)
    return not launches or launches * work.ahead.launch_s <= work.ahead.left_s


def _tries(work: Work) -> tuple[Action, str]:
    if work.goes_on:
        return Action.NOTHING, ""
    action, _ = _makes_up(work)
    return action, ". `resume` measures it" if action is Action.RESUME else f". {_anew(work)}"


def _anew(work: Work) -> str:
    return f"Start a new burn-in of at least {work.ahead.least}"


def _warnings(work: Work) -> Iterator[Reason]:
    for text in work.repeated:
        yield Reason(HealthVerdict.WARN, f"a launch failed and was repeated with a result: {text}", Action.MONITOR)
    for kind, judged in work.paces.items():
        if judged.pace is Pace.SLOWER:
            because = "" if judged.why is None else f"; {judged.why.words}"
            yield Reason(HealthVerdict.WARN, f"{judged.text}{because} ({kind})", Action.SLOW)
