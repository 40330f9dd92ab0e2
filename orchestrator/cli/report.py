"""`report`: render the reports of a run again, also of one that is still running or was killed."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import RUNS_FOLDER, HistoryParams, add_options, run_option
from orchestrator.cli.history_recording import record
from orchestrator.cli.program import Command
from orchestrator.cli.streams import complain, say
from orchestrator.config.naming import plural
from orchestrator.config.options import COMPARISON, HISTORY
from orchestrator.config.report_formats import ReportFormat
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.config.run_configuration import StoredRun
    from orchestrator.figures.report import Report
    from protocol.cell import ModelSpec
    from protocol.paths import RunPaths

EXAMPLES: Final = """\b
Examples:
  {command} runs/20260401-213000-1f2e3d -f json,csv,txt
  {command} runs/20260401-213000-1f2e3d -o so-far.txt
"""


@click.command("report", cls=Command, short_help="Render the reports of a run again.", epilog=EXAMPLES)
@click.argument("run", type=click.Path())
@RUNS_FOLDER
@run_option("output", "in the folder of the run; while the run goes on, as text on standard output")
@run_option("format", "by the suffix of --output, else json; without --output what the run has written")
@add_options((*COMPARISON, *HISTORY))
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    run: str,
    runs_folder: str,
    output: str | None,
    format: str | None,  # as click passes it
    compare_baseline: str | None,
    thresholds: str | None,
    price: float | None,
    history: bool | None,
    history_db: str | None,
) -> None:
    """Make the reports of RUN again from what was measured.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs.
    The run may still go on, or have died: then the report says so, and its verdict is INCOMPLETE, unless something was
    found against the hardware. The run itself is not disturbed: its journal and its results are read, and nothing else
    of it is touched. While it goes on, its folder is its own: without -o, the report is printed as text.

    It ends with 0 when they are made, whatever the run came to, but with 4 where results that the run had are missing
    or damaged by now. With --thresholds it ends as the report says: with 1 where one is missed, with 4 where one could
    not be held against any figure or the run is incomplete, with 3 for the hardware.
    These, --compare-baseline and --price hold for the reports made now: what was given to `run` is kept with the run.

    What is written into the run's folder is recorded in the history; with -o, only where --history-db or --history asks
    for it.
    """
    from orchestrator import report as reports
    from orchestrator.analysis.results import DAMAGED
    from orchestrator.cli import comparison_options
    from orchestrator.compare import references
    from orchestrator.config import resolution as config
    from orchestrator.run_reports import reporting
    from orchestrator.store import folders, journal, run_files

    named = None if format is None else config.report_formats(format)
    every_sample = ReportFormat.SAMPLES in (named or (ReportFormat.of_name(Path(output or "").name),))
    paths = _find(run, runs_folder, history_db, every_sample=every_sample)
    place = None if output is None else _place(output, format)
    stored = run_files.load(paths)
    wanted = named or reporting.kinds(stored, paths)
    seen = journal.length(paths.journal)
    asked_history = history_db or stored.configuration.history_db
    given = comparison_options.read(
        compare_baseline, thresholds, price, runs_folder, asked_history, models=_models(stored)
    )
    found = reporting.make_all(paths, stored, references.stored(paths).beside(given) if given else None)
    made = found.report
    if place is None and not made.metadata.running:
        folders.require_room_for_reports(paths)
    if place is None:
        written = reporting.render_again(found, paths, wanted, seen)
    else:
        written = reports.publish(made, *place, **found.given)
    for path in written:
        say(str(path))
    asked = history or (history is None and history_db is not None)
    if written and not made.metadata.running and (place is None or asked):
        record(made, stored, paths, HistoryParams(history=history, history_db=history_db))
    elif asked:
        complain(
            "note: nothing was recorded in the history: a process works on the run, which is recorded when it ends"
        )
    if not written:
        from orchestrator.report.as_text import to_text

        say(to_text(made, found.layout))
        complain(
            "note: a process works on the run and writes its report into the folder when it ends, so nothing was "
            "written there; -o FILE writes this one"
        )
    if made.metadata.running:
        complain(f"note: the run still goes on; {_to_come(made)}")
    if damaged := sum(one.outcome == DAMAGED for one in made.failures):
        resumes = f"`gpubench-orchestrate resume {paths.folder}` measures again"
        complain(
            f"warning: missing or damaged, and so not in this report: {plural(damaged, 'result')} that the journal "
            f"promises. `gpubench-orchestrate explain {paths.folder}` says which, and "
            f"{resumes if made.burn_in is None else 'the verdict of each GPU what to do'}"
        )
    if thresholds is not None:
        if written and made.verdict.exit_code:
            verdict = made.verdict
            complain(f"note: {verdict.word}, exit code {verdict.exit_code}: {'; '.join(verdict.reasons)}")
        context.exit(made.verdict.exit_code)
    if damaged:
        context.exit(ExitCode.INCOMPLETE)


def _to_come(made: "Report") -> str:
    """Describe the remaining work. A burn-in goes on after each cell was measured once."""
    cells, night = made.summary.cells, made.burn_in is not None
    less = "at least once, with rounds still to be done" if night else "by fewer launches than planned"
    left = {"not measured yet": cells.missing, f"measured {less}": cells.short_of_launches}
    told = [f"{plural(number, 'cell')} of {cells.planned} {what}" for what, number in left.items() if number]
    return "; ".join(told) or "all that is planned so far was done"


def _models(stored: "StoredRun") -> "Iterator[ModelSpec]":
    """Yield the models of the run, then those that ship, read only if needed."""
    from orchestrator.config import catalogue

    yield from stored.configuration.models
    yield from catalogue.load().models


def _find(run: str, runs_folder: str, history_db: str | None, *, every_sample: bool) -> "RunPaths":
    """Find the run. Raises UserError, which names what a report or its folder lacks."""
    from orchestrator.errors import RunFolderError
    from orchestrator.figures.launch_samples import IN_ITS_FOLDER
    from orchestrator.run_reports import run_lookup

    try:
        return run_lookup.find(run, runs_folder, history_db)
    except RunFolderError as error:
        if every_sample and Path(run).exists():
            raise RunFolderError(f"{error}. {IN_ITS_FOLDER}") from error
        raise


def _place(output: str, formats: str | None) -> tuple[Path, tuple[ReportFormat, ...]]:
    """Return the path and formats of -o, as for `run`. Makes a missing folder. Raises ConfigError."""
    from orchestrator.config import resolution as config
    from orchestrator.config.settings import LayeredSettings
    from orchestrator.store import folders

    values = {"output.path": output} if formats is None else {"output.path": output, "output.format": formats}
    settings = LayeredSettings(values, {"output.path": "-o/--output", "output.format": "-f/--format"})
    path, wanted = config.report_place(settings, folders.current())
    folders.require_place(Path(path), wanted, "-o/--output", make=True)
    return Path(path), wanted
