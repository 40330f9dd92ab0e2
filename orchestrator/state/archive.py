"""A run as it lies on disk, read back: what was asked for, what was tried, what came of it.

    run.yaml, plan.json ──▶ StoredRun ┐     (run_files.py)
    journal.gpj ──▶ records ──────────┴──▶ Archive ── result(attempt) ──▶ launches/<cell>/<n>/result.msgpack
                                                                          its hash checked
ResultFileError    a result that the journal promised is missing, or is not the one that was promised
"""

import dataclasses
import hashlib
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.config.run_configuration import StoredRun
from orchestrator.errors import RunFolderError
from orchestrator.state import coherence
from orchestrator.state.attempts import Attempt
from orchestrator.state.replay import Replay, replay, rules_of
from orchestrator.store import damage, journal, run_files
from orchestrator.store.records import (
    Dropped,
    End,
    Finished,
    Foreign,
    Header,
    Record,
    Segment,
    Start,
    StoodStill,
    TelemetryEnded,
    TooHot,
    ZygoteStarted,
)
from protocol import codec
from protocol.errors import ProtocolError
from protocol.paths import LaunchPaths, RunPaths
from protocol.result import Result

_RESULT: Final = codec.Decoder[Result](Result)


class ResultFileError(Exception):
    """A result file is missing or damaged. The message names the file and says what is wrong with it."""


@dataclass(frozen=True)
class Archive:
    """One run.

    replay: where it stands. attempts: of it, those that still run only where they are wanted. durations_s: of each
    segment, from its beginning to the last launch that began or ended in it, or to its end. stood_still: of each
    segment, each time that its process did not go on. dropped_ns: launches that were dropped in each segment, and when.
    too_hot: GPUs whose load was ended for their heat in any segment: how, and when, in seconds since the epoch.
    foreign: who came to a GPU or left it. telemetry_ended: when, in segments that went on without it.
    """

    paths: RunPaths
    stored: StoredRun
    header: Header
    replay: Replay
    attempts: tuple[Attempt, ...]
    segments: tuple[Segment, ...]
    durations_s: tuple[float, ...]
    stood_still: tuple[tuple[StoodStill, ...], ...]
    zygotes: tuple[ZygoteStarted, ...]
    too_hot: Mapping[str, tuple[str, float]]
    dropped_ns: Mapping[Segment, Mapping[tuple[str, int], int]]
    foreign: Mapping[Segment, Sequence[Foreign]]
    telemetry_ended: Mapping[Segment, int]

    @property
    def taken_out(self) -> Mapping[str, str]:
        """Devices that are quarantined, and why, by UUID."""
        return self.replay.quarantined

    @property
    def skipped(self) -> Mapping[str, str]:
        """What nothing more was launched of (slots.scopes), and why."""
        return self.replay.skipped

    @property
    def added(self) -> tuple[tuple[str, int], ...]:
        """Launches (cell, round) beyond the plan."""
        return self.replay.added

    @property
    def dropped(self) -> Mapping[tuple[str, int], str]:
        """Launches, planned or added, that there was no time for, and why."""
        return self.replay.dropped

    @property
    def finished(self) -> Finished | None:
        """None while nobody has recorded that the run is over."""
        return self.replay.finished

    def so_far(self) -> "Archive":
        """The same without the attempts that somebody is still working on."""
        now = self.segments[-1]
        return dataclasses.replace(
            self, attempts=tuple(one for one in self.attempts if one.end is not None or one.segment != now)
        )

    def folder(self, attempt: Attempt) -> LaunchPaths:
        """Where the files of an attempt lie."""
        return self.paths.launch(attempt.start.cell, attempt.start.attempt)

    def result(self, attempt: Attempt) -> Result:
        """What an attempt measured.

        Raises ResultFileError when the file is not the one that the journal promised, and ValueError for an attempt
        without a promised result.
        """
        if attempt.promised is None:
            raise ValueError(f"launch {attempt.start.launch} has no result")
        return self._result(attempt, attempt.promised)

    def withdrawn_result(self, attempt: Attempt) -> Result:
        """What an attempt measured that does not count. Raises as `result` does."""
        if attempt.withdrawn is None:
            raise ValueError(f"launch {attempt.start.launch} has no result that was withdrawn")
        return self._result(attempt, attempt.withdrawn)

    def _result(self, attempt: Attempt, promised: str) -> Result:
        return read_result(self.folder(attempt), promised, {device.uuid for device in self.stored.devices})


def read_result(folder: LaunchPaths, promised: str, devices: Collection[str]) -> Result:
    """The result in a launch's folder, checked. promised: hash of its file. devices: UUIDs of those that the run has.

    Raises ResultFileError.
    """
    path = folder.result
    try:
        with path.open("rb") as file:
            # A buffer of the most that is allowed would be made, and given back, for each of 100,000 files.
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, codec.MAX_MESSAGE_BYTES) + 1)
    except OSError as error:
        raise ResultFileError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != promised:
        raise ResultFileError(f"{path}: not the result that the journal promised ({len(data)} bytes, another hash)")
    try:
        result = _RESULT.decode(data)
    except ProtocolError as error:
        raise ResultFileError(f"{path}: {error}") from error
    if result.flaw is not None:
        raise ResultFileError(f"{path}: not a measurement: {result.flaw}")
    if not {*result.cell.devices} <= {*devices}:
        raise ResultFileError(f"{path}: measured on devices that the run does not have")
    return result


