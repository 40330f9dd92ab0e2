"""Works on a run from the command line: shows it while it goes on, and says at the end what came of it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.options import DisplayParams
from orchestrator.cli.streams import StdoutError, complain, say
from orchestrator.errors import StorageError, UserError
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from orchestrator.configuration import StoredRun
    from orchestrator.report.model import Report
    from orchestrator.view import Notice
    from protocol.paths import RunPaths


def work(stored: "StoredRun", paths: "RunPaths", params: DisplayParams) -> ExitCode:
    """Begin or go on with the run in that folder. `params` are those of options.DISPLAY_OPTIONS."""
    from orchestrator import run, terminal
    from orchestrator.cli import left_out
    from orchestrator.view import Notice

    display = terminal.make(
        quiet=params["quiet"], verbose=bool(params["verbose"]), log_format=params["log_format"], stream=sys.stderr
    )
    try:
        display.tell(_started(stored, paths))
        for sentence in left_out.sentences(stored.plan, stored.devices):
            display.tell(Notice(level="info", message=f"left out: {sentence}"))
        report = run.execute(stored, paths, display)
        code = ExitCode(report.verdict.exit_code)
        if params["strict"]:
            code = _strict(code, report)
        display.tell(_ended(stored, report, code))
    except UserError:
        display.tell(_broken_off(stored, ExitCode.USAGE))
        raise
    except StorageError as error:
        display.tell(_broken_off(stored, ExitCode.INTERNAL))
        raise StorageError(
            f"{error}. Free space, then `gpubench-orchestrate report {paths.folder}` makes the report of what was "
            f"measured, and `gpubench-orchestrate resume {paths.folder}` measures the rest."
        ) from error
    finally:
        display.close()
    if not params["quiet"]:
        _summarise(stored, paths, report)
    return code


def _summarise(stored: "StoredRun", paths: "RunPaths", report: "Report") -> None:
    """The report for people, and where the files are. The run is over: nothing here changes how it ended."""
    from orchestrator.report.as_text import to_text

    lines = [to_text(report), *(f"Report: {path}" for path in _reports(stored)), f"Run:    {paths.folder}"]
    if report.metadata.interrupted:
        lines.append(f"Go on with `gpubench-orchestrate resume {paths.folder}`")
    try:
        say("\n".join(lines))
    except StdoutError as error:
        complain(f"warning: {error}. The report is in {', '.join(map(str, _reports(stored)))}")


def _strict(code: ExitCode, report: "Report") -> ExitCode:
    """What --strict makes of the exit code."""
    cells = report.summary.cells
    imperfect = cells.degraded + cells.referred + cells.does_not_fit
    return ExitCode.MISSED if code is ExitCode.PASSED and imperfect else code


def _reports(stored: "StoredRun") -> "list[Path]":
    """Where the report was put, a file for each format."""
    from orchestrator.report.files import target

    return [target(Path(stored.configuration.output_path), kind) for kind in stored.configuration.formats]


# ── what a log collector is told ──────────────────────────────────────────────────────────────────────────────────────


def _started(stored: "StoredRun", paths: "RunPaths") -> "Notice":
    from orchestrator.view import Notice

    cells, launches = len(stored.plan.cells), sum(map(len, stored.plan.order.values()))
    labels = ", ".join(device.label for device in stored.devices)
    return Notice(
        level="info",
        message=f"{cells} cells, {launches} launches on {labels}; the run is in {paths.folder}",
        event="run_started",
        fields={
            "run_id": stored.run_id,
            "folder": str(paths.folder),
            "devices": [{"device": one.label, "uuid": one.uuid, "name": one.name} for one in stored.devices],
            "cells": cells,
            "launches": launches,
        },
    )


def _ended(stored: "StoredRun", report: "Report", code: ExitCode) -> "Notice":
    from msgspec import to_builtins

    from orchestrator.view import Notice

    return Notice(
        level="info",
        message=f"the run is over: {report.verdict.word}, exit code {int(code)}",
        event="run_ended",
        fields={
            "run_id": stored.run_id,
            "exit_code": int(code),
            "verdict": report.verdict.word,
            "reports": [str(path) for path in _reports(stored)],
            "cells": to_builtins(report.summary.cells),
        },
    )


def _broken_off(stored: "StoredRun", code: ExitCode) -> "Notice":
    """The same without a report. The error itself is told by whoever catches it."""
    from orchestrator.view import Notice

    return Notice(
        level="info",
        message=f"ended early, exit code {int(code)}",
        event="run_ended",
        fields={"run_id": stored.run_id, "exit_code": int(code), "verdict": None, "reports": [], "cells": None},
    )
