"""`status`: show the state of a run that another terminal started, from its folder alone."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import which_run
from orchestrator.cli.exit_notification import in_one_line
from orchestrator.cli.program import Command
from orchestrator.cli.streams import indented, say
from orchestrator.config.naming import plural
from orchestrator.system.plain_text import plain

if TYPE_CHECKING:
    from orchestrator.config.run_configuration import StoredRun
    from orchestrator.engine.status_types import Status
    from protocol.paths import RunPaths

EXAMPLES: Final = """\b
Examples:
  {command}          the newest run
  {command} @last~1  the one before it
  {command} runs/20260401-213000-1f2e3d --json
"""
SHOWN_LOST: Final = 3  # missing files named


@click.command("status", cls=Command, short_help="Show the state of a run.", epilog=EXAMPLES)
@which_run
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(*, run: str | None, runs_folder: str, as_json: bool) -> None:
    """Show the state of RUN, by default the newest run, without disturbing it.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs.
    """
    from orchestrator.engine import run_status
    from orchestrator.run_reports import run_lookup
    from orchestrator.store import run_files

    paths = run_lookup.find(run, runs_folder)
    stored = run_files.load(paths)
    status, _ = run_status.look(stored, paths)
    say(indented(status) if as_json else describe(status, so_far(status, stored, paths)))


def so_far(status: "Status", stored: "StoredRun", paths: "RunPaths") -> str:
    """Return the faults that a running burn-in has found, joined by "; ", or "no fault found".

    Begins with "TEST with injected faults: " if faults are injected. Returns "" for any other run, or if no process
    works on it. Slow: makes the report of the run.
    """
    from orchestrator.engine.status_types import GOES_ON
    from orchestrator.figures.exit_code import CauseKind
    from orchestrator.run_reports import reporting

    if stored.configuration.burn_in is None or status.standing not in GOES_ON:
        return ""
    causes = reporting.make(paths, stored).verdict.causes
    found = "; ".join(cause.text for cause in causes if cause.kind is CauseKind.FAULT) or "no fault found"
    return f"TEST with injected faults: {found}" if stored.configuration.burn_in.injections else found


def _launches(status: "Status") -> str:
    from orchestrator.terminal.wording import duration

    total = "" if status.planned is None else f" of {status.planned}"
    dropped = f", {status.dropped} dropped for lack of time" if status.dropped and status.planned is not None else ""
    timed = status.share is not None and status.limit_s is not None and status.stop_requested_s is None
    share = f"; {status.share:.0%} of the time used" if timed else ""
    remaining = "" if status.eta_s is None else f"; about {duration(status.eta_s)} left"
    return f"{status.measured}{total} measured, {status.failed} without result{dropped}{share}{remaining}"


def _damaged(status: "Status") -> str:
    are, them = ("is", "it") if len(status.lost) == 1 else ("are", "them")
    resumes = f"or run `gpubench-orchestrate resume {status.folder}` to measure again"
    judged = f"or see `gpubench-orchestrate report {status.folder}`: it says whether there is time to measure again"
    return (
        f"Damaged   {plural(len(status.lost), 'result file')} of the journal {are} missing: "
        f"{plain(', '.join(status.lost[:SHOWN_LOST]))}{', …' if len(status.lost) > SHOWN_LOST else ''}. "
        f"Restore {them}, {judged if status.planned is None else resumes}"
    )


def describe(status: "Status", so_far: str = "") -> str:
    """Return the status as lines of text, with what to do next.

    so_far: text of the line "So far", such as the faults found; "" omits the line.
    """
    from orchestrator.engine.status_types import STOPPING, WHAT_NEXT, Standing
    from orchestrator.terminal.wording import duration

    reason = f" ({plain(status.reason)})" if status.reason else ""
    stops = status.stop_requested_s is not None
    lines = [f"{status.folder}: {status.standing}{reason}{', stop requested' if stops else ''}"]
    if status.pid is not None:
        lines.append(f"Process   {status.pid} on {status.host}")
    if status.started is not None:
        lines.append(f"Started   {datetime.fromtimestamp(status.started):%Y-%m-%d %H:%M:%S}")
    if status.stop_requested_s is not None:
        patience = "are ended at once (second request)" if status.stops_now else "get up to 20 s"
        lines.append(f"Stopping  for {duration(status.stop_requested_s)}: no new cells start, running cells {patience}")
    if status.limit_s is not None:
        # The limit of a run that stops has no meaning any more.
        rest = "" if status.limit_left_s is None or stops else f"; {duration(status.limit_left_s)} left"
        what = f"{status.preset}: " if status.preset else ""
        lines.append(f"Limit     {what}{status.limit_s:g} s in total, reports included{rest}")
    lines.append(f"Launches  {_launches(status)}")
    lines += [f"So far    {plain(so_far)}"] if so_far else []
    if status.importing_s is not None:
        lines.append(f"Now       starting: importing torch and the models, for {duration(status.importing_s)}")
    for work in status.working:
        launch = f"{work.cell} b{work.batch_size} #{work.attempt}, for {duration(work.for_s)}"
        lines.append(f"Now       {work.device}  {plain(launch)}")
    lines += [f"Excluded  {device}, quarantined: {plain(why)}" for device, why in status.quarantined.items()]
    lines += [f"Skipped   {plain(model)}: {plain(why)}" for model, why in status.skipped.items()]
    if status.last_failure:
        lines.append(f"Failed    {plain(status.last_failure)}")
    reported = status.standing is Standing.OVER or (status.standing is Standing.INTERRUPTED and status.outcome)
    shown = status.reports if reported else ()
    lines += [f"Report    {path}" for path in shown]
    writes = f"`gpubench-orchestrate resume {status.folder}` writes them"
    lines += [f"Missing   report files: {plain(', '.join(status.unwritten))}; {writes}"] if status.unwritten else []
    lines += [_damaged(status)] if status.lost else []
    if status.outcome is not None:
        end = status.outcome
        named = end.report if not shown else None  # the report in the run's folder is the same
        name, judged = Path(status.folder).name, end.gpus
        line = in_one_line(name, end.verdict, end.cells, end.exit_code, named, burn_in=judged, why=end.why)
        lines.append(f"Verdict   {plain(line)}")
    elif status.no_outcome:
        lines.append(
            f"Verdict   {plain(status.no_outcome)}; `gpubench-orchestrate report {status.folder}` makes it from the "
            "results"
        )
    if stops and status.standing is not Standing.FROZEN:
        lines += [] if status.stops_now else [STOPPING.format(folder=status.folder)]
    elif status.standing in WHAT_NEXT:
        lines.append(WHAT_NEXT[status.standing].format(folder=status.folder, pid=status.pid))
    return "\n".join(lines)
