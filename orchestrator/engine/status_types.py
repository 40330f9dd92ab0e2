"""What is told of a run of another process, as types, and what a person may do about it: run_status.py fills them."""

import enum
from typing import Final

import msgspec

from orchestrator.engine import report_summary


class Standing(enum.StrEnum):
    """How a run stands, in the words that people see."""

    NOT_BEGUN = "not begun"
    RUNNING = "running"
    FROZEN = "stopped (SIGSTOP, state T): it does not answer"
    OVER = "over"
    INTERRUPTED = "stopped before its end"
    BROKEN = "broken off: gpubench could not go on"
    DIED = "its process died"
    ELSEWHERE = "taken by a process that cannot be seen from here"


GOES_ON: Final = frozenset({Standing.RUNNING, Standing.FROZEN, Standing.ELSEWHERE})
"""Something may still come of these by itself."""

WHAT_NEXT: Final = {
    Standing.RUNNING: "`gpubench-orchestrate watch {folder}` follows it, `gpubench-orchestrate stop {folder}` ends it",
    Standing.FROZEN: "`kill -CONT {pid}` lets it go on",
    Standing.INTERRUPTED: "`gpubench-orchestrate resume {folder}` goes on with it",
    Standing.BROKEN: "`gpubench-orchestrate resume {folder}` tries again",
    Standing.DIED: "`gpubench-orchestrate resume {folder}` goes on with it, and `gpubench-orchestrate report {folder}` "
    "tells what was measured",
    Standing.ELSEWHERE: "look on the host, or in the container, where it was begun",
}
"""What a person may do about it."""

STOPPING: Final = "`gpubench-orchestrate stop {folder}` once more stops it now"
"""The same while it stops."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a device does now: an attempt at a cell, since so many seconds."""

    device: str
    cell: str
    batch_size: int
    attempt: int
    for_s: float


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A run, now.

    planned, measured, failed, dropped: launches, those added later among them. One has failed when it is not tried
    again, also because its model is skipped. planned is None of a burn-in, which has rounds until its time is up.
    settled: those that have ended or will not be made. importing_s: since when the zygote imports what launches need,
    before the first of them; None when it does not. skipped: models of which nothing more is launched, and why. pid,
    host: of the process that works on it. started: seconds since the epoch. limit_s, limit_left_s: from the start of
    that process to its end, reports included; None without a limit, and the latter where nobody works. eta_s: until
    nothing is measured any more, so at most what the limit leaves before the reports; None until every device has ended
    a launch, but of a burn-in. share: of the run that is over, from 0 to 1; None where nobody works on it, or its time
    cannot be seen from here. Both as the run itself shows them, but for the first launches of a plan, which the run
    estimates. stop_asked_s: since when it stops because somebody asked for that; stops_now: asked once more, it ends
    what runs at once. taken_out: devices that were given up, and why. last_failure: of those launches that have no
    result. reports: files that are there; unwritten: of a run that has ended, those that are not. outcome: of a run
    that has ended; where its report cannot tell, no_outcome says why. lost: result files that the journal promises and
    that are not there, looked for once nobody works on the run; what is in the others is not looked at.
    """

    run_id: str
    folder: str
    standing: Standing
    reason: str = ""
    pid: int | None = None
    host: str | None = None
    started: float | None = None
    planned: int | None
    measured: int = 0
    failed: int = 0
    dropped: int = 0
    settled: int = 0
    skipped: dict[str, str] = {}
    working: tuple[Work, ...] = ()
    importing_s: float | None = None
    preset: str | None = None
    limit_s: float | None = None
    limit_left_s: float | None = None
    eta_s: float | None = None
    share: float | None = None
    stop_asked_s: float | None = None
    stops_now: bool = False
    taken_out: dict[str, str] = {}
    last_failure: str = ""
    reports: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    outcome: report_summary.Outcome | None = None
    no_outcome: str = ""
    lost: tuple[str, ...] = ()
