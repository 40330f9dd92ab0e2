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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.config.run_configuration import StoredRun
from orchestrator.errors import RunFolderError
from orchestrator.state import coherence, recovery, session_times
from orchestrator.store import damage, journal, run_files
from orchestrator.store.orphan_results import require_known
from orchestrator.store.records import (
    Added,
    Beside,
    Dropped,
    End,
    Finished,
    Foreign,
    Header,
    Left,
    Record,
    Segment,
    Skipped,
    Start,
    StoodStill,
    TakenOut,
    TelemetryEnded,
    TooHot,
    ZygoteStarted,
)
from protocol import codec
from protocol.errors import ProtocolError
from protocol.failure import Failure
from protocol.paths import LaunchPaths, RunPaths
from protocol.result import Result

_RESULT: Final = codec.Decoder[Result](Result)


class ResultFileError(Exception):
    """A result file is missing or damaged. The message names the file and says what is wrong with it."""


@dataclass(frozen=True)
class Attempt:
    """One try at a cell. `end` is None when it was interrupted (or still goes on), `left` when nobody saw it leave.

    segment: in which it was started; monotonic times of another segment do not compare with it (a reboot sets them
    back), so `lasted_ms` is None for an end that a later segment wrote. beside: who else computed on its GPU.
    withdrawn: hash of the file of a result that was recorded and does not count; None where there is none.
    """

    segment: Segment
    start: Start
    end: End | None = None
    left: Left | None = None
    lasted_ms: float | None = None
    beside: str = ""
    withdrawn: str | None = None

    @property
    def promised(self) -> str | None:
        """Hash of the result file, None where there is no result."""
        return self.end.result_sha256 if self.end else None

    @property
    def failure(self) -> Failure | None:
        """Why there is no result; None for a good attempt, and for one that was interrupted."""
        return self.end.failure if self.end else None

    @property
    def device(self) -> str:
        """UUID of the device that it is about: of several the one that failed, where that is known, or that leads."""
        return (self.failure and self.failure.device) or self.start.device

    @property
    def started(self) -> float:
        """When it was started, in seconds since the epoch."""
        return self.segment.at(self.start.at_ns)


@dataclass(frozen=True)
class Archive:
    """One run.

    durations_s: of each segment, up to its last record. stood_still: of each segment, each time that its process did
    not go on. taken_out: devices that were given up in the newest segment, and why, by UUID.
    too_hot: GPUs that were, in any segment: how, and when, in seconds since the epoch.
    skipped: what nothing more was launched of (slots.scopes), and why. added: launches (cell, round) beyond the plan.
    dropped: launches, planned or added, that there was no time for, and why. dropped_ns: those of each segment, and
    when. foreign: who came to a GPU or left it.
    telemetry_ended: when, in segments that went on without it. finished: None while nobody has written that the run is
    over.
    """

    paths: RunPaths
    stored: StoredRun
    header: Header
    segments: tuple[Segment, ...]
    durations_s: tuple[float, ...]
    stood_still: tuple[tuple[StoodStill, ...], ...]
    zygotes: tuple[ZygoteStarted, ...]
    attempts: tuple[Attempt, ...]
    taken_out: Mapping[str, str]
    too_hot: Mapping[str, tuple[str, float]]
    skipped: Mapping[str, str]
    added: tuple[tuple[str, int], ...]
    dropped: Mapping[tuple[str, int], str]
    dropped_ns: Mapping[Segment, Mapping[tuple[str, int], int]]
    foreign: Mapping[Segment, Sequence[Foreign]]
    telemetry_ended: Mapping[Segment, int]
    finished: Finished | None

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


def load(paths: RunPaths, stored: StoredRun | None = None) -> Archive:
    """The run in a folder, also one that still goes on. stored: its run.yaml, where that was read before.

    Raises RunFolderError when there is no run, it is damaged, its journal was cut short, or its files belong to
    different runs.
    """
    stored = stored or run_files.load(paths)
    results = tuple(paths.results())
    begun = paths.journal.exists() or paths.launches.is_dir()
    records = journal.read(paths.journal) if begun else ()
    found = assemble(stored, paths, records)
    require_known(paths, results, records)
    return found


