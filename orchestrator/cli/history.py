"""`history`: lists earlier runs, and its subcommands show, compare, draw, export and prune them."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli import history_query, output_formats
from orchestrator.cli.decorators import RUNS_FOLDER, offering, run_option
from orchestrator.cli.program import SETTINGS, Command, Program, refuse_misplaced
from orchestrator.cli.streams import complain, indented, say
from orchestrator.config import choices
from orchestrator.config.naming import plural
from orchestrator.errors import ConfigError, HistoryError

if TYPE_CHECKING:
    from orchestrator.history.records import RunRecord
    from orchestrator.history.trend import Trend

EXAMPLES: Final = """\b
Examples:
  {command} --gpu GPU-5317350e --since 2026-11-01
  {command} trend resnet50 -p bf16
  {command} trend resnet50 -o trend.html
  {command} export --format csv -o runs.csv
"""
SHOW_EXAMPLES: Final = """\b
Examples:
  {command} 20260401-213000-1f2e3d
  {command} 20260401 --json
  {command} @last
"""
TREND_EXAMPLES: Final = """\b
Examples:
  {command} resnet50 -p bf16 -b 8
  {command} resnet50 --gpu H200 -o trend.html
  {command} gemm --since 2026-11-01
"""
EXPORT_EXAMPLES: Final = """\b
Examples:
  {command} -o runs.csv
  {command} --format json -o runs.json
"""
PRUNE_EXAMPLES: Final = """\b
Examples:
  {command} --before 2026-01-01 --dry-run
  {command} --keep 500
