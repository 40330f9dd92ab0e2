"""Read a stored run back from disk: configuration, attempts at measurements, and results."""

import dataclasses
import functools
import hashlib
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.config.run_configuration import StoredRun
from orchestrator.errors import RunFolderError
from orchestrator.state import coherence
from orchestrator.state.attempts import Attempt
from orchestrator.state.replay import Replay, replay, rules_of
from orchestrator.store import damage, journal, run_files
from orchestrator.store.journal_records import (
    Dropped,
    End,
    Finished,
    Foreign,
    Header,
    Record,
    Segment,
    Start,
    Suspension,
    TelemetryEnded,
    TooHot,
    ZygoteStarted,
)
from protocol import codec
from protocol.cell import Cell, Device
from protocol.errors import ProtocolError
from protocol.paths import LaunchPaths, RunPaths
from protocol.result import Result

_RESULT: Final = codec.Decoder[Result](Result)


class ResultFileError(Exception):
    """A result file is missing or damaged. The message names the file and the reason."""


@dataclass(frozen=True)
class Archive:
    """One run, read from its folder. A session is the work of one process on it; its record is a Segment.

    replay: the state of the run, from its journal. attempts: in the order of their starts. segments, durations_s,
    suspended: one element for each session, in order. durations_s: seconds from its start to its end, or to the last
    start or end of a launch. zygotes: processes from which launches were forked. too_hot: UUID of a GPU → (reason,
    seconds since the epoch) of the first time that it was too hot.
    dropped_ns: session → (cell id, round) → monotonic time (ns) at which the launch was dropped. foreign: session →
    records of other processes that came to a GPU or left it. telemetry_ended: session → monotonic time (ns) at which
    telemetry ended early; other sessions are absent.
    """

    paths: RunPaths
    stored: StoredRun
    header: Header
    replay: Replay
    attempts: tuple[Attempt, ...]
    segments: tuple[Segment, ...]
    durations_s: tuple[float, ...]
    suspended: tuple[tuple[Suspension, ...], ...]
    zygotes: tuple[ZygoteStarted, ...]
    too_hot: Mapping[str, tuple[str, float]]
    dropped_ns: Mapping[Segment, Mapping[tuple[str, int], int]]
    foreign: Mapping[Segment, Sequence[Foreign]]
    telemetry_ended: Mapping[Segment, int]

    @property
    def quarantined(self) -> Mapping[str, str]:
        """The devices that are in quarantine now: UUID → reason."""
        return self.replay.quarantined

    @property
    def skipped(self) -> Mapping[str, str]:
        """Skipped models and parts of models: name, such as "resnet50 training fp16" (`slots.scopes`), → reason."""
        return self.replay.skipped

    @property
    def added(self) -> tuple[tuple[str, int], ...]:
        """The launches added to the plan so far, as (cell id, round), whether they were made or not."""
        return self.replay.added

    @property
    def dropped(self) -> Mapping[tuple[str, int], str]:
        """The launches that were dropped for lack of time: (cell id, round) → reason."""
        return self.replay.dropped

    @property
    def finished(self) -> Finished | None:
        """The end of the last session; None while it has not ended, or if its process was killed."""
        return self.replay.finished

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """The planned cells by id."""
        return {cell.id: cell for cell in self.stored.plan.cells}

    @functools.cached_property
    def devices(self) -> Mapping[str, Device]:
        """The devices of the run by UUID."""
        return {device.uuid: device for device in self.stored.devices}

    @functools.cached_property
    def tries(self) -> Mapping[str, Sequence[Attempt]]:
        """The attempts by cell id, oldest first; a cell without attempts has no entry."""
        attempts: dict[str, list[Attempt]] = {}
        for attempt in self.attempts:
            attempts.setdefault(attempt.start.cell, []).append(attempt)
        return attempts

    def so_far(self) -> "Archive":
        """Return the same run without attempts of its last session that have no end, as they are still running."""
        now = self.segments[-1]
        return dataclasses.replace(
            self,
            attempts=tuple(attempt for attempt in self.attempts if attempt.end is not None or attempt.segment != now),
        )

    def folder(self, attempt: Attempt) -> LaunchPaths:
        """Return the paths of an attempt's files, whether they exist or not."""
        return self.paths.launch(attempt.start.cell, attempt.start.attempt)

    def result(self, attempt: Attempt) -> Result:
        """Read an attempt's result. ResultFileError: its file is lost or damaged. ValueError: the attempt has none."""
        return self._read(attempt, attempt.promised)

    def withdrawn_result(self, attempt: Attempt) -> Result:
        """Read the withdrawn result of an attempt. Raises ValueError if no result was withdrawn.

        Raises ResultFileError if its file is lost or damaged.
        """
        return self._read(attempt, attempt.withdrawn)

    def _read(self, attempt: Attempt, promised: str | None) -> Result:
        if promised is None:
            raise ValueError(f"launch {attempt.start.launch} has no such result")
        return read_result(self.folder(attempt), promised, self.devices.keys())


