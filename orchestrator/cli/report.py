"""`report`: render reports again, from a run (finished, running or killed) or a report file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import RUNS_FOLDER, HistoryParams, add_options, run_option
from orchestrator.cli.history_recording import record
from orchestrator.cli.program import Command
from orchestrator.cli.streams import complain, say
from orchestrator.config.naming import plural
from orchestrator.config.options import COMPARISON, HISTORY, SHOWN
from orchestrator.config.report_formats import ReportFormat
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from orchestrator.config.run_configuration import StoredRun
    from orchestrator.figures.report import Report
    from protocol.cell import ModelSpec
    from protocol.paths import RunPaths

EXAMPLES: Final = """\b
Examples:
  {command} runs/20260401-213000-1f2e3d -f json,csv,txt
  {command} runs/20260401-213000-1f2e3d -o so-far.txt
  {command} report-of-a-friend.json -o page.html
"""


@click.command("report", cls=Command, short_help="Render the reports of a run again.", epilog=EXAMPLES)
@click.argument("run", type=click.Path())
@RUNS_FOLDER
@run_option("output", "in the folder of the run; while the run goes on, as text on standard output")
@run_option("format", "by the suffix of --output, else json; without --output the formats that the run wrote")
@add_options((*SHOWN, *COMPARISON, *HISTORY))
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
    full: bool,
) -> None:
    """Make the reports of RUN again from its results.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs. RUN
    may also be a report.json alone, of any version of gpubench. Then the command prints its answer (--full: the whole
    report), or writes it into the file of -o.

    The run may still be running, or may have died. Then the report says so, and its verdict is INCOMPLETE unless the
    hardware failed. While the run works, nothing is written into its folder: without -o, the report is printed.

    Exit code 0: the reports are made, whatever the verdict of the run. Exit code 4: results of the run are missing or
    damaged. With --thresholds the exit code is that of the report: 1 if a threshold is missed, 3 if the hardware
    failed, 4 if a threshold could not be judged or the run is incomplete. --thresholds, --compare-baseline and --price
    apply to the reports made now. Those given to `run` are kept with the run.

    Reports in the run's folder are recorded in the history. With -o this needs --history-db or --history.
    """
    from orchestrator import report as reports
    from orchestrator.cli import comparison_options
    from orchestrator.cli.shown_report import places, shown
    from orchestrator.compare import references
    from orchestrator.config import resolution as config
    from orchestrator.run_reports import report_reader, reporting
    from orchestrator.store import folders, journal, run_files

    named = None if format is None else config.report_formats(format)
    if report_reader.is_file(run):
        for_runs = {
            **{"--compare-baseline": compare_baseline, "--thresholds": thresholds, "--price": price},
            **{"--history": history or None, "--history-db": history_db},
        }
        needs_run = [option for option, value in for_runs.items() if value is not None]
        _render_file(Path(run), output, format, named, needs_run, full=full)
        return
    every_sample = ReportFormat.SAMPLES in (named or (ReportFormat.of_name(Path(output or "").name),))
    paths = _find(run, runs_folder, history_db, every_sample=every_sample)
    place = None if output is None else _place(output, format)
    stored = run_files.load(paths)
    wanted = named or reporting.kinds(stored, paths)
    seen = journal.length(paths.journal)
    history_file = history_db or stored.configuration.history_db
    given = comparison_options.read(
        compare_baseline, thresholds, price, runs_folder, history_file, models=_models(stored)
    )
    made_all = reporting.make_all(paths, stored, references.stored(paths).beside(given) if given else None)
    made = made_all.report
    if place is None:
        if not made.metadata.running:
            folders.require_room_for_reports(paths)
        written = reporting.render_again(made_all, paths, wanted, seen)
    else:
        written = reports.publish(made, *place, **made_all.given)
    recording_requested = history or (history is None and history_db is not None)
    if written and not made.metadata.running and (place is None or recording_requested):
        record(made, stored, paths, HistoryParams(history=history, history_db=history_db))
    elif recording_requested:
        complain(
            "note: nothing was recorded in the history. The run is recorded when the process that works on it ends"
        )
    if full or not written or _is_watched(named):
        say(shown(made, made_all.layout, tuple(places(written, paths.folder, full=full)), full=full))
    else:
        say("\n".join(map(str, written)))
    if not written:
        complain(
            "note: nothing was written into the folder of the run. The running process writes its report there at its "
            "end. To write this report now, use -o FILE"
        )
    if made.metadata.running:
        complain(f"note: the run is still running: {_to_come(made)}")
    damaged = _count_damaged(made, paths)
    if thresholds is not None and written and made.verdict.exit_code:
        verdict = made.verdict
        complain(f"note: {verdict.word}, exit code {verdict.exit_code}: {'; '.join(verdict.reasons)}")
    code = ExitCode.INCOMPLETE if damaged else ExitCode.PASSED
    context.exit(code if thresholds is None else made.verdict.exit_code)


def _count_damaged(made: "Report", paths: "RunPaths") -> int:
    from orchestrator.analysis.results import DAMAGED

    if damaged := sum(failure.outcome == DAMAGED for failure in made.failures):
        resumes = f"`gpubench-orchestrate resume {paths.folder}` measures again"
        are, lacks = ("is", "it") if damaged == 1 else ("are", "them")
        complain(
            f"warning: {plural(damaged, 'result')} of the journal {are} missing or damaged: this report lacks {lacks}. "
            f"`gpubench-orchestrate explain {paths.folder}` names them, and "
            f"{resumes if made.burn_in is None else 'the verdict of each GPU says what to do'}"
        )
    return damaged


def _is_watched(named: tuple[ReportFormat, ...] | None) -> bool:
    return named is None and sys.stdout is not None and sys.stdout.isatty()


def _render_file(
    file: Path,
    output: str | None,
    format: str | None,
    named: tuple[ReportFormat, ...] | None,
    needs_run: "Iterable[str]",
    *,
    full: bool,
) -> None:
    """Render the report file `file` without the folder of its run: print it, or write it to the file `output`.

    output: value of -o; None: print. format: value of -f; with `output`, None means the format of its suffix, else
    json. named: the formats in `format`; None without -f. full: print the whole report, not the brief one. needs_run:
    given options that need the run's folder.

    What is printed is the whole report with -f txt, or as `full` says without -f. Raises UserError for other formats to
    print, for any option in `needs_run`, or if `file` is no report.
    """
    from orchestrator import report as reports
    from orchestrator.cli.shown_report import places, shown
    from orchestrator.errors import ConfigError
    from orchestrator.kinds import registry
    from orchestrator.run_reports import report_reader

    if option := next(iter(needs_run), None):
        raise ConfigError(f"{option} needs a run, and {file} is a report alone. Name the run's folder.")
    made = report_reader.report(file)
    layout = registry.of_report(made).layout
    if output is not None:
        for path in reports.publish(made, *_place(output, format), layout=layout):
            say(str(path))
    elif named is None or named == (ReportFormat.TXT,):
        whole = full or named is not None
        say(shown(made, layout, () if whole else tuple(places((file,), None, full=False)), full=whole))
    else:
        name = f"{file.stem}.{named[0]}" if len(named) == 1 else f"{file.stem} -f {format}"
        raise ConfigError(f"-f/--format: {file} is a report without a run's folder. Say where to write: -o {name}")


def _to_come(made: "Report") -> str:
    cells, is_burn_in = made.summary.cells, made.burn_in is not None
    less = "at least once, with further rounds to come" if is_burn_in else "by fewer launches than planned"
    remaining = {"not measured yet": cells.missing, f"measured {less}": cells.short_of_launches}
    counts = [f"{plural(number, 'cell')} of {cells.planned} {what}" for what, number in remaining.items() if number]
    return "; ".join(counts) or "everything planned so far is done"


def _models(stored: "StoredRun") -> "Iterator[ModelSpec]":
    from orchestrator.config import catalogue

    yield from stored.configuration.models
    yield from catalogue.load().models


def _find(run: str, runs_folder: str, history_db: str | None, *, every_sample: bool) -> "RunPaths":
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
    """Return the absolute path and the formats of the report that -o and -f request, and make its folder.

    output: value of -o. formats: value of -f; None: the format of the suffix of `output`, else json. Raises ConfigError
    for a wrong path or format.
    """
    from orchestrator.config import resolution as config
    from orchestrator.config.settings import LayeredSettings
    from orchestrator.store import folders

    values = {"output.path": output} if formats is None else {"output.path": output, "output.format": formats}
    settings = LayeredSettings(values, {"output.path": "-o/--output", "output.format": "-f/--format"})
    path, wanted = config.report_place(settings, folders.current())
    folders.require_place(Path(path), wanted, "-o/--output", make=True)
    return Path(path), wanted
