"""From a run's folder to its report, and from the report to its files.

    lock ──▶ is the run alive? ─────────┐
    run.yaml, journal, results ────────┴──▶ Archive ──▶ Evidence ──▶ merge ──▶ Report
    compared_with.json ───────────────────────────────── compare/references ──▶ the same, with score and thresholds

Making a report writes nothing and takes no lock. While a run is alive, only its own process writes into its folder.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator import report
from orchestrator.analysis import evidence, launch_samples, report_builder
from orchestrator.analysis.results import DAMAGED
from orchestrator.analysis.root_cause import out_of_time
from orchestrator.analysis.timeline import timeline
from orchestrator.compare import references, shipped_baselines
from orchestrator.compare.references import Against
from orchestrator.config.report_formats import ALWAYS, ReportFormat
from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine import run_status
from orchestrator.errors import StorageError
from orchestrator.figures.launch_samples import Samples
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import Timeline
from orchestrator.kinds import registry
from orchestrator.report.files import Given
from orchestrator.report.layout import Layout
from orchestrator.state import archive
from orchestrator.store import journal, lock, report_places
from orchestrator.store.lock import Life
from protocol.cell import DeviceKind
from protocol.paths import RunPaths


class UnwrittenError(StorageError):
    """Some files of a report could not be written.

    report: the report itself. published: files that were written to the output path (-o). copies_alone: True if only
    files at the output path failed, so the run's folder has all of them.
    """

    def __init__(
        self, refused: Sequence[StorageError], report: Report, published: Sequence[Path], *, copies_alone: bool
    ) -> None:
        super().__init__("; ".join(map(str, refused)))
        self.report = report
        self.published = published
        self.copies_alone = copies_alone


class Made(NamedTuple):
    """A report, and everything else that its formats need.

    timeline: telemetry and launches, for charts. samples: raw times of the launches. layout: chapters for this kind of
    run.
    """

    report: Report
    timeline: Timeline
    samples: Samples
    layout: Layout

    @property
    def given(self) -> Given:
        """Keyword arguments for the functions of report/files.py, which some formats need in addition to the report."""
        return {"timeline": self.timeline, "samples": self.samples, "layout": self.layout}


def make(paths: RunPaths, stored: StoredRun | None = None, held: Against | None = None) -> Report:
    """Return the report of a run, finished or not. Writes nothing.

    stored: configuration and plan of the run; None to read them from its folder. held: baseline, thresholds and price
    to use instead of those stored with the run. Raises RunFolderError if the folder is no run or is damaged.
    """
    return make_all(paths, stored, held).report


@evidence.collector_off()
def make_all(paths: RunPaths, stored: StoredRun | None = None, held: Against | None = None) -> Made:
    """Return the report of a run, finished or not, and all that its formats need. Writes nothing.

    stored: configuration and plan of the run; None to read them from its folder. held: baseline, thresholds and price
    to use instead of those stored with the run. Raises RunFolderError if the folder is no run or is damaged.
    """
    # In this order: a process that held the lock before the journal was read has not recorded the end yet.
    worked_on = _worked_on(paths)
    loaded = archive.load(paths, stored, alive=worked_on)
    goes_on = worked_on and loaded.finished is None
    if goes_on:
        loaded = loaded.so_far()
    gathered = evidence.gather(loaded, goes_on=goes_on)
    kind = registry.of(loaded.stored.configuration)
    merged = report_builder.merge(loaded, gathered, kind.report)
    shipped = shipped_baselines.of_boards(
        {device.name for device in loaded.stored.devices if device.kind is DeviceKind.CUDA}
    )
    merged = references.hold(merged, references.stored(paths) if held is None else held, shipped)
    failed = {failure.launch for failure in merged.failures if not out_of_time(failure)}
    return Made(merged, timeline(loaded, gathered, failed), launch_samples.of_run(loaded, gathered), kind.layout)


def write(stored: StoredRun, paths: RunPaths) -> Report:
    """Make the report, write it into the run's folder and publish it at the output path (-o).

    It is not published if the folder is a copy of a run's folder that still exists elsewhere. Raises UnwrittenError if
    a file cannot be written. The other files are written all the same.
    """
    made = make_all(paths, stored)
    published = () if report_places.is_copy(stored, paths) else stored.configuration.formats
    _write_each(made, stored, paths, kinds(stored, paths), published)
    return made.report


def complete(stored: StoredRun, paths: RunPaths) -> tuple[Report, bool]:
    """Write the files of a finished run's report: all if outdated, else missing ones. Return (report, was any written).

    The report is outdated if report.json is missing, damaged or from before a resume, or if a result file is damaged.
    Raises UnwrittenError if a file cannot be written (the others are written all the same), RunFolderError if another
    process works on the run.
    """
    missing = frozenset(report_places.unwritten(stored, paths))
    outdated = bool(run_status.look(stored, paths)[0].no_outcome)
    if not outdated:
        report = make(paths, stored)
        outdated = any(failure.outcome == DAMAGED for failure in report.failures)
        if not outdated and not missing:
            return report, False
    with lock.held(paths):
        if outdated:
            return write(stored, paths), True
        made = make_all(paths, stored)
        own = [kind for kind in kinds(stored, paths) if paths.report(kind) in missing]
        targets = report_places.published(stored, paths)  # none for a copy of a run
        wanted = stored.configuration.formats if targets else ()
        published = [kind for kind, path in zip(wanted, targets, strict=True) if path in missing]
        _write_each(made, stored, paths, own, published)
        return made.report, True


def _write_each(
    made: Made, stored: StoredRun, paths: RunPaths, own: Collection[ReportFormat], published: Collection[ReportFormat]
) -> None:
    """Write `own` formats into the run's folder and `published` ones to the output path (-o).

    If writing into the folder fails, the older file there is deleted. All other files are written before UnwrittenError
    is raised.
    """
    place = Path(stored.configuration.output_path)
    written: list[Path] = []
    copies: list[StorageError] = []
    refused: list[StorageError] = []
    for kind in report.by_importance((*own, *published)):
        if kind in published:
            try:
                written += report.publish(made.report, place, (kind,), **made.given)
            except StorageError as error:
                copies.append(error)
        if kind in own:
            try:
                report.write(made.report, paths, (kind,), **made.given)
            except StorageError as error:
                refused.append(error)
                with suppress(OSError):
                    paths.report(kind).unlink()
    if first := next(iter((*refused, *copies)), None):
        raise UnwrittenError((*refused, *copies), made.report, written, copies_alone=not refused) from first.__cause__


def kinds(stored: StoredRun, paths: RunPaths) -> tuple[ReportFormat, ...]:
    """Return the formats of the run's folder: standard, requested and existing ones, in the order of ReportFormat."""
    there = [kind for kind in ReportFormat if paths.report(kind).exists()]
    return report.by_importance((*ALWAYS, *stored.configuration.formats, *there))


