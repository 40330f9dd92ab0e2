"""Start or resume a run. Both are the same: recovery is the only way to start.

end leftover workers ─▶ check the GPUs ─▶ lock ─▶ journal (recovered) ─▶ Loop ─▶ Finished ─▶ reports
"""

import math
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

from orchestrator import TOOL_VERSION
from orchestrator.analysis import evidence
from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.engine import readiness
from orchestrator.engine.display_events import Display, Notice
from orchestrator.engine.kind import Kind, Remaining
from orchestrator.engine.launches.link import Link, LinkError
from orchestrator.engine.launches.zygote_client import ZygoteClient, ZygoteError
from orchestrator.engine.loop import Loop
from orchestrator.engine.run_context import RunContext
from orchestrator.errors import StorageError
from orchestrator.figures.report import Report
from orchestrator.gpu import environment
from orchestrator.gpu.inventory import Look
from orchestrator.gpu.telemetry import validity
from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.plan import preload
from orchestrator.state import archive, contamination, stack_changes
from orchestrator.state.replay import interrupted, replay, rules_of
from orchestrator.state.slots import RunState
from orchestrator.state.time_budget import Budget
from orchestrator.store import lock, report_places, reserve, run_files
from orchestrator.store.journal import Journal, read, reserve_of, temporary
from orchestrator.store.journal_records import Beside, End, Finished, Header, Record, Segment, Spawned, Start
from orchestrator.system import host, log_files, process_end, process_start
from orchestrator.system.stop_signals import StopSignals
from protocol.cell import DeviceKind
from protocol.failure import Category, Failure, Phase
from protocol.messages import GpuBroken
from protocol.paths import RunPaths


def execute(
    stored: StoredRun,
    paths: RunPaths,
    display: Display,
    look: Look | None = None,
    stop_signals: StopSignals | None = None,
    *,
    kind: Kind,
    write_report: Callable[[StoredRun, RunPaths], Report],
) -> Report:
    """Work on a run until it is done or stopped, write its report and return it.

    look: returns what NVML showed when the run was planned. CUDA was tested then, so it is not tested again. None: read
    NVML and test CUDA now. stop_signals: those that the command already catches; None: catch them here. write_report:
    called while the lock is held. If no worker can be started any more, the report has the results so far.

    Raises UserError if the run cannot be worked on here, StorageError if files cannot be written, and the errors of
    `write_report`.
    """
    process_start.check_rooms()
    if paths.journal.exists():  # before the check of the GPUs, which leftover workers may use
        with lock.held(paths):
            _end_leftovers(stored, paths)
    asked = stop_signals is not None and stop_signals.requests > 0
    driver, gone = (None, ()) if asked else readiness.check(stored, display, look)
    with ExitStack() as opened:
        signals = stop_signals or opened.enter_context(StopSignals())
        opened.enter_context(lock.held(paths))
        archive.require_own_journal(
            stored, paths
        )  # before the journal is opened, which creates it or cuts off a torn end
        journal = opened.enter_context(Journal(paths.journal))
        signals.spare(math.inf)
        on_gpus = any(device.kind is DeviceKind.CUDA for device in stored.devices)
        settings = environment.set_in(os.environ) if on_gpus else ()
        _take_over(stored, paths, journal, driver, settings, kind=kind)
        warnings = [environment.describe(*setting) for setting in settings]
        if journal.recovered:
            warnings += stack_changes.warnings(archive.assemble(stored, paths, journal.recovered), driver)
        for words in warnings:
            display.tell(Notice(level="warning", message=words))
        try:
            _work(stored, paths, journal, signals, display, kind=kind, gone=gone)
        except (ZygoteError, LinkError) as error:
            display.tell(Notice(level="error", message=str(error)))
            journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=str(error), broken=True))
        except StorageError as error:
            journal.last_word(
                Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=f"stopped: {error}", broken=True)
            )
            raise
        return write_report(stored, paths)


def clear_up(stored: StoredRun, paths: RunPaths) -> None:
    """Delete the run's reserved disk space (store/reserve.py), and unfinished files that a killed process left.

    Raises RunFolderError if a process works on the run, or if the journal is missing or damaged.
    """
    with lock.held(paths):
        reserve.remove(reserve_of(paths.journal))
        for file in _half_written(stored, paths, read(paths.journal)):
            file.unlink(missing_ok=True)


