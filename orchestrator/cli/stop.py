"""`stop`: end a run in another terminal, as Ctrl-C there would."""

import signal

import click

from orchestrator.cli.program import Command
from orchestrator.cli.shared_options import which_run
from orchestrator.cli.streams import say
from orchestrator.errors import RunFolderError


@click.command("stop", cls=Command, short_help="End a run in another terminal.")
@which_run
def command(*, run: str | None, runs_folder: str) -> None:
    """Ask the process that works on RUN to stop; without RUN, on the newest one.

    It starts no new cell, gives those that run up to 20 s, and writes the report. Asked once more, it stops now.
    """
    from orchestrator.disk import folders, lock
    from orchestrator.processes import ending

    paths = folders.existing_run(run, runs_folder)
    holder = lock.holder(paths)
    life = None if holder is None else lock.life(holder)
    if holder is None or life is lock.Life.ENDED:
        raise RunFolderError(f"{paths.folder}: no process works on it. Nothing was stopped.")
    if life is lock.Life.ELSEWHERE:
        raise RunFolderError(
            f"{paths.folder}: process {holder.pid} of {holder.hostname} works on it, which cannot be reached from here "
            "(another host or container). Stop it there."
        )
    try:
        sent = ending.signal_same(holder.pid, holder.start_ticks, signal.SIGTERM)
    except PermissionError as error:
        raise RunFolderError(
            f"{paths.folder}: process {holder.pid} belongs to another user, who can stop it"
        ) from error
    if not sent:
        raise RunFolderError(f"{paths.folder}: process {holder.pid} has just ended. Nothing was stopped.")
    say(
        f"Process {holder.pid} was asked to stop: it starts no new cell, gives those that run up to 20 s, and writes "
        "the report. Asked once more, it stops now."
    )
