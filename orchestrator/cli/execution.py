"""Work on a run from the command line: show its progress, then its outcome."""

import errno
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from orchestrator import terminal
from orchestrator.cli import exclusions
from orchestrator.cli.decorators import HistoryParams, SessionParams
from orchestrator.cli.exit_notification import Ending, exit_code_of
from orchestrator.cli.history_recording import record
from orchestrator.cli.streams import StdoutError, complain, say
from orchestrator.config.naming import plural
from orchestrator.config.report_formats import ALWAYS
from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine import run
from orchestrator.engine.display_events import Display, Notice
from orchestrator.errors import StorageError
from orchestrator.figures.report import Report
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict as Health
from orchestrator.gpu.inventory import Look
from orchestrator.kinds import registry
from orchestrator.kinds.burn_in.settings import written
from orchestrator.report.as_text import to_text
from orchestrator.run_reports import reporting
from orchestrator.run_reports.reporting import UnwrittenError
from orchestrator.stats.siblings import SiblingVerdict
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
) -> ExitCode:
    """Start or resume the run in that folder, and keep its outcome in `ending`. notes: told at its start."""
    ending.paths = paths
    display = terminal.make(
        quiet=params["quiet"], verbose=bool(params["verbose"]), log_format=params["log_format"], stream=sys.stderr
    )
    display = ending.followed(stored, display)
    try:
        kind = registry.of(stored.configuration)
        left, launches = run.left_to_do(stored, paths, kind)
        for notice in _beginning(stored, paths, (left, launches), notes):
            display.tell(notice)
        over = not left and run.is_over(paths)
        written, refused = True, None
        try:
            if over:
                report, written = _shown_again(stored, paths, display)
            else:
                report = run.execute(
                    stored, paths, display, look, ending.stop_signals, kind=kind, write_report=reporting.write
                )
            code = ExitCode(report.verdict.exit_code)
        except reporting.UnwrittenError as error:
            report, code, refused = error.report, ExitCode.INTERNAL, error
        if params["strict"]:
            code = _strict(code, report)
        reports = _reports(stored, paths, refused)
        ending.reported(report, next(iter(reports), None), code)
        display.tell(_ended(stored, report, code, reports))
    except BaseException as error:
        display.tell(_broken_off(stored, exit_code_of(error)))
        if not isinstance(error, StorageError):
            raise
        remedy = _remedy(error, paths.folder, paths)
        raise StorageError(
            f"{error}. {remedy}, then `gpubench-orchestrate report {paths.folder}` makes the report of what "
            f"was measured, and `gpubench-orchestrate resume {paths.folder}` measures the rest."
        ) from error
    finally:
        display.close()
    if written:
        record(report, stored, paths, history)
    full = [] if params["quiet"] else [to_text(report, kind.layout), *_places(reports, paths, report)]
    _summarise(reports, ending.line(), full)
    if refused is not None:
        raise StorageError(_unwritten(refused, stored, paths, reports)) from refused
    return code


def _unwritten(error: UnwrittenError, stored: StoredRun, paths: RunPaths, reports: Sequence[Path]) -> str:
    there = ", ".join(map(str, reports))
    if error.copies_alone:
        remedy = _remedy(error, Path(stored.configuration.output_path).parent, paths)
        return (
            f"{error}. The run itself is over, and its report is in {there}: only the copy at -o could not be written. "
            f"{remedy}, or choose another place: `gpubench-orchestrate report {paths.folder} -o FILE` writes it."
        )
    rest = f"the rest of its report is there: {there}" if reports else "everything measured is kept"
    return (
        f"{error}. The run itself is over, and {rest}. {_remedy(error, paths.folder, paths)}, then "
        f"`gpubench-orchestrate resume {paths.folder}` writes what is missing, and measures nothing again."
    )


def _shown_again(stored: StoredRun, paths: RunPaths, display: Display) -> tuple[Report, bool]:
    report, written = reporting.complete(stored, paths)
    if report.summary.cells.failed:
        words = (
            f"{plural(report.summary.cells.failed, 'cell')} failed for good, and `resume` tries nothing of that again: "
            f"`gpubench-orchestrate explain {paths.folder}` says why. What is mended since is measured by a new run of "
            "those models (-m)."
        )
        display.tell(Notice(level="warning", message=words))
    out = {gpu.gpu_uuid for gpu in report.gpu_info if gpu.taken_out}
    if stored.configuration.burn_in is not None and out:
        labels = ", ".join(device.label for device in stored.devices if device.uuid in out)
        rest = "taken out of this burn-in, which is over: all others had their time. Once mended, it needs a new"
        display.tell(Notice(level="warning", message=f"{labels}: {rest} burn-in (--burn-in, --gpu-ids)."))
    return report, written


def _remedy(error: StorageError, folder: Path, paths: RunPaths) -> str:
    """Return what to do about a refused write in `folder`. The run itself must not be cleared away."""
    cause = error.__cause__
    match cause.errno if isinstance(cause, OSError) else errno.ENOSPC:
        case errno.ENOSPC | errno.EDQUOT:
            standing = next(place for place in (folder, *folder.parents) if place.exists())
            mount = next(place for place in (standing, *standing.parents) if place.is_mount())
            return f"Free space on the file system at {mount}, but not in {paths.folder}, where everything measured is"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "See to it that you may write there"
        case _:
            return "Mend that"


