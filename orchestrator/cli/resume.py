"""`resume`: continue a run that was interrupted or killed, or whose machine went down."""

from typing import Final, Unpack

import click

from orchestrator.cli.decorators import (
    HistoryParams,
    SessionParams,
    add_options,
    require_one_volume,
    which_run,
)
from orchestrator.cli.exit_notification import announced
from orchestrator.cli.program import MeasuringCommand
from orchestrator.cli.run import command as new_run
from orchestrator.config.options import HISTORY, SESSION, SHOWN

EXAMPLES: Final = """\b
Examples:
  {command}  the newest run that is not over
  {command} runs/20260401-213000-1f2e3d
  {command} @last --on-failure 'mail -s gpubench ops'
"""


class _Resume(MeasuringCommand):
    """The command `resume`. If it gets an option of new runs, its error says that a run keeps its configuration."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not any(error.option_name in (*option.opts, *option.secondary_opts) for option in new_run.params):
                raise
            message = f"{error.option_name} is an option of new runs. `resume` keeps the configuration of its run."
            raise click.BadOptionUsage(error.option_name, message, ctx) from error


@click.command("resume", cls=_Resume, short_help="Resume a run.", epilog=EXAMPLES)
@which_run
@add_options((*HISTORY, *SHOWN, *SESSION))
@click.pass_context
def command(
    context: click.Context,
    /,
    run: str | None,
    runs_folder: str,
    history: bool | None,  # noqa: FBT001  # as click passes it
    history_db: str | None,
    **params: Unpack[SessionParams],
) -> None:
    """Resume RUN, by default the newest run that is not over.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs.
    Finished results are kept, and the rest runs as planned. The configuration of a run never changes.
    """
    from orchestrator.cli import unfinished_runs
    from orchestrator.cli.execution import work
    from orchestrator.state import archive
    from orchestrator.store import folders, lock, run_files

    require_one_volume(params)
    with announced(params) as ending:
        paths, note = unfinished_runs.choose(run, runs_folder, history_db)
        folders.require_ours(paths)
        ending.paths = paths
        ending.stop_signals.spare(1)  # it ends with a report, even if it is stopped before anything starts
        stored = run_files.load(paths)
        archive.require_own_journal(stored, paths)
        lock.require_free(paths)
        options = HistoryParams(history=history, history_db=history_db)
        code = work(stored, paths, params, ending, notes=(note,) if note else (), history=options)
    context.exit(code)
