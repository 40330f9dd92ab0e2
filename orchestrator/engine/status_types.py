"""Types of the status of a run that another process works on, and what the user may do next. Made by run_status.py."""

import enum
from typing import Final

import msgspec

from orchestrator.engine import report_summary


class Standing(enum.StrEnum):
    """What a run is doing or how it ended. The values are shown to people."""

    NOT_BEGUN = "not begun"
    RUNNING = "running"
    FROZEN = "stopped (SIGSTOP, state T): it does not answer"
    OVER = "over"
    INTERRUPTED = "stopped before its end"
    BROKEN = "aborted: gpubench could not continue"
    DIED = "its process died"
    ELSEWHERE = "in use by a process on another host or in another container"


GOES_ON: Final = frozenset({Standing.RUNNING, Standing.FROZEN, Standing.ELSEWHERE})
"""Standings in which the run may still progress by itself."""

WHAT_NEXT: Final = {
    Standing.RUNNING: "`gpubench-orchestrate watch {folder}` follows the run, `gpubench-orchestrate stop {folder}` "
    "stops it",
    Standing.FROZEN: "`kill -CONT {pid}` continues the process",
    Standing.INTERRUPTED: "`gpubench-orchestrate resume {folder}` continues the run",
    Standing.BROKEN: "`gpubench-orchestrate resume {folder}` tries again",
    Standing.DIED: "`gpubench-orchestrate resume {folder}` continues the run, `gpubench-orchestrate report {folder}` "
    "reports the results so far",
    Standing.ELSEWHERE: "run `status` on the host or in the container where the run was started",
}

STOPPING: Final = "a second `gpubench-orchestrate stop {folder}` ends running cells at once"
"""Advice about a run that is stopping, in place of the one in WHAT_NEXT."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A running attempt. attempt: number at this cell, from 1. device: label of its first device. cell: in words.

    for_s: seconds so far.
    """

    device: str
    cell: str
    batch_size: int
    attempt: int
    for_s: float


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Current status of a run.

    reason: why the run stopped before it was done, or "". pid, host: of the process that works on it, else None.
    planned, measured, failed, dropped, settled: numbers of launches, added ones among them. planned: None for a run
    that adds rounds until its time is up. failed: failed for good, or skipped. dropped: not made for lack of time.
    settled: launches that need no more work, for any reason. importing_s: seconds for which launches have waited until
    the zygote has imported its modules; None if they do not wait for it. skipped: name of a skipped model, or of a part
    such as "resnet50 training fp16" → reason. started: seconds since the epoch. limit_s: the run's time limit in
    seconds, the reports included. limit_left_s: seconds of it that are left; None without a limit, or if no process of
    this host works on the run. eta_s: seconds until the last measurement ends; None if unknown, for example until every
    device has ended a launch. share: part of the run that is over, 0 to 1; None if unknown. stop_requested_s: seconds
    since the first stop request; None without one. stops_now: a stop was requested twice. If no process works on the
    run, share and stop_requested_s are None. quarantined: label of a device → reason. last_failure: the last failed
    attempt whose launch has no result yet, in words, or "". reports, unwritten: paths of existing and missing reports.
    no_outcome: why a run that has ended has no outcome. lost: missing result files, only checked if no process works on
    the run.
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
    stop_requested_s: float | None = None
    stops_now: bool = False
    quarantined: dict[str, str] = {}
    last_failure: str = ""
    reports: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    outcome: report_summary.Outcome | None = None
    no_outcome: str = ""
    lost: tuple[str, ...] = ()