def left_to_do(stored: StoredRun, paths: RunPaths, kind: Kind) -> tuple[int, int]:
    """Return (number of launches that remain, number of all launches) of a run. Launches added to the plan count.

    kind: says whether the run has a duration (burn-in). Without a duration, a launch also remains if its result is
    lost. With one, no launch remains if the run came to its end and `remaining` says that it is not short. Otherwise
    its unsettled launches remain or, if all are settled, one more launch of each planned cell. Raises RunFolderError if
    a file of the run is damaged.
    """
    records = read(paths.journal) if paths.journal.exists() else ()
    if not any(isinstance(record, Segment) for record in records):
        return stored.plan.launches, stored.plan.launches
    if kind.remaining is None:
        state = _state(stored, records)
        return len(state.slots) - state.settled + len(_lost(stored, paths)), len(state.slots)
    state = _state(stored, (*records, _newest(records)))  # state after a resume
    so_far = remaining(stored, paths, kind) if came_to_its_end(records) else None
    if so_far is not None and not so_far.short:
        return 0, len(state.slots)
    return len(state.slots) - state.settled or len(stored.plan.cells), len(state.slots)


@evidence.collector_off()
def remaining(stored: StoredRun, paths: RunPaths, kind: Kind) -> Remaining | None:
    """Return the measured and the remaining time of a run with a duration (burn-in). None for other runs.

    Result files are read, which may take seconds; lost ones do not count. Raises RunFolderError if another file of the
    run is missing or damaged.
    """
    if kind.remaining is None:
        return None
    loaded = archive.assemble(stored, paths, read(paths.journal))
    return kind.remaining(loaded, evidence.gather(loaded))


def came_to_its_end(records: Sequence[Record]) -> bool:
    """Whether the last process that worked on the run finished it. False if it was stopped, aborted or killed."""
    return any(isinstance(record, Finished) and not record.interrupted and not record.broken for record in records[-1:])


def is_over(paths: RunPaths) -> bool:
    """Whether the last process that worked on the run recorded its end. True also for a stopped or aborted run.

    False without a journal, and for a killed process. Raises RunFolderError if the journal is damaged.
    """
    records = read(paths.journal) if paths.journal.exists() else ()
    return any(isinstance(record, Finished) for record in records[-1:])


def _work(
    stored: StoredRun,
    paths: RunPaths,
    journal: Journal,
    stop_signals: StopSignals,
    display: Display,
    *,
    kind: Kind,
    gone: tuple[GpuBroken, ...],
) -> None:
    process_start.become_subreaper()
    with ExitStack() as opened:
        opened.callback(_end_children)
        deadlines = stored.configuration.deadlines
        modules = preload.modules(stored, stored.plan.cells)
        cache = Path(stored.configuration.cache_folder)
        environment = process_start.environment_of_workers(cache, kind.worker_environment(stored.configuration))
        nursery = ZygoteClient(modules, paths.log("zygote"), deadlines.start + deadlines.import_, environment)
        opened.callback(nursery.close)
        telemetry = _telemetry(stored, paths, kind)
        if telemetry is not None:
            opened.callback(_end_telemetry, telemetry, display)
        link = opened.enter_context(Link(paths.folder.name))
        records = read(paths.journal)
        around = RunContext(
            stored=stored,
            kind=kind,
            paths=paths,
            journal=journal,
            link=link,
            nursery=nursery,
            telemetry=telemetry,
            stop_signals=stop_signals,
            display=display,
            budget=_budget(stored, kind, records),
            gone=gone,
        )
        loop = Loop(around, _state(stored, records))
        loop.run()
        # A gate that is stopped would have added launches, although no planned one may be left.
        all_done = loop.state.settled == len(loop.state.slots) and not stored.configuration.adds_rounds
        left_over = loop.state.stopping and not all_done
        reason = "stopped on request" if left_over else ""
        if not left_over:
            for caches in paths.compiler_caches():
                shutil.rmtree(caches, ignore_errors=True)
        journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=left_over, reason=reason))


def _state(stored: StoredRun, records: tuple[Record, ...]) -> RunState:
    return replay(stored.plan, rules_of(stored), records).state


def _budget(stored: StoredRun, kind: Kind, records: tuple[Record, ...]) -> Budget | None:
    """Return the run's time limit, which also knows when it began to count; None if the run has no limit.

    It counts from the start of this process. In a gate and in a resumed burn-in, it counts from this call instead, and
    the time in which the zygote imports modules does not count. In a resumed burn-in, the seconds that earlier sessions
    served are spent. records: the journal, with the record of this session.
    """
    configuration = stored.configuration
    if configuration.time_limit_s is None:
        return None
    limit_s, now = configuration.time_limit_s, time.monotonic()
    resumed = kind.remaining is not None and sum(isinstance(record, Segment) for record in records) > 1
    if resumed or configuration.least_launches:
        starts = now if configuration.isolation is Isolation.FORK else None  # else each launch imports for itself
        return Budget(configuration, stored.devices, limit_s, now - _newest(records).served_s, starts=starts)
    return Budget(configuration, stored.devices, limit_s, now - host.age_s())


