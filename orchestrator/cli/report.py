"""`report`: render the reports of a run again."""

import click

from orchestrator.cli import complete
from orchestrator.cli.program import Command
from orchestrator.cli.streams import say


@click.command("report", cls=Command, short_help="Render the reports of a run again.")
@click.argument("run", type=click.Path())
@click.option(
    "-f",
    "--format",
    "formats",
    metavar="NAMES",
    shell_complete=complete.formats,
    help="json, csv, txt or several, separated by commas. [default: those of the run]",
)
def command(*, run: str, formats: str | None) -> None:
    """Make the reports of RUN, the folder of a run, again from what was measured. The run may still go on."""
    from orchestrator import archive, config, folders, reporting
    from orchestrator import report as reports

    paths = folders.existing_run(run, "runs")
    asked = archive.load_stored(paths).configuration.formats
    wanted = asked if formats is None else config.report_formats(formats)
    for path in reports.write(reporting.make(paths), paths, wanted):
        say(str(path))
