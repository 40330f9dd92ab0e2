"""Begins or goes on with a run: the two are the same, because recovering is the one way to start.

    leftovers of an earlier life ended ─▶ GPUs looked at ─▶ lock ─▶ journal (recovered) ─▶ Loop ─▶ Finished ─▶ reports

Everything that is opened here is closed here, also when the loop raises.
"""

import math
import os
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
from orchestrator.engine.launches.link import Link
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
from orchestrator.store import lock, report_places, run_files
from orchestrator.store.journal import Journal, read, temporary
from orchestrator.store.records import Beside, End, Finished, Header, Record, Segment, Spawned, Start
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
    """Work on the run in a folder until it is done, and write its report; the verdict is in what is returned.

    look: at its GPUs, of a run that was planned just now, and on which CUDA was tried; None to do both here. Raises
    UserError when it cannot be worked on here (in use, another plan, GPUs that are busy, a driver that hangs, CUDA that
    does not work), StorageError when the disk refuses, and what `write_report` raises once the run is over.
    stop_signals: those of the command, None where it has caught none yet. A run that was asked to stop before it began
    begins nothing, and is reported.
    kind: of the run. write_report: writes its files while the run's lock is still held (run_reports/reporting.write).
    """
    process_start.check_rooms()
    if paths.journal.exists():  # before the GPUs are looked at: what is left of this run may be what uses them
        with lock.held(paths):
            _end_leftovers(stored, paths)
    asked = stop_signals is not None and stop_signals.requests > 0
    driver, gone = (None, ()) if asked else readiness.check(stored, display, look)
    with ExitStack() as opened:
        signals = stop_signals or opened.enter_context(StopSignals())
        opened.enter_context(lock.held(paths))
        archive.require_own_journal(stored, paths)  # before it is opened, which makes one and cuts a torn end off
        journal = opened.enter_context(Journal(paths.journal))
        signals.spare(math.inf)
        changed = _settings(stored)
        _take_over(stored, paths, journal, driver, changed, kind=kind)
        elsewhere = _begun_elsewhere(stored, paths, journal, driver)
        for words in (*(environment.words(*one) for one in changed), *elsewhere):
            display.tell(Notice(level="warning", message=words))
        try:
            _work(stored, paths, journal, signals, display, kind=kind, gone=gone)
        except ZygoteError as error:
            display.tell(Notice(level="error", message=str(error)))
            journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=str(error), broken=True))
        except StorageError as error:
            journal.last_word(
                Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=f"stopped: {error}", broken=True)
            )
            raise
        return write_report(stored, paths)


def _begun_elsewhere(stored: StoredRun, paths: RunPaths, journal: Journal, driver: str | None) -> Iterator[str]:
    """What to say where the run was begun with other software; nothing of one that begins now."""
    if journal.recovered:
        yield from stack_changes.warnings(archive.assemble(stored, paths, journal.recovered), driver)


def left_to_do(stored: StoredRun, paths: RunPaths, kind: Kind) -> tuple[int, int]:
    """How many launches are still to be made, those among them whose result is not there any more, and of how many.

    They are those of the plan and those that were added. A run that has a time to serve is done with that, whatever of
    its rounds there was no time for, or waits for a GPU that was taken out; and as long as it is not, there are more.
    Where it is, nothing is left for results that are lost either: they are not taken back, and their files may be put
    back.
    """
    records = read(paths.journal) if paths.journal.exists() else ()
    if not any(isinstance(record, Segment) for record in records):
        return stored.plan.launches, stored.plan.launches
    if kind.remaining is None:
        state = _state(stored, records)
        return len(state.slots) - state.settled + len(_lost(stored, paths)), len(state.slots)
    state = _state(stored, (*records, _newest(records)))  # as it stands once it is resumed
    so_far = remaining(stored, paths, kind) if came_to_its_end(records) else None
    if so_far is not None and not so_far.short:
        return 0, len(state.slots)
    return len(state.slots) - state.settled or len(stored.plan.cells), len(state.slots)


@evidence.collector_off()
def remaining(stored: StoredRun, paths: RunPaths, kind: Kind) -> Remaining | None:
    """What a run has served of its time, as its report tells it; None where it has none. Raises RunFolderError."""
    if kind.remaining is None:
        return None
    loaded = archive.assemble(stored, paths, read(paths.journal))
    return kind.remaining(loaded, evidence.gather(loaded))


def came_to_its_end(records: Sequence[Record]) -> bool:
    """Whether the process that worked on a run last was through with it, neither stopped nor broken off."""
    return any(isinstance(one, Finished) and not one.interrupted and not one.broken for one in records[-1:])


