"""Read a stored run back from disk: configuration, attempts and results.

run.yaml, plan.json ──▶ StoredRun ┐     (run_files.py)
journal.gpj ──▶ records ──────────┴──▶ Archive ── result(attempt) ──▶ launches/<cell>/<n>/result.msgpack
                                                                  hash checked
"""

import dataclasses
import functools
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
from protocol.cell import Cell, Device
from protocol.errors import ProtocolError
from protocol.paths import LaunchPaths, RunPaths
from protocol.result import Result

_RESULT: Final = codec.Decoder[Result](Result)


class ResultFileError(Exception):
    """A result file is missing or damaged. The message names the file and the reason."""


@dataclass(frozen=True)
class Archive:
    """One stored run. durations_s, stood_still, dropped_ns, foreign and telemetry_ended are by session.

    foreign: processes that came to a GPU or left it. too_hot: GPU → reason, seconds since the epoch.
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
        """Quarantined devices by UUID, with the reason."""
        return self.replay.quarantined

    @property
    def skipped(self) -> Mapping[str, str]:
        """Skipped scopes (slots.scopes), with the reason."""
        return self.replay.skipped

    @property
    def added(self) -> tuple[tuple[str, int], ...]:
        """Launches (cell, round) beyond the plan."""
        return self.replay.added

    @property
    def dropped(self) -> Mapping[tuple[str, int], str]:
        """Launches for which there was no time, with the reason."""
        return self.replay.dropped

    @property
    def finished(self) -> Finished | None:
        """The end of the run; None while none is recorded."""
        return self.replay.finished

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """Planned cells by id."""
        return {cell.id: cell for cell in self.stored.plan.cells}

    @functools.cached_property
    def devices(self) -> Mapping[str, Device]:
        """Devices of the run by UUID."""
        return {device.uuid: device for device in self.stored.devices}

    @functools.cached_property
    def tries(self) -> Mapping[str, Sequence[Attempt]]:
        """Attempts by id of their cell; a cell without one is not in it."""
        found: dict[str, list[Attempt]] = {}
        for attempt in self.attempts:
            found.setdefault(attempt.start.cell, []).append(attempt)
        return found

    def so_far(self) -> "Archive":
        """The same run without the attempts that still run."""
        now = self.segments[-1]
        return dataclasses.replace(
            self, attempts=tuple(one for one in self.attempts if one.end is not None or one.segment != now)
        )

    def folder(self, attempt: Attempt) -> LaunchPaths:
        """The folder of an attempt's files."""
        return self.paths.launch(attempt.start.cell, attempt.start.attempt)

    def result(self, attempt: Attempt) -> Result:
        """Read the result of an attempt. Raises ResultFileError for a bad file, ValueError without a result."""
        return self._read(attempt, attempt.promised)

    def withdrawn_result(self, attempt: Attempt) -> Result:
        """Read the withdrawn result of an attempt. Raises as `result` does."""
        return self._read(attempt, attempt.withdrawn)

    def _read(self, attempt: Attempt, promised: str | None) -> Result:
        if promised is None:
            raise ValueError(f"launch {attempt.start.launch} has no such result")
        return read_result(self.folder(attempt), promised, self.devices.keys())


def read_result(folder: LaunchPaths, promised: str, devices: Collection[str]) -> Result:
    """Read and check a result file. promised: its SHA-256. devices: UUIDs of the run. Raises ResultFileError."""
    path = folder.result
    try:
        with path.open("rb") as file:
            # read(MAX_MESSAGE_BYTES) would allocate that many bytes for each of 100,000 files.
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
    """Read the run in a folder, also one that still runs. alive: a process works on it.

    Raises RunFolderError when there is no run, it is damaged, cut short, or its files belong to different runs.
    """
    stored = stored or run_files.load(paths)
    results = tuple(paths.results())
    begun = paths.journal.exists() or paths.launches.is_dir()
    records = journal.read(paths.journal) if begun else ()
    found = assemble(stored, paths, records, alive=alive)
    require_known(paths, results, records)
    return found


def assemble(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...], *, alive: bool = False) -> Archive:
    """Build the archive from the stored run and its journal's records."""
    header = require_coherent(stored, paths, records)
    replayed = replay(stored.plan, rules_of(stored), records, alive=alive)
    segments: list[Segment] = []
    durations_s: list[float] = []
    stood_still: list[list[StoodStill]] = []
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
                stood_still.append([])
            case Start() | End() | Finished():
                durations_s[-1] = (record.at_ns - segments[-1].monotonic_ns) / 1e9
            case StoodStill():
                stood_still[-1].append(record)
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
        stood_still=tuple(map(tuple, stood_still)),
        zygotes=tuple(zygotes),
        too_hot=too_hot,
        dropped_ns=dict(dropped_ns),
        foreign=dict(foreign),
        telemetry_ended=telemetry_ended,
    )


def require_coherent(stored: StoredRun, paths: RunPaths, records: tuple[Record, ...]) -> Header:
    """Return the header of records that belong to this run's folder. Raises RunFolderError for others."""
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
    """Check that a run may be resumed from its folder, before anything is written there. Raises RunFolderError.

    journal of another plan, or damaged            refused
    result whose start is not in the journal       refused: `resume` would overwrite it
    start without an end                           left by every kill: measured again, in a folder of its own
    end without its result                         measured again (Category.RESULT_LOST)
    """
    results = tuple(paths.results())
    records = journal.read(paths.journal) if paths.journal.exists() else ()
    if records:
        require_coherent(stored, paths, records)
    require_known(paths, results, records)


def require_known(paths: RunPaths, results: Iterable[Path], records: Iterable[Record]) -> None:
    """Check that the journal holds the start of each of `results`. Raises RunFolderError.

    List the results before you read the journal: a running process adds to both.
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