def render_again(made: Made, paths: RunPaths, formats: Iterable[ReportFormat], seen: int) -> tuple[Path, ...]:
    """Replace the files of these formats in the run's folder by those of `made`, and return their paths.

    Writes nothing and returns () if a process works on the run, or if the journal is not `seen` bytes long, as it was
    when `made` was made. Raises StorageError if a file cannot be written.
    """

    def taken_up() -> bool:
        return _worked_on(paths) or journal.length(paths.journal) != seen

    if made.report.metadata.running or taken_up():
        return ()
    rendered = {paths.report(kind): report.parts(made.report, kind, **made.given) for kind in formats}
    whole: dict[Path, Path] = {}  # finished files by final path
    try:
        for path, parts in rendered.items():
            journal.write_parts_durably(path, parts, lambda finished, path: whole.update({path: finished}))
        if taken_up():
            return ()
        for path, finished in whole.items():
            try:
                finished.replace(path)
                journal.sync_folder(path.parent)
            except OSError as error:
                raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        for finished in whole.values():
            with suppress(OSError):
                finished.unlink()
    return tuple(rendered)


def _worked_on(paths: RunPaths) -> bool:
    """Whether a process works on the run, or may do so on another host or in a container not visible here."""
    holder = lock.holder(paths)
    return holder is not None and lock.life(holder) is not Life.ENDED
