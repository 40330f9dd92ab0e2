"""`stop`: end a run that another terminal started, as Ctrl-C there would."""

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


@click.command("stop", cls=Command, short_help="Stop a run from another terminal.", epilog=EXAMPLES)
@which_run
def command(*, run: str | None, runs_folder: str) -> None:
    """Stop RUN, by default the newest run.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs.
    Running cells get up to 20 s, then the process writes the report. A second `stop` ends them now.
    """
    from orchestrator.run_reports import run_lookup
    from orchestrator.store import lock
    from orchestrator.system import host, process_end

    paths = run_lookup.find(run, runs_folder)
    holder = lock.holder(paths)
    life = None if holder is None else lock.life(holder)
    if holder is None or life is lock.Life.ENDED:
        raise RunFolderError(f"{paths.folder}: the run is not running. Nothing was stopped.")
    if life is lock.Life.ELSEWHERE:
        raise RunFolderError(
            f"{paths.folder}: process {holder.pid} of this run is on another host or in another container "
            f"({holder.hostname}). Stop it there."
        )
    again = _has_stop_request(paths)
    try:
        sent = process_end.signal_same(holder.pid, holder.start_ticks, signal.SIGTERM)
    except PermissionError as error:
        raise RunFolderError(
            f"{paths.folder}: process {holder.pid} belongs to another user. Only that user can stop it"
        ) from error
    if not sent:
        raise RunFolderError(f"{paths.folder}: process {holder.pid} has just ended. Nothing was stopped.")
    if host.process_state(holder.pid).startswith("T"):
        say(
            f"Process {holder.pid} does not answer, because it is stopped (SIGSTOP, state T). "
            f"`kill -CONT {holder.pid}` continues it, then it ends the run."
        )
    elif again:
        say(f"Process {holder.pid} was signalled again: it ends running cells now and writes the report.")
    else:
        say(
            f"Process {holder.pid} was signalled: running cells get up to 20 s, then it writes the report. A second "
            "`stop` ends them now."
        )


def _has_stop_request(paths: "RunPaths") -> bool:
    """Whether the journal has an earlier request to stop the run. False if the journal is unreadable."""
    from orchestrator.engine import run_status
    from orchestrator.store import journal

    try:
        return bool(run_status.stop_requests_ns(journal.read(paths.journal)))
    except RunFolderError:
        return False