def _places(reports: Sequence[Path], paths: RunPaths, report: Report) -> Iterator[str]:
    yield from (f"Report: {path}" for path in reports)
    yield f"Run:    {paths.folder}"
    gpus = () if report.burn_in is None else report.burn_in.gpus
    if report.metadata.interrupted or any(one.action is Action.RESUME for gpu in gpus for one in gpu.reasons):
        yield f"Go on with `gpubench-orchestrate resume {paths.folder}`"


def _summarise(reports: Sequence[Path], end: str, before: Sequence[str]) -> None:
    """Print the outcome, its end in one line last. A failure here does not change how the run ended."""
    try:
        say("\n".join((*before, end)))
    except StdoutError as error:
        complain(f"warning: {error}. The report is in {', '.join(map(str, reports))}")


def _strict(code: ExitCode, report: Report) -> ExitCode:
    cells, health = report.summary.cells, report.health
    verdicts = {health.node.verdict, *(gpu.verdict for gpu in health.gpus)}
    if report.burn_in is not None:
        verdicts.add(report.burn_in.verdict)
    straggles = any(one.verdict is SiblingVerdict.STRAGGLER for one in report.stragglers)
    imperfect = cells.degraded + cells.referred + cells.does_not_fit or Health.WARN in verdicts or straggles
    return ExitCode.MISSED if code is ExitCode.PASSED and imperfect else code


def _reports(stored: StoredRun, paths: RunPaths, refused: UnwrittenError | None) -> list[Path]:
    """Return the written file of each format: in the run's folder if another run has replaced it at -o."""
    own_files = [paths.report(kind) for kind in stored.configuration.formats]
    fresh = () if refused is None else refused.published
    found = []
    for path, own in zip(report_places.published(stored, paths) or own_files, own_files, strict=True):
        try:
            taken = path not in fresh and path.read_bytes() != own.read_bytes()
        except OSError:  # missing, or in a folder that is closed to us
            taken = True
        found.append(own if taken else path)
    if refused is None:
        return found
    return [path for path in found if path.exists()] or [path for path in map(paths.report, ALWAYS) if path.exists()]


# ── what a log collector is told ──────────────────────────────────────────────────────────────────────────────────────


def _beginning(stored: StoredRun, paths: RunPaths, to_do: tuple[int, int], notes: Sequence[str]) -> Iterator[Notice]:
    yield _started(stored, paths, *to_do)
    if place := _elsewhere(stored, paths):
        yield Notice(level="info", message=f"note: {place}")
    for sentence in exclusions.sentences(stored.plan, stored.devices):
        yield Notice(level="info", message=f"left out: {sentence}")
    for device in stored.devices:
        if said := stored.earlier.get(device.uuid):
            yield Notice(level="warning", message=f"{device.label} ({device.uuid}), earlier: {said}")
    for note in notes:
        yield Notice(level="info", message=f"note: {note}")


def _started(stored: StoredRun, paths: RunPaths, left: int, launches: int) -> Notice:
    """Describe the run. left, launches: remaining and planned; unknown for a burn-in."""
    cells, burn_in = len(stored.plan.cells), stored.configuration.burn_in
    number = plural(launches, "launch", "launches")
    planned = f"{plural(cells, 'cell')}, {number if burn_in is None else written(burn_in.duration_s) + ' of rounds'}"
    if not left:
        planned += ", nothing left to do"
    elif left < launches and burn_in is None:
        planned += f", {left} of them left"
    labels = ", ".join(device.label for device in stored.devices)
    return Notice(
        level="info",
        message=f"{planned} on {labels}; the run is in {paths.folder}",
        event="run_started",
        fields={
            "run_id": stored.run_id,
            "folder": str(paths.folder),
            "devices": [{"device": one.label, "uuid": one.uuid, "name": one.name} for one in stored.devices],
            "cells": cells,
            "launches": launches if burn_in is None else None,
            "left": left if burn_in is None or not left else None,
        },
    )


def _elsewhere(stored: StoredRun, paths: RunPaths) -> str:
    home = report_places.home(stored)
    if report_places.is_copy(stored, paths):
        return (
            f"this folder is a copy of {home}: its report is written into it alone, and the one at -o is left to the "
            f"original; `gpubench-orchestrate report {paths.folder} -o FILE` writes this one elsewhere"
        )
    if home.exists() or paths.folder.absolute() == home:
        return ""
    output = stored.configuration.output_path
    return f"this run was begun in {home}; its report is written into this folder, and to {output} as it was then"


def _ended(stored: StoredRun, report: Report, code: ExitCode, reports: Sequence[Path]) -> Notice:
    return Notice(
        level="info",
        message=f"the run is over: {report.verdict.word}, exit code {int(code)}",
        event="run_ended",
        fields={
            "run_id": stored.run_id,
            "exit_code": int(code),
            "verdict": report.verdict.word,
            "reports": [str(path) for path in reports],
            "cells": to_builtins(report.summary.cells),
        },
    )


def _broken_off(stored: StoredRun, code: ExitCode) -> Notice:
    return Notice(
        level="info",
        message=f"ended early, exit code {int(code)}",
        event="run_ended",
        fields={"run_id": stored.run_id, "exit_code": int(code), "verdict": None, "reports": [], "cells": None},
    )
