"""Detect launches (measurements) that were paused: their times include the pause. Pure.

its process was stopped      the kernel reports every SIGSTOP to the parent, however short (process_end.was_stopped)
the machine was asleep       its boot-time clock went on, its monotonic clock did not
the orchestrator was paused  for 2 s or more: the worker was paused too (a frozen container), unless the times of its
                             blocks (groups of iterations) show that it went on
                             for less than 2 s: the worker was not paused, unless the times of its blocks show a pause
"""

from collections.abc import Iterable, Sequence

from orchestrator.engine.loop_clock import Pause
from protocol.result import Block

Span = tuple[int, int]
"""A period: (begin, end) in monotonic nanoseconds."""


def describe(pauses: Iterable[Pause], measuring: Span, blocks: Sequence[Block]) -> str:
    """Return the first of `pauses` that affected a launch, in words: "the machine was suspended". "" if none did.

    pauses: of the orchestrator, oldest first. measuring: span of warm-up and measurement. blocks: of the measurement.
    """
    for pause in pauses:
        if pause.end_ns <= measuring[0] or measuring[1] <= pause.begin_ns:
            continue
        if pause.asleep:
            return "the machine was suspended"
        if _spans(pause, measuring, blocks):
            seconds = (pause.end_ns - pause.begin_ns) / 1e9
            return f"worker and orchestrator were suspended for {seconds:.2g} s (container or machine paused)"
    return ""


def _spans(pause: Pause, measuring: Span, blocks: Sequence[Block]) -> bool:
    """Whether the worker paused, too, when the orchestrator did: the times around the middle of the pause show it.

    If the middle is in a block, this block must have lasted longer than usual, by at least half of the pause. If it is
    between two blocks, this gap must have lasted at least half of the pause. The usual duration of a block comes from
    the time per iteration of the other blocks. For a pause below 2 s, the longest of these counts, because a slow disk
    may pause only the orchestrator. For a longer pause, the shortest counts. False if the middle is outside
    `measuring`, the span of warm-up and measurement. For a pause below 2 s, also False if there is no other block, or
    if the gap is not between two blocks.
    """
    middle, half = (pause.begin_ns + pause.end_ns) // 2, (pause.end_ns - pause.begin_ns) // 2
    if not measuring[0] <= middle < measuring[1]:
        return False  # the phase began or ended during the pause
    for block in blocks:
        if block.start_ns <= middle < block.end_ns:
            others = [
                (other.end_ns - other.start_ns) / max(other.iterations, 1) for other in blocks if other is not block
            ]
            if pause.is_short and not others:
                return False
            usual = max(others) if pause.is_short else min(others, default=0.0)
            return block.end_ns - block.start_ns - usual * block.iterations >= half
    if pause.is_short and not (blocks and blocks[0].end_ns <= middle < blocks[-1].start_ns):
        return False
    before = max((block.end_ns for block in blocks if block.end_ns <= middle), default=measuring[0])
    after = min((block.start_ns for block in blocks if block.start_ns > middle), default=measuring[1])
    return after - before >= half
