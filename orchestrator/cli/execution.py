"""Work on a run from the command line: show its progress, then its outcome."""

import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from orchestrator import terminal
from orchestrator.analysis import evidence
from orchestrator.cli import plan_notes
from orchestrator.cli.decorators import HistoryParams, SessionParams
from orchestrator.cli.exit_notification import Ending, exit_code_of
from orchestrator.cli.history_recording import record
from orchestrator.cli.shown_report import places, shown
from orchestrator.cli.streams import StdoutError, complain, say
from orchestrator.config.naming import plural
from orchestrator.config.report_formats import ALWAYS
from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine import run
from orchestrator.engine.display_events import Display, Notice
from orchestrator.engine.kind import Kind, Outcome
from orchestrator.errors import StorageError
from orchestrator.figures.imperfections import imperfections
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.inventory import Look
from orchestrator.kinds import registry
from orchestrator.kinds.burn_in.settings import written
from orchestrator.run_reports import reporting
from orchestrator.run_reports.reporting import UnwrittenError
from orchestrator.state import archive
from orchestrator.store import report_places
from protocol.exit_codes import ExitCode
from protocol.paths import RunPaths


def work(
    stored: StoredRun,
    paths: RunPaths,
    params: SessionParams,
    ending: Ending,
    *,
    notes: Sequence[str] = (),
    look: Look | None = None,
    history: HistoryParams | None = None,
    present: Callable[[Outcome], str] = lambda outcome: outcome.text,
) -> ExitCode:
    """Start or resume the run in the folder `paths`, print its outcome, and return its exit code.

    A run that is over is not measured again: its report is shown. ending: filled in with report and exit code. notes:
    shown at the start. look: function that returns what NVML showed when the run was planned; CUDA was tested then, and
    is not tested again. Without it, NVML is read and CUDA is tested now. history: options of the history that replace
    those stored with the run. present: returns the text to print, or "" to print the report. Raises StorageError if the
    run or a report cannot be written, UserError if the run cannot be worked on here.
    """
    ending.paths = paths
    display = terminal.make(
        quiet=params["quiet"], verbose=bool(params["verbose"]), log_format=params["log_format"], stream=sys.stderr
    )
    display = ending.followed(stored, display)
    try:
        kind = registry.of(stored.configuration)
        remaining, launches = run.left_to_do(stored, paths, kind)
        for notice in _beginning(stored, paths, (remaining, launches), notes):
            display.tell(notice)
        over = not remaining and run.is_over(paths)
        written, refused = True, None
        try:
            if over:
                run.clear_up(stored, paths)
                report, written = _shown_again(stored, paths, display)
            else:
                report = run.execute(
                    stored, paths, display, look, ending.stop_signals, kind=kind, write_report=reporting.write
                )
        except reporting.UnwrittenError as error:
            report, refused = error.report, error
        outcome = _outcome(report, stored, paths, kind)
        code, why = ExitCode(report.verdict.exit_code), report.verdict.why
        if refused is not None:
            code, why = ExitCode.INTERNAL, "the report could not be written"
        if params["strict"] and code is ExitCode.PASSED and (imperfect := ", ".join(imperfections(report))):
            code, why = ExitCode.MISSED, f"{imperfect} (counted by --strict)"
        reports = _reports(stored, paths, refused)
        ending.reported(report, next(iter(reports), None), code, why)
        display.tell(_ended(stored, report, code, why, reports))
    except BaseException as error:
        display.tell(_broken_off(stored, exit_code_of(error)))
        if not isinstance(error, StorageError):
            raise
        remedy = _remedy(error, paths.folder, paths)
        raise StorageError(
            f"{error}. {remedy}, then `gpubench-orchestrate report {paths.folder}` reports the results so far, and "
            f"`gpubench-orchestrate resume {paths.folder}` measures the rest."
        ) from error
    finally:
        display.close()
    if written:
        record(report, stored, paths, history)
    answer = present(outcome)  # writes files, also where nothing is printed
    if params["quiet"] < terminal.SILENT:
        full = params.get("full", False)
        details = (*places(reports, paths.folder, full=full), *_going_on(paths, report))
        printed = shown(report, kind.layout, details, full=full, answer=answer)
        _summarise(reports, (*(() if params["quiet"] else (printed,)), ending.line()))
    if refused is not None:
        raise StorageError(_unwritten(refused, stored, paths, reports)) from refused
    return code


def _outcome(report: Report, stored: StoredRun, paths: RunPaths, kind: Kind) -> Outcome:
    if kind.outcome is None:
        return Outcome("")
    loaded = archive.load(paths, stored)
    return kind.outcome(loaded, evidence.gather(loaded), report)


def _unwritten(error: UnwrittenError, stored: StoredRun, paths: RunPaths, reports: Sequence[Path]) -> str:
    there = ", ".join(map(str, reports))
    if error.copies_alone:
        remedy = _remedy(error, Path(stored.configuration.output_path).parent, paths)
        return (
            f"{error}. The run is over and its report is in {there}; only the copy at -o is missing. {remedy}, or "
            f"choose another place: `gpubench-orchestrate report {paths.folder} -o FILE` writes it."
        )
    rest = f"the rest of its report is in {there}" if reports else "its results are kept"
    return (
        f"{error}. The run is over, and {rest}. {_remedy(error, paths.folder, paths)}, then "
        f"`gpubench-orchestrate resume {paths.folder}` writes the missing files without measuring again."
    )


