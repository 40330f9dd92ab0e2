"""Read how each fault was handled (journal, report, logs), and what the run left behind."""

import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import psutil

from orchestrator.engine.display_events import CellEnded, Display, Notice, Snapshot
from orchestrator.engine.launches.link import socket_folder
from orchestrator.figures.report import Report
from orchestrator.selftest.campaign import Injection
from orchestrator.selftest.judge import Account, NamedFailure, Try
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.slots import scopes
from orchestrator.system import process_end
from protocol.paths import RunPaths

_FRAME: Final = '  File "'
"""Prefix of each line of a stack that faulthandler dumps."""
_BLOCK: Final = 512


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Largest length (printed_bytes) and largest disk usage (disk_bytes) of a log while it was written."""

    printed_bytes: int = 0
    disk_bytes: int = 0


class Watch:
    """A display that passes all on to `display`, and notes for `seen` how large the logs of launches become."""

    def __init__(self, display: Display, paths: RunPaths) -> None:
        self._display = display
        self._paths = paths
        self._seen: dict[Path, Seen] = {}
        self.close = display.close

    def seen(self, log: Path) -> Seen:
        """Return the largest length and disk usage of a log so far; 0 for a log that was never seen."""
        return self._seen.get(log, Seen())

    def show(self, snapshot: Snapshot) -> None:
        """Note the sizes of the logs of all running launches for `seen`, then show the snapshot."""
        for line in snapshot.devices:
            self._look(line.cell_id, line.attempt)
        self._display.show(snapshot)

    def tell(self, event: CellEnded | Notice) -> None:
        """Note the sizes of the log if a launch ended (it is not compacted yet), for `seen`. Then show the event."""
        if isinstance(event, CellEnded):
            self._look(event.cell_id, event.attempt)
        self._display.tell(event)

    def _look(self, cell: str | None, attempt: int) -> None:
        if cell is None:
            return
        log = self._paths.launch(cell, attempt).stdout
        try:
            status = log.stat()
        except FileNotFoundError:
            return  # its process does not exist yet
        before = self.seen(log)
        self._seen[log] = Seen(
            printed_bytes=max(before.printed_bytes, status.st_size),
            disk_bytes=max(before.disk_bytes, status.st_blocks * _BLOCK),
        )


def left_behind(paths: RunPaths) -> Iterator[str]:
    """Describe each leftover of the finished run: a process, its socket folder, a temporary file. Nothing if clean."""
    own = psutil.Process()
    children = {child.pid for child in own.children(recursive=True)}
    for process in psutil.process_iter(("pid", "name")):
        if process.pid in children or (process.pid != own.pid and _uses(process.pid, paths.folder)):
            yield f"the process {process.pid} ({process.info['name']})"
    sockets = socket_folder(paths.folder.name)
    if sockets.exists():
        yield f"the socket folder {sockets}"
    yield from (f"the temporary file {path}" for path in sorted(paths.folder.rglob("*.tmp")))


def _uses(pid: int, folder: Path) -> bool:
    """Whether a process has a file of the folder open. Every process of a run has its own log open there."""
    try:
        return process_end.holds(pid, folder)
    except OSError:
        return False  # it has ended, or belongs to another user


def read(
    archive: Archive, report: Report, injection: Injection, moments: Mapping[int, int], seen: Callable[[Path], Seen]
) -> Account:
    """Return how one fault was handled, by the journal (`archive`), the report and the logs.

    moments: as returned by `moments`. seen: returns a log's largest length and disk usage (Watch.seen).
    """
    cell, device = injection.cell, injection.device.uuid
    last = [attempt.start.cell for attempt in archive.attempts if attempt.start.device == device][-1:]
    return Account(
        status=next(entry.status for entry in report.cells if entry.cell == cell.id),
        tries=tuple(
            _try(archive, attempt, moments, seen) for attempt in archive.attempts if attempt.start.cell == cell.id
        ),
        reported=tuple(
            NamedFailure(failure.category, failure.message, failure.phase)
            for failure in report.failures
            if failure.cell == cell.id
        ),
        skipped=not archive.skipped.keys().isdisjoint(scopes(cell)),
        quarantined=archive.quarantined.get(device, "") if last == [cell.id] else "",
    )


def moments(path: Path) -> dict[int, int]:
    """Return number of a launch → monotonic nanoseconds at which its fault was injected. {} if `path` is missing."""
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return {int(launch): int(at_ns) for launch, at_ns in map(str.split, lines)}


def _try(archive: Archive, attempt: Attempt, injected_ns: Mapping[int, int], seen: Callable[[Path], Seen]) -> Try:
    failure, left, moment = attempt.failure, attempt.left, injected_ns.get(attempt.start.launch)
    stdout, stacks = archive.folder(attempt).stdout, archive.folder(attempt).fault
    return Try(
        batch_size=attempt.start.batch_size,
        category=None if failure is None else str(failure.category),
        message="" if failure is None else failure.message,
        signal=None if left is None or left.signal is None else signal.Signals(left.signal).name,
        injected=moment is not None,
        seconds=None if moment is None or attempt.end is None else (attempt.end.at_ns - moment) / 1e9,
        output_bytes=stdout.stat().st_size if stdout.exists() else 0,
        phase=None if failure is None else str(failure.phase),
        stacks=stacks.exists() and _FRAME in stacks.read_text(encoding="utf-8", errors="replace"),
        printed_bytes=seen(stdout).printed_bytes,
        disk_bytes=seen(stdout).disk_bytes,
    )