def read_result(folder: LaunchPaths, promised: str, devices: Collection[str]) -> Result:
    """Read and check the result file in `folder`. promised: its expected SHA-256 in hex, from the journal.

    devices: UUIDs of the run's devices. Raises ResultFileError if the file is missing, has another hash or a flaw
    (Result.flaw), or was measured on another device.
    """
    path = folder.result
    try:
        with path.open("rb") as file:
            # read(MAX_MESSAGE_BYTES) would allocate that many bytes for each of 100,000 files.
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, codec.MAX_MESSAGE_BYTES) + 1)
    except OSError as error:
        raise ResultFileError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != promised:
        raise ResultFileError(f"{path}: not the result that the journal recorded ({len(data)} bytes, wrong hash)")
    try:
        result = _RESULT.decode(data)
    except ProtocolError as error:
        raise ResultFileError(f"{path}: {error}") from error
    if result.flaw is not None:
        raise ResultFileError(f"{path}: not a measurement: {result.flaw}")
    if not {*result.cell.devices} <= {*devices}:
        raise ResultFileError(f"{path}: measured on devices that are not in this run")
    return result


def load(paths: RunPaths, stored: StoredRun | None = None, *, alive: bool = False) -> Archive:
    """Read the run in a folder. Raises RunFolderError if a file of it is missing, damaged or of another run.

    stored: its configuration and plan; None: read them. alive: a process works on the run, so attempts without an end
    are running, not interrupted. Result files are not read.
    """
    stored = stored or run_files.load(paths)
    results = tuple(paths.results())
    begun = paths.journal.exists() or paths.launches.is_dir()
    records = journal.read(paths.journal) if begun else ()
    archive = assemble(stored, paths, records, alive=alive)
    require_known(paths, results, records)
    return archive


def assemble(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...], *, alive: bool = False) -> Archive:
    """Build the archive from a stored run and its journal.

    alive: a process works on the run, so attempts without an end are running, not interrupted. Raises RunFolderError if
    the journal has no records, belongs to another run, or has records that contradict the plan.
    """
    header = require_coherent(stored, paths, records)
    replayed = replay(stored.plan, rules_of(stored), records, alive=alive)
    segments: list[Segment] = []
    durations_s: list[float] = []
    suspended: list[list[Suspension]] = []
    zygotes: list[ZygoteStarted] = []
    too_hot: dict[str, tuple[str, float]] = {}
    dropped_ns: dict[Segment, dict[tuple[str, int], int]] = defaultdict(dict)
    foreign: dict[Segment, list[Foreign]] = defaultdict(list)
    telemetry_ended: dict[Segment, int] = {}
    for record in records:
        match record:
            case Segment():
                segments.append(record)
                durations_s.append(0.0)
                suspended.append([])
            case Start() | End() | Finished():
                durations_s[-1] = (record.at_ns - segments[-1].monotonic_ns) / 1e9
            case Suspension():
                suspended[-1].append(record)
            case ZygoteStarted():
                zygotes.append(record)
            case Foreign():
                foreign[segments[-1]].append(record)
            case TelemetryEnded():
                telemetry_ended.setdefault(segments[-1], record.at_ns)
            case TooHot():
                too_hot.setdefault(record.device, (record.reason, segments[-1].at(record.at_ns)))
            case Dropped():
                dropped_ns[segments[-1]][record.cell, record.round] = record.at_ns
    return Archive(
        paths=paths,
        stored=stored,
        header=header,
        replay=replayed,
        attempts=replayed.attempts,
        segments=tuple(segments),
        durations_s=tuple(durations_s),
        suspended=tuple(map(tuple, suspended)),
        zygotes=tuple(zygotes),
        too_hot=too_hot,
        dropped_ns=dict(dropped_ns),
        foreign=dict(foreign),
        telemetry_ended=telemetry_ended,
    )


def require_coherent(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...]) -> Header:
    """Check that the journal belongs to the run, and return its header.

    Raises RunFolderError if it has no records, belongs to another run, or has records that contradict the plan.
    """
    header = records[0] if records else None
    if header is None and not paths.launches.is_dir():
        raise RunFolderError(
            f"{paths.folder}: no records yet. Start the run with `gpubench-orchestrate resume {paths.folder}`."
        )
    if not isinstance(header, Header):
        raise RunFolderError(f"{paths.journal}: the journal does not name its run. {damage.advice(paths.journal)}")
    run_files.require_one_run(stored, header, paths)
    if problem := coherence.wrong(stored, records):
        raise RunFolderError(f"{paths.journal}: damaged: {problem}. {damage.advice(paths.journal)}")
    return header


def require_own_journal(stored: StoredRun, paths: RunPaths) -> None:
    """Check that the journal belongs to the run and has the start of each launch with a result file. Write nothing.

    Raises RunFolderError if not. A missing or empty journal is accepted as long as there are no results.
    """
    results = tuple(paths.results())
    records = journal.read(paths.journal) if paths.journal.exists() else ()
    if records:
        require_coherent(stored, paths, records)
    require_known(paths, results, records)


def require_known(paths: RunPaths, results: Iterable[str], records: Iterable[Record]) -> None:
    """Check that the journal has the start of each launch with a result file. Raises RunFolderError if not.

    results: those launches, as "<cell id>/<attempt>". List them before you read the journal, because both may grow.
    """
    on_disk = set(results)
    started = {f"{record.cell}/{record.attempt}" for record in records if isinstance(record, Start)}
    if unknown := on_disk - started:
        first = paths.launches / min(unknown)
        raise RunFolderError(
            f"{paths.journal} is missing, empty or cut short: it lacks {len(unknown)} of {len(on_disk)} results in "
            f"launches/ (the first in {first}). A report would miss these results, and `resume` would overwrite them. "
            f"{damage.advice(paths.journal)}"
        )