def _take_over(
    stored: StoredRun,
    paths: RunPaths,
    journal: Journal,
    driver: str | None,
    settings: tuple[tuple[str, str], ...],
    *,
    kind: Kind,
) -> None:
    """Record that this process works on the run, and repair what earlier processes left.

    Record the end of their attempts, withdraw results whose file is lost, withdraw (with --allow-busy: mark) results
    contaminated by another process, and delete unfinished temporary files. driver: version, None if unknown. kind:
    tells how long a burn-in was served before, which is recorded, too. settings: (name, value) of environment variables
    that change measurements.
    """
    records = journal.recovered
    so_far = remaining(stored, paths, kind) if records else None
    if not records:
        journal.append(
            Header(
                run_id=stored.run_id,
                plan_hash=stored.plan.hash,
                config_hash=run_files.config_hash(paths),
                tool_version=TOOL_VERSION,
                created=time.time(),
                hostname=socket.gethostname(),
                devices=tuple(device.uuid for device in stored.devices),
            )
        )
    journal.append(
        Segment(
            boot_id=host.boot_id(),
            driver_version=driver,
            tool_version=TOOL_VERSION,
            pid=os.getpid(),
            wall=time.time(),
            monotonic_ns=time.monotonic_ns(),
            settings=settings,
            served_s=0.0 if so_far is None else so_far.served_s,
        )
    )
    ended = {record.launch for record in records if isinstance(record, End)}
    for start in (record for record in records if isinstance(record, Start) and record.launch not in ended):
        phase = log_files.phase_reached(paths.launch(start.cell, start.attempt).phase, Phase.START)
        journal.append(End(launch=start.launch, at_ns=time.monotonic_ns(), failure=interrupted(phase)))
    for launch, who in contamination.unmarked(stored.plan, records).items():
        at_ns = time.monotonic_ns()
        if stored.configuration.allow_busy:
            journal.append(Beside(launch=launch, at_ns=at_ns, by=who))
        else:
            journal.append(End(launch=launch, at_ns=at_ns, failure=validity.contaminated(who)))
    for launch, failure in _lost(stored, paths):
        journal.append(End(launch=launch, at_ns=time.monotonic_ns(), failure=failure))
    for file in _half_written(stored, paths, records):
        file.unlink(missing_ok=True)


def _newest(records: tuple[Record, ...]) -> Segment:
    return next(record for record in reversed(records) if isinstance(record, Segment))


def _lost(stored: StoredRun, paths: RunPaths) -> list[tuple[int, Failure]]:
    """Return (number of the launch, failure) for each result whose file is missing or does not match the journal."""
    run = archive.load(paths, stored)
    lost = []
    for attempt in run.attempts:
        if attempt.promised is not None:
            try:
                run.result(attempt)
            except archive.ResultFileError as error:
                failure = Failure(category=Category.RESULT_LOST, message=str(error), phase=Phase.FINISH)
                lost.append((attempt.start.launch, failure))
    return lost


def _half_written(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...]) -> Iterator[Path]:
    yield from paths.folder.glob("*.tmp")
    yield from paths.of_processes("*.tmp")
    published = report_places.published(stored, paths)
    for record in records:
        if isinstance(record, Segment):
            yield from (temporary(path, record.pid) for path in published)


def _end_leftovers(stored: StoredRun, paths: RunPaths) -> None:
    """End workers that an earlier process of this run left since the machine booted, and their children."""
    records = read(paths.journal)
    if records and isinstance(records[0], Header):
        run_files.require_one_run(stored, records[0], paths)
    boot, workers = "", list[process_end.Identity]()
    for record in records:
        if isinstance(record, Segment):
            boot = record.boot_id
        elif isinstance(record, Spawned) and boot == host.boot_id():
            workers.append((record.pid, record.start_ticks))
    process_end.end_leftovers(workers)
    process_end.end_leftovers(process_end.orphans(workers, paths.folder.resolve()))


def _telemetry(stored: StoredRun, paths: RunPaths, kind: Kind) -> Telemetry | None:
    gpus = [device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA]
    if not gpus or not stored.configuration.monitor:
        return None
    terms = kind.telemetry_terms(stored.configuration)
    return Telemetry.start(gpus, paths.folder, stored.configuration.monitor_interval_ms, terms.stop, terms.hot)


def _end_telemetry(telemetry: Telemetry, display: Display) -> None:
    telemetry.stop()
    for reason in telemetry.last_words:
        display.tell(Notice(level="warning", message=f"no GPU readings: {reason}"))


def _end_children() -> None:
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=5)