def load(paths: RunPaths, stored: StoredRun | None = None, *, alive: bool = False) -> Archive:
    """The run in a folder, also one that still goes on. stored: its run.yaml, where that was read before.

    alive: a process works on it. Raises RunFolderError when there is no run, it is damaged, its journal was cut short,
    or its files belong to different runs.
    """
    stored = stored or run_files.load(paths)
    results = tuple(paths.results())
    begun = paths.journal.exists() or paths.launches.is_dir()
    records = journal.read(paths.journal) if begun else ()
    found = assemble(stored, paths, records, alive=alive)
    require_known(paths, results, records)
    return found


def assemble(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...], *, alive: bool = False) -> Archive:
    """The same from what was read before: run.yaml and plan.json never change."""
    header = require_coherent(stored, paths, records)
    replayed = replay(stored.plan, rules_of(stored), records, alive=alive)
    sessions = _Sessions()
    for record in records:
        sessions.take(record)
    return Archive(
        paths=paths,
        stored=stored,
        header=header,
        replay=replayed,
        attempts=replayed.attempts,
        segments=tuple(sessions.segments),
        durations_s=tuple(sessions.durations_s),
        stood_still=tuple(map(tuple, sessions.stood_still)),
        zygotes=tuple(sessions.zygotes),
        too_hot=sessions.too_hot,
        dropped_ns=dict(sessions.dropped_ns),
        foreign=dict(sessions.foreign),
        telemetry_ended=sessions.telemetry_ended,
    )


def require_coherent(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...]) -> Header:
    """Make sure that records are those of the run in whose folder they lie; its header. Raises RunFolderError."""
    header = records[0] if records else None
    if header is None and not paths.launches.is_dir():
        raise RunFolderError(
            f"{paths.folder}: nothing was recorded yet, so there is nothing to report. `gpubench-orchestrate resume "
            f"{paths.folder}` begins the run."
        )
    if not isinstance(header, Header):
        raise RunFolderError(f"{paths.journal}: does not say which run it belongs to. {damage.advice(paths.journal)}")
    run_files.require_one_run(stored, header, paths)
    if words := coherence.wrong(stored, records):
        raise RunFolderError(f"{paths.journal}: damaged: {words}. {damage.advice(paths.journal)}")
    return header


def require_own_journal(stored: StoredRun, paths: RunPaths) -> None:
    """Make sure that a run may be resumed as its folder stands, before anything is written there.

    journal of another plan, or damaged            refused
    result whose start the journal holds no more   refused: its launch, and its file, would be given to another
    start without an end                           what every kill leaves: measured again, in a folder of its own
    end without its result                         measured again (Category.RESULT_LOST)

    Raises RunFolderError.
    """
    results = tuple(paths.results())
    records = journal.read(paths.journal) if paths.journal.exists() else ()
    if records:
        require_coherent(stored, paths, records)
    require_known(paths, results, records)


def require_known(paths: RunPaths, results: Iterable[Path], records: Iterable[Record]) -> None:
    """Make sure that the journal holds the start of each of `results`. Raises RunFolderError.

    A start is on the disk before its process is made, so that no kill leaves a result without one: only a journal that
    was deleted, emptied or cut short does. List the results before the journal is read: what a process at work adds in
    between then stands in the journal.
    """
    found = {path.parts[-3:-1]: path for path in results}
    known = {(one.cell, str(one.attempt)) for one in records if isinstance(one, Start)}
    if unknown := found.keys() - known:
        first = min(found[one] for one in unknown).parent
        raise RunFolderError(
            f"{paths.journal} is missing, empty or cut short: launches/ holds results that it knows nothing of "
            f"({len(unknown)} of {len(found)}, the first in {first}), which a report would leave out and "
            f"`resume` overwrite. {damage.advice(paths.journal)}"
        )


class _Sessions:
    """What happened when, session by session: nothing of it decides where the run stands."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.durations_s: list[float] = []
        self.stood_still: list[list[StoodStill]] = []
        self.zygotes: list[ZygoteStarted] = []
        self.too_hot: dict[str, tuple[str, float]] = {}
        self.dropped_ns: dict[Segment, dict[tuple[str, int], int]] = defaultdict(dict)
        self.foreign: dict[Segment, list[Foreign]] = defaultdict(list)
        self.telemetry_ended: dict[Segment, int] = {}

    def take(self, record: Record) -> None:
        """Take the next record of the journal."""
        match record:
            case Segment():
                self.segments.append(record)
                self.durations_s.append(0.0)
                self.stood_still.append([])
            case Start() | End() | Finished():
                self.durations_s[-1] = (record.at_ns - self.segments[-1].monotonic_ns) / 1e9
            case StoodStill():
                self.stood_still[-1].append(record)
            case ZygoteStarted():
                self.zygotes.append(record)
            case Foreign():
                self.foreign[self.segments[-1]].append(record)
            case TelemetryEnded():
                self.telemetry_ended.setdefault(self.segments[-1], record.at_ns)
            case TooHot():
                self.too_hot.setdefault(record.device, (record.reason, self.segments[-1].at(record.at_ns)))
            case Dropped():
                self.dropped_ns[self.segments[-1]][record.cell, record.round] = record.at_ns
