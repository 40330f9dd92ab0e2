"""The outcome of a launch on several devices, from those of its processes. Pure.

    rank 0 ── result ──────────────────────┐                 all have a result: the leader's, with what others verified
    rank 1 ── killed by SIGKILL ◀── cause ─┼──▶ judged ──▶   one has none: its failure is that of the launch, and what
    rank 2 ── communication failed ────────┘                 the others said is kept with it as evidence

A broken connection, or an end by the orchestrator, is a consequence. Of several causes the graver sign counts, then the
earliest: a lost GPU may give the others CUDA errors first. Without any cause all waited for each other, and the one
that is stopped, or has begun fewer transfers, is to blame. Where nothing tells them apart, no device is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from orchestrator.state.failure_policy import POLICY, Sign
from protocol.failure import Category, Failure
from protocol.result import Result


@dataclass(frozen=True)
class MemberEnd:
    """The end of one process. device: UUID. at: monotonic seconds of its death or last message.

    ended: by the orchestrator, because of another one. steps: transfers begun, None if unknown. stopped: in state T.
    """

    device: str
    label: str
    outcome: Result | Failure
    at: float
    ended: bool = False
    steps: int | None = None
    stopped: bool = False


def judged(told: Sequence[MemberEnd]) -> tuple[int, Result | Failure]:
    """The rank that decides the outcome of the launch, and that outcome. told: by rank."""
    if len(told) == 1:
        return 0, told[0].outcome
    results = [one.outcome for one in told if isinstance(one.outcome, Result)]
    if len(results) == len(told):
        return 0, _together(told, results)
    failed = [(rank, one.outcome) for rank, one in enumerate(told) if isinstance(one.outcome, Failure)]
    own = [pair for pair in failed if not told[pair[0]].ended]
    causes = [pair for pair in own if POLICY[pair[1].category].sign is not Sign.CONSEQUENCE]
    if causes:
        rank, failure = min(causes, key=lambda pair: (POLICY[pair[1].category].sign, told[pair[0]].at))
        return rank, _with_the_others(told, rank, failure, told[rank].device)
    rank, failure = min(own, key=lambda pair: (pair[1].category is not Category.DEADLINE, told[pair[0]].at))
    return _hung(told, rank, failure)


def _together(told: Sequence[MemberEnd], results: Sequence[Result]) -> Result:
    others = {
        one.device: result.verification
        for one, result in zip(told[1:], results[1:], strict=True)
        if result.verification is not None
    }
    return msgspec.structs.replace(results[0], others=others) if others else results[0]


def _hung(told: Sequence[MemberEnd], rank: int, failure: Failure) -> tuple[int, Failure]:
    """Name the one that made all others wait. failure: of the first of them, `rank`."""
    absent = _absent(told)
    if absent is None:
        failure = msgspec.structs.replace(failure, message=f"{failure.message}; nothing tells which device it was")
        return rank, _with_the_others(told, rank, failure, None)
    one = told[absent]
    how = "its process was stopped" if one.stopped else f"it had begun {one.steps} transfers, each other one more"
    message = f"{failure.message}; {one.label} made no progress: {how}"
    return absent, _with_the_others(told, absent, msgspec.structs.replace(failure, message=message), one.device)


def _absent(told: Sequence[MemberEnd]) -> int | None:
    """The one rank that did not come; None if unknown."""
    stopped = [rank for rank, one in enumerate(told) if one.stopped]
    if len(stopped) == 1:
        return stopped[0]
    steps = [one.steps for one in told if one.steps is not None]
    if len(steps) < len(told) or steps.count(min(steps)) != 1:
        return None
    return steps.index(min(steps))


def _with_the_others(told: Sequence[MemberEnd], rank: int, failure: Failure, device: str | None) -> Failure:
    said = {f"on {one.label}": _words(one) for other, one in enumerate(told) if other != rank}
    return msgspec.structs.replace(failure, device=device or msgspec.UNSET, evidence=failure.evidence | said)


def _words(one: MemberEnd) -> str:
    steps = "" if one.steps is None else f", {one.steps} transfers begun"
    if isinstance(one.outcome, Result):
        return f"a result{steps}"
    if one.ended:
        return f"ended with the others{steps}"
    return f"{one.outcome.category}: {one.outcome.message}{steps}"
