"""Works on a run from the command line: shows it while it goes on, and says at the end what came of it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.options import DisplayParams
from orchestrator.cli.program import say
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from orchestrator.configuration import StoredRun
    from protocol.paths import RunPaths


def work(stored: "StoredRun", paths: "RunPaths", params: DisplayParams) -> ExitCode:
    """Begin or go on with the run in that folder. `params` are those of options.DISPLAY_OPTIONS."""
    from orchestrator import run, terminal

    display = terminal.make(
        quiet=params["quiet"], verbose=bool(params["verbose"]), log_format=params["log_format"], stream=sys.stderr
    )
    try:
        code = run.execute(stored, paths, display)
    finally:
        display.close()
    return _conclude(stored, paths, code, params)


def _conclude(stored: "StoredRun", paths: "RunPaths", code: ExitCode, params: DisplayParams) -> ExitCode:
    """The report for people, where the files are, and --strict."""
    from orchestrator import reporting
    from orchestrator.report.as_text import to_text

    report = reporting.make(paths)
    if not params["quiet"]:
        say(to_text(report))
        for kind in stored.configuration.formats:
            say(f"Report: {Path(stored.configuration.output_path).with_suffix(f'.{kind}')}")
        say(f"Run:    {paths.folder}")
        if report.metadata.interrupted:
            say(f"Go on with `gpubench-orchestrate resume {paths.folder}`")
    cells = report.summary.cells
    if params["strict"] and code is ExitCode.PASSED and cells.degraded + cells.referred + cells.does_not_fit:
        return ExitCode.MISSED
    return code
