"""`resume`: go on with a run that was interrupted, killed, or ended with its machine."""

from typing import Unpack

import click

from orchestrator.cli.options import DisplayParams, display_options, require_one_voice
from orchestrator.cli.program import RunCommand


@click.command("resume", cls=RunCommand, short_help="Go on with a run.")
@click.argument("run", required=False, type=click.Path())
@click.option(
    "--runs-folder",
    metavar="FOLDER",
    type=click.Path(),
    default="runs",
    help="Where to find the newest. [default: ./runs]",
)
@display_options
@click.pass_context
def command(context: click.Context, /, run: str | None, runs_folder: str, **params: Unpack[DisplayParams]) -> None:
    """Go on with RUN, the folder of a run; without it, with the newest one.

    What was finished is kept, and the rest is run as it was planned: a run's configuration never changes.
    """
    from orchestrator import archive, cuda_probe, folders
    from orchestrator.cli.running import work

    require_one_voice(params)
    paths = folders.existing_run(run, runs_folder)
    folders.require_ours(paths)
    stored = archive.load_stored(paths)
    archive.require_own_journal(stored, paths)
    cuda_probe.require(stored.devices)
    context.exit(work(stored, paths, params))
