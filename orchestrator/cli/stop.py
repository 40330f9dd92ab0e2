"""`stop`: end a run in another terminal, as Ctrl-C there would."""

import signal
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import which_run
from orchestrator.cli.program import Command
from orchestrator.cli.streams import say
from orchestrator.errors import RunFolderError

if TYPE_CHECKING:
    from protocol.paths import RunPaths

EXAMPLES: Final = """\b
Examples:
  {command}  the newest run
  {command} runs/20260401-213000-1f2e3d
"""


@click.command("stop", cls=Command, short_help="End a run in another terminal.", epilog=EXAMPLES)
@which_run
def command(*, run: str | None, runs_folder: str) -> None:
    """Ask the process that works on RUN to stop; without RUN, on the newest one.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs.
    It starts no new cell, gives those that run up to 20 s, and writes the report. Asked once more, it stops now.
    """
    from orchestrator.run_reports import run_lookup
    from orchestrator.store import lock
    from orchestrator.system import host, process_end

    paths = run_lookup.find(run, runs_folder)
    holder = lock.holder(paths)
    life = None if holder is None else lock.life(holder)
    if holder is None or life is lock.Life.ENDED:
        raise RunFolderError(f"{paths.folder}: no process works on it. Nothing was stopped.")
    if life is lock.Life.ELSEWHERE:
        raise RunFolderError(
            f"{paths.folder}: process {holder.pid} of {holder.hostname} works on it, which cannot be reached from here "
            "(another host or container). Stop it there."
        )
    again = _was_asked(paths)
    try:
        sent = process_end.signal_same(holder.pid, holder.start_ticks, signal.SIGTERM)
    except PermissionError as error:
        raise RunFolderError(
            f"{paths.folder}: process {holder.pid} belongs to another user, who can stop it"
        ) from error
    if not sent:
        raise RunFolderError(f"{paths.folder}: process {holder.pid} has just ended. Nothing was stopped.")
    if host.process_state(holder.pid).startswith("T"):
        say(
            f"Process {holder.pid} was asked to stop, but is stopped (SIGSTOP, state T) and does not answer: "
            f"`kill -CONT {holder.pid}` lets it go on, and then it hears that."
        )
    elif again:
        say(f"Process {holder.pid} was asked once more to stop: it ends what runs now, and writes the report.")
    else:
        say(
            f"Process {holder.pid} was asked to stop: it starts no new cell, gives those that run up to 20 s, and "
            "writes the report. Asked once more, it stops now."
        )


def _was_asked(paths: "RunPaths") -> bool:
    """Whether the process has heard an earlier request. The journal need not be readable."""
    from orchestrator.engine import run_status
    from orchestrator.store import journal

    try:
        return bool(run_status.stops_asked(journal.read(paths.journal)))
    except RunFolderError:
        return False
