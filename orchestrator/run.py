"""Begins or goes on with a run: the two are the same, because recovering is the one way to start.

    lock ─▶ journal (recovered) ─▶ leftovers of an earlier life ended ─▶ Loop ─▶ Finished ─▶ reports

Everything that is opened here is closed here, also when the loop raises.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil

from orchestrator import TOOL_VERSION, host, reporting, spawn, state
from orchestrator.configuration import StoredRun
from orchestrator.errors import RunFolderError
from orchestrator.journal import Journal
from orchestrator.link import Link
from orchestrator.loop import Loop, Surroundings
from orchestrator.nursery import Nursery, ZygoteError
from orchestrator.records import End, Finished, Header, Record, Segment, Spawned, Start
from orchestrator.signals import StopSignals
from orchestrator.state import RunState
from orchestrator.telemetry import Telemetry
from orchestrator.view import Display, Notice
from protocol.cell import DeviceKind
from protocol.exit_codes import ExitCode
from protocol.paths import RunPaths


def execute(stored: StoredRun, paths: RunPaths, display: Display) -> ExitCode:
    """Work on the run in a folder until it is done, and write its reports.

    Raises RunFolderError when another process works on it or its journal is of another plan, StorageError when the
    disk refuses.
    """
    with _locked(paths), StopSignals() as stop_signals, Journal(paths.journal) as journal:
        _take_over(stored, journal)
        try:
            finished = _work(stored, paths, journal, stop_signals, display)
            code = _verdict(finished)
        except ZygoteError as error:
            display.tell(Notice(level="error", message=str(error)))
            journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=str(error)))
            code = ExitCode.INTERNAL
        reporting.write(stored, paths)
        return code


def _work(
    stored: StoredRun, paths: RunPaths, journal: Journal, stop_signals: StopSignals, display: Display
) -> RunState:
    """Run what is left of the plan; the state in which it ended."""
    spawn.become_subreaper()
    with ExitStack() as opened:
        opened.callback(_end_children)
        nursery = Nursery(preload(stored), paths.log("zygote"))
        opened.callback(nursery.close)
        telemetry = _telemetry(stored, paths)
        if telemetry is not None:
            opened.callback(telemetry.stop)
        link = opened.enter_context(Link(paths.folder.name))
        around = Surroundings(stored, paths, journal, link, nursery, telemetry, stop_signals, display)
        loop = Loop(around, state.restore(stored.plan, journal.recovered))
        loop.run()
        left_over = loop.state.settled < len(loop.state.slots)
        reason = "stopped on request" if loop.state.stopping and left_over else ""
        journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=left_over, reason=reason))
        return loop.state


def preload(stored: StoredRun) -> tuple[str, ...]:
    """The modules that the zygote imports: workloads, families and model classes of the plan, each once."""
    configuration = stored.configuration
    modules = [f"worker.workloads.{workload}" for workload in configuration.workloads]
    for model in configuration.models:
        modules += [f"worker.models.{model.family}"] if model.family else []
        modules += model.preload
    return tuple(dict.fromkeys(modules))


@contextmanager
def _locked(paths: RunPaths) -> Iterator[None]:
    """Keep every other process away from the run's folder."""
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunFolderError(
                f"{paths.folder} is in use by another process. Wait until it has ended, or end it; then resume."
            ) from error
        yield
    finally:
        os.close(lock)


def _take_over(stored: StoredRun, journal: Journal) -> None:
    """Begin a segment. Attempts that were running when an earlier process died are ended, and counted."""
    records = journal.recovered
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
    elif not isinstance(records[0], Header) or records[0].plan_hash != stored.plan.hash:
        raise RunFolderError("run.yaml holds another plan than the one that the journal was begun with")
    journal.append(
        Segment(
            boot_id=host.boot_id(),
            driver_version=next((device.driver_version for device in stored.devices if device.driver_version), None),
            tool_version=TOOL_VERSION,
            pid=os.getpid(),
            wall=time.time(),
            monotonic_ns=time.monotonic_ns(),
        )
    )
    _end_leftovers(records)
    for launch in _interrupted(records):
        journal.append(End(launch=launch, at_ns=time.monotonic_ns(), failure=state.interrupted()))


def _interrupted(records: tuple[Record, ...]) -> list[int]:
    """Launches that were begun and never ended."""
    ended = {record.launch for record in records if isinstance(record, End)}
    return [record.launch for record in records if isinstance(record, Start) and record.launch not in ended]


def _end_leftovers(records: tuple[Record, ...]) -> None:
    """End workers of an earlier life of this run, in case one outlived its orchestrator. Only within the same boot."""
    boots = [record.boot_id for record in records if isinstance(record, Segment)]
    if boots and boots[-1] == host.boot_id():
        for record in records:
            if isinstance(record, Spawned):
                spawn.end_leftover(record.pid, record.start_ticks)


def _telemetry(stored: StoredRun, paths: RunPaths) -> Telemetry | None:
    """The sampler, where there is a GPU to read and the user wants it."""
    gpus = [device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA]
    if not gpus or not stored.configuration.monitor:
        return None
    return Telemetry.start(gpus, paths.folder, stored.configuration.monitor_interval_ms)


def _end_children() -> None:
    """Leave no process behind: workers that nobody waits for, and what they started."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=5)


def _verdict(finished: RunState) -> ExitCode:
    """Zero when every planned cell has a result, is referred to one, or does not fit."""
    complete = finished.settled == len(finished.slots)
    failed = any(slot.status is state.SlotStatus.FAILED for slot in finished.slots.values())
    return ExitCode.PASSED if complete and not failed else ExitCode.INCOMPLETE