"""
_MODELS: Final = offering(choices.models, several=False)
TREND_FORMATS: Final = ("text", "json", "html")
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="As JSON.")
_GPU: Final = click.option("--gpu", metavar="GPU", help="The beginning of a UUID, or a part of the name of a GPU.")
_SINCE: Final = click.option("--since", metavar="DATE", help="Runs that began on this date or later: 2026-11-01.")


@click.group(
    "history",
    cls=Program,
    invoke_without_command=True,
    context_settings=SETTINGS,
    short_help="What earlier runs found.",
    epilog=EXAMPLES,
)
@_GPU
@click.option("--model", metavar="NAME", shell_complete=_MODELS, help="Runs that measured this model or probe.")
@_SINCE
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Show at most N runs. [default: all]")
@click.option(
    "--verdict",
    metavar="WORD",
    help="Verdict of the run, its health or its burn-in: complete, incomplete, FAIL, WARN, ...",
)
@run_option("history_db")
@_JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    gpu: str | None,
    model: str | None,
    since: str | None,
    limit: int | None,
    verdict: str | None,
    history_db: str | None,
    as_json: bool,
) -> None:
    """List the recorded runs, newest first."""
    if context.invoked_subcommand is not None:
        refuse_misplaced(context)
        return
    from orchestrator.cli import history_text
    from orchestrator.history import queries
    from orchestrator.history.records import Filter

    wanted = Filter(gpu=gpu, model=model, since=history_query.moment(since, "--since"), verdict=verdict, limit=limit)
    with history_query.existing(history_db) as connection:
        runs = [] if connection is None else queries.lines(connection, wanted)
        unknown = () if runs or connection is None else tuple(history_query.suggest_filters(connection, wanted))
    if as_json:
        say(indented(runs))
    elif not runs and wanted == Filter(limit=limit):
        say(f"{history_query.NONE_YET.capitalize()}.")
    else:
        say(history_text.lines(runs))
    for hint in unknown:
        complain(f"note: {hint}")


@command.command("show", cls=Command, short_help="Everything recorded of a run.", epilog=SHOW_EXAMPLES)
@click.argument("run")
@RUNS_FOLDER
@run_option("history_db")
@_JSON
def show(*, run: str, runs_folder: str, history_db: str | None, as_json: bool) -> None:
    """Show everything that is recorded of RUN.

    RUN is the id of a run or a unique beginning of it, the folder of one, or @last, @last~1 and so on: the newest runs.
    """
    from orchestrator.cli import history_text
    from orchestrator.history import queries

    with history_query.opened(history_db) as connection:
        recorded = queries.run(connection, history_query.run_id(run, runs_folder))
    say(indented(recorded) if as_json else history_text.in_full(recorded))


@command.command(
    "trend", cls=Command, short_help="A figure over all runs, and where it changed.", epilog=TREND_EXAMPLES
)
@click.argument("model", shell_complete=_MODELS)
@_GPU
@click.option("-b", "--batch-size", metavar="N", type=click.IntRange(min=1), help="Cells of this batch size alone.")
@click.option(
    "-p",
    "--precision",
    metavar="NAME",
    shell_complete=offering(choices.precisions, several=False),
    help="Cells of this precision alone.",
)
@click.option(
    "--figure",
    metavar="NAME",
    help="A figure by its name in the report: peak_memory_mb, power_draw_w. [default: the one that `compare` uses]",
)
@_SINCE
@click.option(
    "-f",
    "--format",
    "kind",
    metavar="NAME",
    help="text, json or html (a page that works offline). [default: by the suffix of --output, else text]",
)
@output_formats.OUTPUT
@click.option("--json", "kind", flag_value="json", help="The same as --format json.")
@run_option("history_db")
def trend(
    *,
    model: str,
    gpu: str | None,
    batch_size: int | None,
    precision: str | None,
    figure: str | None,
    since: str | None,
    kind: str | None,
    output: str | None,
    history_db: str | None,
) -> None:
    """Plot the results of MODEL (a model or a probe) on each GPU, with one line of text per run.

    Marks each run at which the level of the figure changed.
    """
    from orchestrator.config import margins
    from orchestrator.history import queries
    from orchestrator.history import trend as trending
    from orchestrator.store import folders

    moment, chosen = history_query.moment(since, "--since"), output_formats.chosen(kind, output, TREND_FORMATS)
    if output is not None:
        folders.require_file(Path(output), "-o/--output")
    with history_query.opened(history_db) as connection:
        points = queries.points(connection, model, gpu=gpu, precision=precision, batch_size=batch_size, since=moment)
        if not points:
            cells = history_query.describe_cells(connection, model)
            raise HistoryError(f"no such cell of {model} is recorded.{cells}" if cells else history_query.NONE_YET)
    trends = trending.trends(points, margins.load(), figure)
    if not trends:
        raise HistoryError(
            f"none of these cells has {f'the figure {figure}' if figure else 'a figure to compare runs by'}."
            f"{history_query.nearest(figure or '', trending.figures(points))}"
        )
    filters = {
        **{"Model": model, "GPU": gpu, "Batch size": batch_size},
        **{"Precision": precision, "Figure": figure, "Since": since},
    }
    given = {name: str(value) for name, value in filters.items() if value}
    output_formats.deliver(_rendered(trends, chosen, given, output), output)


def _rendered(trends: "Sequence[Trend]", kind: str, filters: dict[str, str], output: str | None) -> str | bytes:
    if kind == "json":
        return indented(trends)
    if kind == "html":
        from orchestrator.history.as_html import to_html

        return to_html(trends, filters)
    from orchestrator.cli import history_text

    # A file is UTF-8, as every report.
    encoding = "utf-8" if output is not None else getattr(sys.stdout, "encoding", None) or ""
    return history_text.plots(trends, ascii_only=not encoding.lower().startswith("utf"))


@command.command("export", cls=Command, short_help="Write everything into a file.", epilog=EXPORT_EXAMPLES)
@click.option(
    "-f", "--format", "kind", metavar="NAME", help="csv or json. [default: by the suffix of --output, else csv]"
)
@output_formats.output_option(f"The file; {output_formats.OLDER_KEPT}.", required=True)
@run_option("history_db")
def export(*, kind: str | None, output: str, history_db: str | None) -> None:
    """Write all runs into a file, oldest first: CSV has a row for each cell of each run, JSON all that is recorded.

    In CSV, a device without figures, as in a burn-in, has one row with its verdicts.
    """
    from orchestrator.history import export as exporting
    from orchestrator.history import queries
    from orchestrator.report.files import beside_the_old
    from orchestrator.store import folders
    from orchestrator.store.journal import write_parts_durably

    makers = {"csv": exporting.to_csv, "json": exporting.to_json}
    chosen = output_formats.chosen(kind, output, tuple(makers))
    folders.require_file(Path(output), "-o/--output")
    written = rows = 0

    def runs() -> "Iterator[RunRecord]":
        nonlocal written, rows
        for record in queries.each(connection):
            yield record
            written, rows = written + 1, rows + exporting.rows(record)

    with history_query.opened(history_db) as connection:
        write_parts_durably(Path(output), makers[chosen](runs()), move=beside_the_old)
    lines = f", {plural(rows, 'row')}" if chosen == "csv" else ""
    say(f"{output}: {plural(written, 'run')}{lines}")


@command.command("prune", cls=Command, short_help="Remove old runs.", epilog=PRUNE_EXAMPLES)
@click.option("--before", metavar="DATE", help="Remove runs that began before this date: 2026-01-01.")
@click.option("--keep", metavar="N", type=click.IntRange(min=0), help="Keep the newest N, and remove the others.")
@click.option("--dry-run", is_flag=True, help="Only name the runs.")
@run_option("history_db")
def prune(*, before: str | None, keep: int | None, dry_run: bool, history_db: str | None) -> None:
    """Remove runs from the history, and name them. Their folders and reports stay."""
    from orchestrator.history import location, queries, store, updates
    from orchestrator.history.records import Filter

    moment = history_query.moment(before, "--before")
    if (moment is None) == (keep is None):
        raise ConfigError("expected either --before DATE or --keep N, to choose the runs to remove")
    with history_query.opened(history_db) as connection:
        runs = queries.lines(connection, Filter())
    old = runs[keep:] if keep is not None else [run for run in runs if moment is not None and run.test_date < moment]
    if old and not dry_run:
        with store.writing(location.find(history_db, os.environ)) as opened:
            updates.remove(opened, [run.run_id for run in old])
    for run in old:
        say(run.run_id)
    what = "would be removed" if dry_run else "removed"
    complain(f"note: {plural(len(old), 'run')} of {len(runs)} {what}")