def assemble(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...]) -> Archive:
    """The same from what was read before: run.yaml and plan.json never change."""
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
    return _assemble(paths, stored, header, records)


def _assemble(paths: RunPaths, stored: StoredRun, header: Header, records: Sequence[Record]) -> Archive:
    """Put the records together: each Start with the segment it stands in, its End and its Left."""
    night, devices = stored.configuration.burn_in is not None, {device.uuid for device in stored.devices}
    segments: list[Segment] = []
    zygotes: list[ZygoteStarted] = []
    told: dict[int, _Told] = {}
    taken_out: dict[str, str] = {}
    too_hot: dict[str, tuple[str, float]] = {}
    skipped: dict[str, str] = {}
    dropped: dict[tuple[str, int], str] = {}
    dropped_ns: dict[Segment, dict[tuple[str, int], int]] = defaultdict(dict)
    foreign: dict[Segment, list[Foreign]] = defaultdict(list)
    telemetry_ended: dict[Segment, int] = {}
    finished: Finished | None = None
    for record in records:
        match record:
            case Segment():
                segments.append(record)
                finished = None
                taken_out = recovery.staying_out(devices, taken_out) if night else {}  # as recovery.py has it,
                dropped = {} if night else dropped  # and this too
            case ZygoteStarted():
                zygotes.append(record)
            case Start():
                told[record.launch] = _Told(segments[-1], record)
            case End() | Left() | Beside():
                told[record.launch].take(record, segments[-1])
            case Foreign():
                foreign[segments[-1]].append(record)
            case TelemetryEnded():
                telemetry_ended.setdefault(segments[-1], record.at_ns)
            case TooHot():
                too_hot.setdefault(record.device, (record.reason, segments[-1].at(record.at_ns)))
            case TakenOut():
                taken_out[record.device] = record.reason
            case Skipped():
                skipped.setdefault(f"{record.model} {record.only}".rstrip(), record.reason)
            case Dropped():
                dropped[record.cell, record.round] = record.reason
                dropped_ns[segments[-1]][record.cell, record.round] = record.at_ns
            case Finished():
                finished = record
    return Archive(
        paths=paths,
        stored=stored,
        header=header,
        segments=tuple(segments),
        durations_s=session_times.durations_s(records),
        stood_still=session_times.stood_still(records),
        zygotes=tuple(zygotes),
        attempts=tuple(one.attempt() for one in told.values()),
        taken_out=taken_out,
        too_hot=too_hot,
        skipped=skipped,
        added=tuple(slot for record in records if isinstance(record, Added) for slot in record.slots),
        dropped=dropped,
        dropped_ns=dict(dropped_ns),
        foreign=dict(foreign),
        telemetry_ended=telemetry_ended,
        finished=finished,
    )


@dataclass(slots=True)
class _Told:
    """What the journal says of an attempt, as far as it was read. ended_in: the segment that wrote its end."""

    segment: Segment
    start: Start
    end: End | None = None
    ended_in: Segment | None = None
    left: Left | None = None
    beside: str = ""
    withdrawn: str | None = None

    def take(self, record: End | Left | Beside, segment: Segment) -> None:
        """What the journal says of it later, and in which segment."""
        match record:
            case End():
                self.withdrawn = None if self.end is None else self.end.result_sha256 or self.withdrawn
                self.end, self.ended_in = record, segment
            case Left():
                self.left = record
            case Beside():
                self.beside = record.by

    def attempt(self) -> Attempt:
        """All of it."""
        lasted_ms = None
        if self.end is not None and self.ended_in == self.segment:
            lasted_ms = (self.end.at_ns - self.start.at_ns) / 1e6
        return Attempt(self.segment, self.start, self.end, self.left, lasted_ms, self.beside, self.withdrawn)
