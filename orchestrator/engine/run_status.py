"""Read the status of another process's run from its folder: for `status` and `watch`.

    run.yaml, journal, lock ──▶ look ─▶ Status ─▶ describe, or JSON
    report ─── its outcome ───┘  (report_summary.py)

The process itself is not asked. So it is not known whether a launch warms up or measures.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.engine import progress, report_summary
from orchestrator.engine.progress import Alike
from orchestrator.engine.status_types import GOES_ON, Standing, Status, Work
from orchestrator.state import archive, time_budget
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.failure_policy import Trait, has_trait
from orchestrator.state.slots import RunState, SlotStatus
from orchestrator.state.stopping import GENTLE_GRACE_S, GENTLE_S
from orchestrator.state.time_budget import Time
from orchestrator.store import journal, lock, report_places
from orchestrator.store.journal_records import End, Record, Segment, Start, StopRequest, ZygoteStarted
from orchestrator.system import host, safe_read
from protocol.failure import Category, Failure
from protocol.paths import RunPaths

_ENDED: Final = frozenset({Standing.OVER, Standing.INTERRUPTED, Standing.BROKEN})
"""Standings of a run whose process has recorded its own end, so that there should be a report."""


def look(stored: StoredRun, paths: RunPaths) -> tuple[Status, tuple[Attempt, ...]]:
    """Return (status, all attempts at cells, oldest first) of the run. Raises RunFolderError if it cannot be read."""
    holder = lock.holder(paths)
    alive = None if holder is None else lock.life(holder)
    results = tuple(paths.results())
    begun = paths.launches.is_dir()  # the folder exists before the run begins
    records = journal.read(paths.journal) if begun or paths.journal.exists() else ()
    worker = None if alive is lock.Life.ENDED else holder
    run = archive.assemble(stored, paths, records, alive=worker is not None) if begun or records else None
    archive.require_known(paths, results, records)
    limit_s = stored.configuration.time_limit_s
    limited = None
    if limit_s is not None and holder is not None and alive is lock.Life.ALIVE:
        limited = time_budget.time_after(stored.configuration, limit_s, _spent_s(stored, holder, records))
    status = Status(
        run_id=stored.run_id,
        folder=str(paths.folder),
        standing=_standing(run, alive, holder),
        pid=None if worker is None else worker.pid,
        host=None if worker is None else worker.hostname,
        planned=_planned(stored, run),
        preset=stored.configuration.preset,
        limit_s=limit_s,
        limit_left_s=None if limited is None or limit_s is None else max(limit_s - limited.spent_s, 0.0),
        reports=tuple(str(path) for path in report_places.shown(stored, paths) if safe_read.is_there(path)),
    )
    if run is None:
        return status, ()
    now_ns = time.monotonic_ns()
    if status.standing in GOES_ON:
        asked_ns = stop_requests_ns(records)
        since_s = max((now_ns - asked_ns[0]) / 1e9, 0.0) if asked_ns else None
        status = msgspec.structs.replace(status, stop_requested_s=since_s, stops_now=len(asked_ns) > 1)
    else:
        status = msgspec.structs.replace(status, lost=tuple(_lost(run)))
    if status.standing is Standing.RUNNING:
        status = msgspec.structs.replace(status, importing_s=_importing_s(stored, records, now_ns))
    if status.standing in _ENDED:
        found = report_summary.outcome(run)
        outcome, why = (found, "") if isinstance(found, report_summary.Outcome) else (None, found)
        unwritten = tuple(str(path) for path in report_places.unwritten(stored, paths))
        status = msgspec.structs.replace(status, outcome=outcome, no_outcome=why, unwritten=unwritten)
    status = _with_counts(status, run, now_ns)
    if status.standing in GOES_ON:
        status = _timed(status, run, limited, open_ended=stored.configuration.adds_rounds)
    return status, run.attempts


def _planned(stored: StoredRun, run: Archive | None) -> int | None:
    if stored.configuration.until_limit:
        return None
    return stored.plan.launches if run is None else len(run.replay.state.slots)


def _timed(status: Status, run: Archive, limited: Time | None, *, open_ended: bool) -> Status:
    launches_s = None if open_ended else progress.launches_s(run.replay.state, _mean_s(run))
    through_s = progress.through(launches_s, status.planned, limited)
    if status.standing is Standing.RUNNING:
        status = msgspec.structs.replace(status, eta_s=progress.eta(through_s, _stops_s(status)))
    if limited is None and status.limit_s is not None:
        return status
    total = None if open_ended else status.planned
    return msgspec.structs.replace(status, share=progress.share(status.settled, total, limited, through_s))


def _stops_s(status: Status) -> float | None:
    if status.stop_requested_s is None:
        return None
    return (0.0 if status.stops_now else GENTLE_S + GENTLE_GRACE_S) - status.stop_requested_s


def _standing(run: Archive | None, alive: lock.Life | None, holder: lock.Holder | None) -> Standing:
    if holder is not None and alive is lock.Life.ALIVE:
        return Standing.FROZEN if host.process_state(holder.pid).startswith("T") else Standing.RUNNING
    if run is None:
        return Standing.NOT_BEGUN
    if run.finished is None:
        return Standing.ELSEWHERE if alive is lock.Life.ELSEWHERE else Standing.DIED
    if run.finished.broken:
        return Standing.BROKEN
    return Standing.INTERRUPTED if run.finished.interrupted else Standing.OVER


def _lost(run: Archive) -> Iterator[str]:
    for attempt in run.attempts:
        path = run.folder(attempt).result
        if attempt.promised is not None and not safe_read.is_there(path):
            yield str(path)


def _spent_s(stored: StoredRun, holder: lock.Holder, records: Sequence[Record]) -> float:
    segments = [place for place, record in enumerate(records) if isinstance(record, Segment)]
    resumed = stored.configuration.cell_s is not None and len(segments) > 1
    if not segments or not (resumed or stored.configuration.least_launches):
        return host.age_s(holder.pid)
    newest = records[segments[-1]]
    assert isinstance(newest, Segment)
    now_ns = time.monotonic_ns()
    starts = (record.at_ns for record in records[segments[-1] :] if isinstance(record, Start))
    return newest.served_s + (now_ns - next(starts, now_ns)) / 1e9


def stop_requests_ns(records: Sequence[Record]) -> tuple[int, ...]:
    """Return the times of the stop requests in the newest session, oldest first, in monotonic nanoseconds."""
    asked_ns: list[int] = []
    for record in reversed(records):
        match record:
            case StopRequest():
                asked_ns.insert(0, record.at_ns)
            case Segment():
                break
    return tuple(asked_ns)


def _importing_s(stored: StoredRun, records: Sequence[Record], now_ns: int) -> float | None:
    if stored.configuration.isolation is Isolation.EXEC:
        return None  # each launch imports for itself
    for record in reversed(records):
        match record:
            case ZygoteStarted() | StopRequest():
                return None
            case End(failure=Failure(category=Category.ZYGOTE_DIED)):
                return max((now_ns - record.at_ns) / 1e9, 0.0)
            case Segment():
                return max((now_ns - record.monotonic_ns) / 1e9, 0.0)
    return None


def _with_counts(status: Status, run: Archive, now_ns: int) -> Status:
    labels = {device.uuid: device.label for device in run.stored.devices}
    named = progress.alike(run.stored.plan.cells)
    state, goes_on = run.replay.state, status.standing in GOES_ON
    failures = [attempt for attempt in run.attempts if _is_failure(attempt, state)]
    return msgspec.structs.replace(
        status,
        reason="" if run.finished is None or goes_on else run.finished.reason,
        started=run.header.created,
        measured=state.tally[SlotStatus.MEASURED],
        failed=state.tally[SlotStatus.FAILED] + state.tally[SlotStatus.SKIPPED],
        dropped=state.tally[SlotStatus.DROPPED],
        settled=state.settled,
        skipped=dict(run.skipped),
        working=tuple(
            Work(
                device=labels[attempt.start.device],
                cell=named.describe(state.cells[attempt.start.cell]),
                batch_size=attempt.start.batch_size,
                attempt=attempt.start.attempt,
                for_s=max((now_ns - attempt.start.at_ns) / 1e9, 0.0),
            )
            for attempt in run.attempts
            if goes_on and attempt.end is None and _is_running(attempt, state)
        ),
        quarantined={labels[uuid]: reason for uuid, reason in run.quarantined.items()},
        last_failure=_failure_words(failures[-1], state, labels, named) if failures else "",
    )


def _is_running(attempt: Attempt, state: RunState) -> bool:
    slot = state.slots[attempt.slot]
    return slot.status is SlotStatus.RUNNING and slot.launch == attempt.start.launch


def _is_failure(attempt: Attempt, state: RunState) -> bool:
    """Whether to show an attempt as a failure.

    False if it did not fail, if its launch was measured, or if it only showed a batch size scan what does not fit. An
    attempt that was ended with the run is shown only if its launch has failed for good.
    """
    slot = state.slots[attempt.slot]
    if attempt.failure is None or slot.status is SlotStatus.MEASURED:
        return False
    answered = any(trial.launch == attempt.start.launch for trial in slot.tried)
    return not answered and (
        slot.status is SlotStatus.FAILED or not has_trait(attempt.failure.category, Trait.WITH_RUN)
    )


def _failure_words(attempt: Attempt, state: RunState, labels: dict[str, str], named: Alike) -> str:
    assert attempt.failure is not None
    where = f"{labels[attempt.device]}  {named.describe(state.cells[attempt.start.cell])} b{attempt.start.batch_size}"
    slot, again = state.slots[attempt.slot], ""
    if slot.launch != attempt.start.launch:
        again = " (tried again later, so not counted as failed)"
    elif slot.status is SlotStatus.WAITING:
        again = " (to be tried again, so not counted as failed)"
    return f"{where}: {attempt.failure.category}: {attempt.failure.message}{again}"


def _mean_s(run: Archive) -> dict[str, float]:
    lasted_s: dict[str, list[float]] = defaultdict(list)
    for attempt in run.attempts:
        if attempt.lasted_ms is not None:
            for uuid in run.replay.state.cells[attempt.start.cell].devices:
                lasted_s[uuid].append(attempt.lasted_ms / 1000)
    return {uuid: fmean(times) for uuid, times in lasted_s.items()}
