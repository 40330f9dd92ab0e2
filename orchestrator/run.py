"""Begins or goes on with a run: the two are the same, because recovering is the one way to start.

    lock ─▶ journal (recovered) ─▶ leftovers of an earlier life ended ─▶ Loop ─▶ Finished ─▶ reports

Everything that is opened here is closed here, also when the loop raises.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

from orchestrator import (
    TOOL_VERSION,
    archive,
    devices,
    ending,
    host,
    lock,
    preload,
    recovery,
    reporting,
    spawn,
    users,
    validity,
)
from orchestrator.budget import Budget
from orchestrator.conductor import Surroundings
from orchestrator.configuration import StoredRun
from orchestrator.errors import DeviceError, RunFolderError, StorageError
from orchestrator.journal import Journal, read, temporary
from orchestrator.link import Link
from orchestrator.loop import Loop
from orchestrator.nursery import Nursery, ZygoteError
from orchestrator.records import Beside, End, Finished, Header, Record, Segment, Spawned, Start
from orchestrator.report.files import target
from orchestrator.report.model import Report
from orchestrator.signals import StopSignals
from orchestrator.telemetry import Telemetry
from orchestrator.view import Display, Notice
from protocol.cell import Device, DeviceKind
from protocol.failure import Category, Failure, Phase
from protocol.paths import RunPaths


def execute(stored: StoredRun, paths: RunPaths, display: Display) -> Report:
    """Work on the run in a folder until it is done, and write its reports; the verdict is in what is returned.

    Raises UserError when it cannot be worked on here (in use, another plan, a GPU that is gone or busy), StorageError
    when the disk refuses.
    """
    spawn.check_rooms()
    if paths.journal.exists():  # before the GPUs are looked at: what is left of this run may be what uses them
        with lock.held(paths):
            _end_leftovers(stored, paths)
    driver = _look_at_the_gpus(stored, display)
    with StopSignals() as stop_signals, lock.held(paths), Journal(paths.journal) as journal:
        _take_over(stored, paths, journal, driver)
        try:
            _work(stored, paths, journal, stop_signals, display)
        except ZygoteError as error:
            display.tell(Notice(level="error", message=str(error)))
            journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=str(error), broken=True))
        except StorageError as error:
            journal.last_word(
                Finished(at_ns=time.monotonic_ns(), interrupted=True, reason=f"stopped: {error}", broken=True)
            )
            raise
        return reporting.write(stored, paths)


def left_to_do(stored: StoredRun, paths: RunPaths) -> int:
    """How many planned launches are still to be made, those among them whose result is not there any more."""
    records = read(paths.journal) if paths.journal.exists() else ()
    if not records:
        return stored.plan.launches
    state = recovery.restore(stored.plan, records, {device.uuid: device.name for device in stored.devices})
    return len(state.slots) - state.settled + len(_lost(stored, paths))


def is_over(paths: RunPaths) -> bool:
    """Whether somebody has written that the run is over, and nobody has taken it up again since."""
    records = read(paths.journal) if paths.journal.exists() else ()
    return any(isinstance(record, Finished) for record in records[-1:])


def _work(stored: StoredRun, paths: RunPaths, journal: Journal, stop_signals: StopSignals, display: Display) -> None:
    """Run what is left of the plan, and write down how that ended."""
    spawn.become_subreaper()
    with ExitStack() as opened:
        opened.callback(_end_children)
        deadlines = stored.configuration.deadlines
        modules = preload.modules(stored, stored.plan.cells)
        nursery = Nursery(modules, paths.log("zygote"), deadlines.start + deadlines.import_)
        opened.callback(nursery.close)
        telemetry = _telemetry(stored, paths)
        if telemetry is not None:
            opened.callback(telemetry.stop)
        link = opened.enter_context(Link(paths.folder.name))
        around = Surroundings(stored, paths, journal, link, nursery, telemetry, stop_signals, display, _budget(stored))
        kinds = {device.uuid: device.name for device in stored.devices}
        loop = Loop(around, recovery.restore(stored.plan, read(paths.journal), kinds))
        loop.run()
        left_over = loop.state.stopping and loop.state.settled < len(loop.state.slots)
        reason = "stopped on request" if left_over else ""
        journal.append(Finished(at_ns=time.monotonic_ns(), interrupted=left_over, reason=reason))


def _budget(stored: StoredRun) -> Budget | None:
    """The time that the run may take, counted from the start of this process: each `resume` has it anew."""
    limit_s = stored.configuration.time_limit_s
    if limit_s is None:
        return None
    return Budget(stored.configuration, stored.devices, limit_s, time.monotonic() - host.age_s())


def _look_at_the_gpus(stored: StoredRun, display: Display) -> str | None:
    """The driver as it is now, None where NVML does not tell.

    Refuses to go on where a GPU of the run is gone, or others compute on it. Without NVML the run goes on, as it does
    when NVML fails in the middle of it.
    """
    gpus = [device for device in stored.devices if device.kind is DeviceKind.CUDA]
    if not gpus:
        return None
    found = devices.inventory()
    if found.nvml is devices.NvmlStatus.OK:
        _require_free(gpus, found, allow_busy=stored.configuration.allow_busy)
        for gpu in users.unseen(gpus):
            words = f"NVML does not tell who uses {gpu.label}: whether others compute on it during this run is not seen"
            display.tell(Notice(level="warning", message=words))
    else:
        display.tell(Notice(level="warning", message=f"the GPUs cannot be looked at: {found.reason}"))
    return found.driver_version


def _require_free(gpus: list[Device], found: devices.Inventory, *, allow_busy: bool) -> None:
    """Refuse GPUs that are gone, or that others compute on."""
    present = {gpu.uuid for gpu in (*found.gpus, *found.slices)}
    for gpu in gpus:
        if gpu.uuid not in present:
            raise DeviceError(f"{gpu.label} of this run ({gpu.uuid}) is not in this machine. Nothing was started.")
    refusal = users.refusal(gpus, users.busy(gpus))
    if refusal is not None and not allow_busy:
        raise DeviceError(refusal)


def _take_over(stored: StoredRun, paths: RunPaths, journal: Journal, driver: str | None) -> None:
    """Begin a segment. Attempts that were running when an earlier process died are ended, lost results taken back."""
    records = journal.recovered
    if not records:
        if any(paths.folder.glob("launches/*/*/result.msgpack")):
            raise RunFolderError(
                f"{paths.journal} is empty or missing, but launches/ holds results, which going on would overwrite. "
                "Put the journal back, or begin a new run."
            )
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
    elif isinstance(records[0], Header):
        archive.require_one_run(stored, records[0], paths)
    journal.append(
        Segment(
            boot_id=host.boot_id(),
            driver_version=driver,
            tool_version=TOOL_VERSION,
            pid=os.getpid(),
            wall=time.time(),
            monotonic_ns=time.monotonic_ns(),
        )
    )
    for launch in _interrupted(records):
        journal.append(End(launch=launch, at_ns=time.monotonic_ns(), failure=recovery.interrupted()))
    for launch, who in recovery.beside_others(records).items():
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
    yield from paths.folder.glob("launches/*/*/*.tmp")
    output = Path(stored.configuration.output_path)
    published = [target(output, kind) for kind in stored.configuration.formats]
    for record in records:
        if isinstance(record, Segment):
            yield from (temporary(path, record.pid) for path in published)


def _interrupted(records: tuple[Record, ...]) -> list[int]:
    """Launches that were begun and never ended."""
    ended = {record.launch for record in records if isinstance(record, End)}
    return [record.launch for record in records if isinstance(record, Start) and record.launch not in ended]


def _end_leftovers(stored: StoredRun, paths: RunPaths) -> None:
    """End workers of an earlier life of this run, and what they started. Only within the same boot."""
    records = read(paths.journal)
    if records and isinstance(records[0], Header):
        archive.require_one_run(stored, records[0], paths)
    boot, workers = "", list[ending.Identity]()
    for record in records:
        if isinstance(record, Segment):
            boot = record.boot_id
        elif isinstance(record, Spawned) and boot == host.boot_id():
            workers.append((record.pid, record.start_ticks))
    ending.end_leftovers(workers)
    ending.end_leftovers(ending.orphans(workers, paths.folder.resolve()))


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