def is_over(paths: RunPaths) -> bool:
    """Whether somebody has written that the run is over, and nobody has taken it up again since."""
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
    """Run what is left of the plan, and write down how that ended. gone: GPUs that are not used."""
    process_start.become_subreaper()
    with ExitStack() as opened:
        opened.callback(_end_children)
        deadlines = stored.configuration.deadlines
        modules = preload.modules(stored, stored.plan.cells)
        cache = Path(stored.configuration.cache_folder)
        environment = process_start.environment_of_workers(cache, kind.worker_environment)
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
        left_over = loop.state.stopping and loop.state.settled < len(loop.state.slots)
        reason = "stopped on request" if left_over else ""
        journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=left_over, reason=reason))


def _settings(stored: StoredRun) -> tuple[tuple[str, str], ...]:
    """The environment variables that change what is measured on GPUs, where there is one in the run."""
    gpus = any(device.kind is DeviceKind.CUDA for device in stored.devices)
    return environment.set_in(os.environ) if gpus else ()


def _state(stored: StoredRun, records: tuple[Record, ...]) -> RunState:
    """Where the run stands by these records of its journal."""
    return replay(stored.plan, rules_of(stored), records).state


def _budget(stored: StoredRun, kind: Kind, records: tuple[Record, ...]) -> Budget | None:
    """The time that the run may take, counted from the start of this process. records: of its journal, up to now.

    Each `resume` has it anew, but where it has a time to serve: what was served before counts, and its start does not.
    """
    configuration = stored.configuration
    if configuration.time_limit_s is None:
        return None
    limit_s, now = configuration.time_limit_s, time.monotonic()
    if kind.remaining is not None and sum(isinstance(record, Segment) for record in records) > 1:
        starts = now if configuration.isolation is Isolation.FORK else None  # else each launch imports for itself
        return Budget(configuration, stored.devices, limit_s, now - _newest(records).served_s, starts=starts)
    return Budget(configuration, stored.devices, limit_s, now - host.age_s())


def _take_over(
    stored: StoredRun,
    paths: RunPaths,
    journal: Journal,
    driver: str | None,
    changed: tuple[tuple[str, str], ...],
    *,
    kind: Kind,
) -> None:
    """Begin a segment. Attempts that were running when an earlier process died are ended, lost results taken back.

    changed: the environment variables that change what is measured.
    """
    records = journal.recovered
    so_far = remaining(stored, paths, kind) if records else None
    if not records:
        journal.append(
            Header(
                run_id=stored.run_id,
                plan_hash=stored.plan.hash,
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
            settings=changed,
            served_s=0.0 if so_far is None else so_far.served_s,
        )
    )
    for start in _interrupted(records):
        phase = log_files.phase_reached(paths.launch(start.cell, start.attempt).phase, Phase.START)
        journal.append(End(launch=start.launch, at_ns=time.monotonic_ns(), failure=interrupted(phase)))
    for launch, who in contamination.unmarked(stored.plan, records).items():
        at_ns = time.monotonic_ns()
        marked = stored.configuration.allow_busy
        journal.append(
            Beside(launch=launch, at_ns=at_ns, by=who)
            if marked
            else End(launch=launch, at_ns=at_ns, failure=validity.contaminated(who))
        )
    for launch, failure in _lost(stored, paths):
        journal.append(End(launch=launch, at_ns=time.monotonic_ns(), failure=failure))
    for file in _half_written(stored, paths, records):
        file.unlink(missing_ok=True)


def _newest(records: tuple[Record, ...]) -> Segment:
    """The segment of a run that was begun in which it stands."""
    return next(record for record in reversed(records) if isinstance(record, Segment))


def _lost(stored: StoredRun, paths: RunPaths) -> list[tuple[int, Failure]]:
    """Launches whose result is not the one that the journal promised: they are measured anew."""
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
    """What killed processes were writing, in the run's folder and where the user wants the report."""
    yield from paths.folder.glob("*.tmp")
    yield from paths.of_processes("*.tmp")
    published = report_places.published(stored, paths)
    for record in records:
        if isinstance(record, Segment):
            yield from (temporary(path, record.pid) for path in published)


def _interrupted(records: tuple[Record, ...]) -> list[Start]:
    """Launches that were begun and never ended."""
    ended = {record.launch for record in records if isinstance(record, End)}
    return [record for record in records if isinstance(record, Start) and record.launch not in ended]


def _end_leftovers(stored: StoredRun, paths: RunPaths) -> None:
    """End workers of an earlier life of this run, and what they started. Only within the same boot."""
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
    """The sampler; None where there is no GPU to read, or the user does not want it: the report then says which."""
    gpus = [device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA]
    if not gpus or not stored.configuration.monitor:
        return None
    terms = kind.telemetry_terms(stored.configuration)
    return Telemetry.start(gpus, paths.folder, stored.configuration.monitor_interval_ms, terms.stop, terms.hot)


def _end_telemetry(telemetry: Telemetry, display: Display) -> None:
    """End the sampler, and say what it could not keep: nobody hears it any more once the loop is over."""
    telemetry.stop()
    for reason in telemetry.last_words:
        display.tell(Notice(level="warning", message=f"no GPU readings: {reason}"))


def _end_children() -> None:
    """Leave no process behind: workers that nobody waits for, and what they started."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=5)
