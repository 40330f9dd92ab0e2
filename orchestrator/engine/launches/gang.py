"""The outcome of a launch (measurement) on several devices, from the outcomes of its processes. Pure.

    rank 0 ── result ──────────────────────┐                 all have a result: that of rank 0, with all verifications
    rank 1 ── killed by SIGKILL ◀── cause ─┼──▶ judged ──▶   one has none: its failure is that of the launch, and the
    rank 2 ── communication failed ────────┘                 messages of the others are kept as evidence

A broken connection, a time-out, or an end because another process failed is a consequence. Of several causes the
gravest counts. Among equally grave ones it is the earliest: a lost GPU may give the others CUDA errors first. If all
processes waited for each other, the one that is stopped or has begun fewer transfers is the cause. If there is no such
process, no device is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from orchestrator.state.failure_policy import POLICY, Sign
from protocol.failure import Category, Failure
from protocol.result import Result


@dataclass(frozen=True)
class MemberEnd:
    """End of one process of a launch. device: UUID. at: seconds of the loop's clock at its death or outcome.

    ended: whether the orchestrator ended it because another process of the launch failed or was ended. steps: number of
    transfers begun, None if unknown. stopped: whether a signal had stopped it (state T) before it was sent SIGTERM.
    """

    device: str
    label: str
    outcome: Result | Failure
    at: float
    ended: bool = False
    steps: int | None = None
    stopped: bool = False


def judged(members: Sequence[MemberEnd]) -> tuple[int, Result | Failure]:
    """Return (rank of the process that decides the outcome, outcome) of a launch. members: all processes by rank."""
    if len(members) == 1:
        return 0, members[0].outcome
    results = [member.outcome for member in members if isinstance(member.outcome, Result)]
    if len(results) == len(members):
        return 0, _merged(members, results)
    failed = [(rank, member.outcome) for rank, member in enumerate(members) if isinstance(member.outcome, Failure)]
    own = [pair for pair in failed if not members[pair[0]].ended]
    causes = [pair for pair in own if POLICY[pair[1].category].sign is not Sign.CONSEQUENCE]
    if causes:
        rank, failure = min(causes, key=lambda pair: (POLICY[pair[1].category].sign, members[pair[0]].at))
        return rank, _with_the_others(members, rank, failure, members[rank].device)
    rank, failure = min(own, key=lambda pair: (pair[1].category is not Category.DEADLINE, members[pair[0]].at))
    return _hung(members, rank, failure)


def halted(members: Sequence[MemberEnd], failure: Failure, rank: int | None) -> Failure:
    """Return `failure` with the ends of the launch's other processes as evidence. members: all processes by rank.

    failure: says that the measurement is invalid, because the orchestrator was paused or a signal stopped a process.
    rank: of the process that the signal stopped, or None. With a rank, Failure.device becomes the device of that
    process. The failure of a launch with one process is returned unchanged.
    """
    if len(members) == 1:
        return failure
    return _with_the_others(members, rank or 0, failure, None if rank is None else members[rank].device)


def _merged(members: Sequence[MemberEnd], results: Sequence[Result]) -> Result:
    others = {
        member.device: result.verification
        for member, result in zip(members[1:], results[1:], strict=True)
        if result.verification is not None
    }
    return msgspec.structs.replace(results[0], others=others) if others else results[0]


def _hung(members: Sequence[MemberEnd], rank: int, failure: Failure) -> tuple[int, Failure]:
    """Return (rank, failure) for a hang: of the process that the others waited for, with the reason in the message.

    rank, failure: of the process that timed out first or, if none timed out, lost its connection first. Without a
    process to blame, they are returned, and the message says that no device is to blame.
    """
    absent = _absent(members)
    if absent is None:
        failure = msgspec.structs.replace(failure, message=f"{failure.message}; not attributable to one device")
        return rank, _with_the_others(members, rank, failure, None)
    member = members[absent]
    how = "its process was stopped" if member.stopped else f"it began {member.steps} transfers, fewer than all others"
    message = f"{failure.message}; {member.label} made no progress: {how}"
    return absent, _with_the_others(members, absent, msgspec.structs.replace(failure, message=message), member.device)


def _absent(members: Sequence[MemberEnd]) -> int | None:
    stopped = [rank for rank, member in enumerate(members) if member.stopped]
    if len(stopped) == 1:
        return stopped[0]
    steps = [member.steps for member in members if member.steps is not None]
    if len(steps) < len(members) or steps.count(min(steps)) != 1:
        return None
    return steps.index(min(steps))


def _with_the_others(members: Sequence[MemberEnd], rank: int, failure: Failure, device: str | None) -> Failure:
    evidence = {f"on {member.label}": _description(member) for other, member in enumerate(members) if other != rank}
    return msgspec.structs.replace(failure, device=device or msgspec.UNSET, evidence=failure.evidence | evidence)


def _description(member: MemberEnd) -> str:
    steps = "" if member.steps is None else f", {member.steps} transfers begun"
    if isinstance(member.outcome, Result):
        return f"a result{steps}"
    if member.ended:
        return f"ended with the others{steps}"
    return f"{member.outcome.category}: {member.outcome.message}{steps}"