def _shown_again(stored: StoredRun, paths: RunPaths, display: Display) -> tuple[Report, bool]:
    report, written = reporting.complete(stored, paths)
    if report.summary.cells.failed:
        message = (
            f"{plural(report.summary.cells.failed, 'cell')} failed, and `resume` does not repeat them. See "
            f"`gpubench-orchestrate explain {paths.folder}`, fix the cause, and start a new run of those models (-m)."
        )
        display.tell(Notice(level="warning", message=message))
    out = {gpu.gpu_uuid for gpu in report.gpu_info if gpu.quarantined}
    if stored.configuration.burn_in is not None and out:
        labels = ", ".join(device.label for device in stored.devices if device.uuid in out)
        rest = "quarantined, and this burn-in is over. Fix the cause and start a new burn-in (--burn-in, --gpu-ids)."
        display.tell(Notice(level="warning", message=f"{labels}: {rest}"))
    return report, written


def _remedy(error: StorageError, folder: Path, paths: RunPaths) -> str:
    cause = error.__cause__
    # The run itself must not be deleted.
    match cause.errno if isinstance(cause, OSError) else errno.ENOSPC:
        case errno.ENOSPC | errno.EDQUOT:
            standing = next(place for place in (folder, *folder.parents) if place.exists())
            mount = next(place for place in (standing, *standing.parents) if place.is_mount())
            return (
                f"Free space on the file system at {mount}, but delete nothing in {paths.folder}, which has all results"
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "Get write permission there"
        case _:
            return "Fix this"


def _going_on(paths: RunPaths, report: Report) -> Iterator[str]:
    gpus = () if report.burn_in is None else report.burn_in.gpus
    if report.metadata.interrupted or any(reason.action is Action.RESUME for gpu in gpus for reason in gpu.reasons):
        yield f"Continue: `gpubench-orchestrate resume {paths.folder}`"


def _summarise(reports: Sequence[Path], outcome: Sequence[str | bytes]) -> None:
    try:
        for text in outcome:
            say(text)
    except StdoutError as error:  # does not change how the run ended
        complain(f"warning: {error}. The report is in {', '.join(map(str, reports))}")


def _reports(stored: StoredRun, paths: RunPaths, refused: UnwrittenError | None) -> tuple[Path, ...]:
    if refused is None:
        return report_places.shown(stored, paths)
    places = report_places.shown(stored, paths, refused.published)
    written = tuple(path for path in places if path.exists())
    return written or tuple(path for path in map(paths.report, ALWAYS) if path.exists())


# ── records for log collectors ────────────────────────────────────────────────────────────────────────────────────────


def _beginning(stored: StoredRun, paths: RunPaths, to_do: tuple[int, int], notes: Sequence[str]) -> Iterator[Notice]:
    yield _started(stored, paths, *to_do)
    if place := _elsewhere(stored, paths):
        yield Notice(level="info", message=f"note: {place}")
    for sentence in plan_notes.exclusions(stored.plan, stored.devices):
        yield Notice(level="info", message=f"excluded: {sentence}")
    for device in stored.devices:
        if finding := stored.earlier.get(device.uuid):
            yield Notice(level="warning", message=f"{device.label} ({device.uuid}), earlier: {finding}")
    for note in notes:
        yield Notice(level="info", message=f"note: {note}")


def _started(stored: StoredRun, paths: RunPaths, remaining: int, launches: int) -> Notice:
    cells, burn_in = len(stored.plan.cells), stored.configuration.burn_in
    number = plural(launches, "launch", "launches")
    planned = f"{plural(cells, 'cell')}, {number if burn_in is None else 'burn-in of ' + written(burn_in.duration_s)}"
    if not remaining:
        planned += ", none remaining"
    elif remaining < launches and burn_in is None:
        planned += f", {remaining} remaining"
    labels = ", ".join(device.label for device in stored.devices)
    return Notice(
        level="info",
        message=f"{planned} on {labels}; the run is in {paths.folder}",
        event="run_started",
        fields={
            "run_id": stored.run_id,
            "folder": str(paths.folder),
            "devices": [
                {"device": device.label, "uuid": device.uuid, "name": device.name} for device in stored.devices
            ],
            "cells": cells,
            "launches": launches if burn_in is None else None,
            "left": remaining if burn_in is None or not remaining else None,  # unknown for a burn-in
        },
    )


def _elsewhere(stored: StoredRun, paths: RunPaths) -> str:
    home = report_places.home(stored)
    if report_places.is_copy(stored, paths):
        return (
            f"this folder is a copy of {home}, so its report is not written to -o. "
            f"`gpubench-orchestrate report {paths.folder} -o FILE` writes it elsewhere"
        )
    if home.exists() or paths.folder.absolute() == home:
        return ""
    output = stored.configuration.output_path
    return f"this run started in {home}. Its report is written into this folder and, as before, to {output}"


def _ended(stored: StoredRun, report: Report, code: ExitCode, why: str, reports: Sequence[Path]) -> Notice:
    return Notice(
        level="info",
        message=f"the run is over: {report.verdict.word}, exit code {int(code)}{f': {why}' if why else ''}",
        event="run_ended",
        fields={
            "run_id": stored.run_id,
            "exit_code": int(code),
            "verdict": report.verdict.word,
            "why": why,
            "reports": [str(path) for path in reports],
            "cells": to_builtins(report.summary.cells),
        },
    )


def _broken_off(stored: StoredRun, code: ExitCode) -> Notice:
    return Notice(
        level="info",
        message=f"ended early, exit code {int(code)}",
        event="run_ended",
        fields={
            "run_id": stored.run_id,
            "exit_code": int(code),
            "verdict": None,
            "why": "",
            "reports": [],
            "cells": None,
        },
    )
