"""From a run's folder to its report, and from the report to its files.

    lock ──▶ does somebody work on it? ┐
    run.yaml, journal, results ────────┴──▶ Archive ──▶ Evidence ──▶ merge ──▶ Report
    held_against.json ────────────────────────────────────── compare/against ──▶ the same, with score and thresholds

Nothing is written and no lock is taken to make a report, so that one can be made of a run that still goes on. Into the
folder of such a run nobody writes but the process that works on it.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from orchestrator import merge, report
from orchestrator.compare import against
from orchestrator.compare.against import Against
from orchestrator.configuration.resolved import ALWAYS, ReportFormat, StoredRun
from orchestrator.deciding.adding import Doubt
from orchestrator.disk import archive, evidence, journal, lock, places
from orchestrator.disk.lock import Life
from orchestrator.errors import StorageError
from orchestrator.merge.timeline import timeline
from orchestrator.report.model import Report
from orchestrator.report.timeline import NOTHING_KEPT, Timeline
from protocol.paths import RunPaths


class CopyError(StorageError):
    """The report is in the run's folder, and could not be written to where the user wants it as well."""

    def __init__(self, why: str, report: Report) -> None:
        super().__init__(why)
        self.report = report


class Made(NamedTuple):
    """A report, and what happened when, for formats that draw it."""

    report: Report
    timeline: Timeline


def make(paths: RunPaths, stored: StoredRun | None = None, held: Against | None = None) -> Report:
    """What the run in that folder found out, without what happened when; see `make_all`."""
    return make_all(paths, stored, held).report


@contextmanager
def _collector_off() -> Iterator[None]:
    """What is read has no cycles. In 100,000 results the collector would look for them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_collector_off()
def make_all(paths: RunPaths, stored: StoredRun | None = None, held: Against | None = None) -> Made:
    """What the run in that folder found out, as far as it has come. Raises RunFolderError.

    stored: its run.yaml, where that was read before. held: what to hold it against, in place of what its folder says.
    """
    # Whoever held the lock before the journal was read has not written yet that the run is over: so it goes on.
    worked_on = _worked_on(paths)
    loaded = archive.load(paths, stored)
    goes_on = worked_on and loaded.finished is None
    if goes_on:
        loaded = loaded.so_far()
    gathered = evidence.gather(loaded, goes_on=goes_on)
    merged = against.hold(merge.merge(loaded, gathered), against.stored(paths) if held is None else held)
    return Made(merged, timeline(loaded, gathered, {one.launch for one in merged.failures}))


def in_doubt(paths: RunPaths, stored: StoredRun) -> tuple[Doubt, ...]:
    """The cells that leave a GPU SUSPECT now. Asked by the process that works on the run, while no launch does."""
    loaded = archive.load(paths, stored)
    return merge.in_doubt(loaded, evidence.gather(loaded, goes_on=True))


def write(stored: StoredRun, paths: RunPaths) -> Report:
    """Write the report into the run's folder, as every run has it and as asked for, and to its place (places.py).

    Raises StorageError when the disk refuses; CopyError where that was only of the second.
    """
    made, course = make_all(paths, stored)
    report.write(made, paths, kinds(stored, paths), course)
    if places.is_copy(stored, paths):
        return made
    try:
        report.publish(made, Path(stored.configuration.output_path), stored.configuration.formats, course)
    except StorageError as error:
        raise CopyError(str(error), made) from error.__cause__
    return made


def kinds(stored: StoredRun, paths: RunPaths) -> tuple[ReportFormat, ...]:
    """What is rendered into the run's folder: what every run has, what was asked for, and what is there already.

    An older report of any format would contradict the new ones beside it.
    """
    there = [kind for kind in ReportFormat if paths.report(kind).exists()]
    return tuple(dict.fromkeys((*ALWAYS, *stored.configuration.formats, *there)))


def render_again(
    made: Report, paths: RunPaths, formats: Iterable[ReportFormat], seen: int, course: Timeline = NOTHING_KEPT
) -> tuple[Path, ...]:
    """Write a report that `make` made into the run's folder, in place of an older one; returns the files.

    None of them where the run goes on, or was taken up since its journal was `seen` long: the process that works on it
    writes the report of its end there, and nobody may put an older one in its place. Raises StorageError when the disk
    refuses.
    """
    rendered = {paths.report(kind): report.render(made, kind, course) for kind in formats}
    if made.metadata.running or _worked_on(paths) or journal.length(paths.journal) != seen:
        return ()
    for path, data in rendered.items():
        journal.write_durably(path, data)
    return tuple(rendered)


def _worked_on(paths: RunPaths) -> bool:
    """Whether a process works on the run, or may do so where it cannot be seen from here."""
    holder = lock.holder(paths)
    return holder is not None and lock.life(holder) is not Life.ENDED
