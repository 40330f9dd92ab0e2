"""`watch`: follow a run of another terminal until it is over, from its folder alone."""

import os
import select
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import which_run
from orchestrator.cli.program import RunCommand
from orchestrator.cli.status import describe, so_far
from orchestrator.cli.streams import say
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.config.run_configuration import StoredRun
    from orchestrator.engine.display_events import CellEnded, Snapshot
    from orchestrator.engine.status_types import Status
    from orchestrator.state.attempts import Attempt
    from protocol.paths import RunPaths

EXAMPLES: Final = """\b
Examples:
  {command}  the newest run
  {command} runs/20260401-213000-1f2e3d
  {command} --runs-folder /data/runs
"""
LOOK_EVERY_S: Final = 1.0
SHARE: Final = 0.05  # largest share of one core, because the measurement needs the cores


@click.command("watch", cls=RunCommand, short_help="Follow a run in another terminal.", epilog=EXAMPLES)
@which_run
@click.pass_context
def command(context: click.Context, /, run: str | None, runs_folder: str) -> None:
    """Follow RUN, by default the newest run, until it is over.

    RUN is the folder of a run, its id or a unique beginning of it, or @last, @last~1 and so on: the newest runs.
    `watch` ends with the exit code of the run. Ctrl-C ends only `watch`, with exit code 4.
    """
    from orchestrator.engine.status_types import GOES_ON, Standing
    from orchestrator.run_reports import reporting, run_lookup
    from orchestrator.store import run_files

    paths = run_lookup.find(run, runs_folder)
    stored = run_files.load(paths)
    try:
        status = _follow(stored, paths)
    except KeyboardInterrupt:
        say(f"The run continues. `gpubench-orchestrate status {paths.folder}` shows its state.")
        context.exit(ExitCode.INCOMPLETE)
    if status.standing in GOES_ON:
        context.exit(ExitCode.INCOMPLETE)  # the reader has left
    say(describe(status))
    if status.standing is Standing.NOT_BEGUN:
        context.exit(ExitCode.INCOMPLETE)
    context.exit(ExitCode(reporting.make(paths).verdict.exit_code))


def _follow(stored: "StoredRun", paths: "RunPaths") -> "Status":
    """Print events until no process works on the run, or standard output has no reader. Returns the last status."""
    from orchestrator.engine import run_status
    from orchestrator.engine.display_events import Notice
    from orchestrator.engine.status_types import GOES_ON, Standing
    from orchestrator.terminal.outlet import Outlet
    from orchestrator.terminal.plain import Plain

    status, attempts = run_status.look(stored, paths)
    if status.standing not in GOES_ON:
        return status
    say(describe(status, so_far(status, stored, paths)))
    outlet = Outlet(sys.stdout)
    display = Plain(outlet, quiet=False, verbose=False)
    shown = {attempt.start.launch for attempt in attempts if attempt.end is not None}
    spent_s, stops, stood = 0.0, _stops(status), status.standing
    importing_s = status.importing_s
    while status.standing in GOES_ON and not outlet.gone:
        _wait(status.pid, max(LOOK_EVERY_S, spent_s / SHARE))
        began = time.monotonic()
        status, attempts = run_status.look(stored, paths)
        spent_s = time.monotonic() - began
        if importing_s is not None and status.importing_s is None:
            display.tell(Notice(level="info", message="torch and the models are imported"))
        importing_s = status.importing_s
        for ended in _news(stored, attempts, shown):
            display.tell(ended)
        if (request := _stops(status)) and request != stops:
            stops = request
            display.tell(Notice(level="warning", message=request))
        if status.standing is not stood and Standing.FROZEN in (status.standing, stood):
            display.tell(Notice(level="warning", message=f"the process {status.pid} is {status.standing}"))
        stood = status.standing
        if status.share is not None:
            display.show(_snapshot(stored, status, status.share))
    display.close()
    return status


def _stops(status: "Status") -> str:
    if status.stops_now:
        return "stop requested again: running cells are ended now"
    return "" if status.stop_requested_s is None else "stop requested: no cell starts, running cells get up to 20 s"


def _wait(pid: int | None, patience_s: float) -> None:
    with suppress(ProcessLookupError):
        pidfd = None if pid is None else os.pidfd_open(pid)
        try:
            select.select([] if pidfd is None else [pidfd], [], [], patience_s)
        finally:
            if pidfd is not None:
                os.close(pidfd)


def _news(stored: "StoredRun", attempts: "tuple[Attempt, ...]", shown: set[int]) -> "Iterator[CellEnded]":
    """Yield an event for each ended attempt that is not in `shown`. Adds the attempt's launch number to `shown`."""
    from orchestrator.engine import progress
    from orchestrator.engine.display_events import CellEnded

    cells, named = {cell.id: cell for cell in stored.plan.cells}, progress.alike(stored.plan.cells)
    labels = {device.uuid: device.label for device in stored.devices}
    for attempt in attempts:
        if attempt.end is None or attempt.start.launch in shown:
            continue
        shown.add(attempt.start.launch)
        lasted = "" if attempt.lasted_ms is None else f" in {attempt.lasted_ms / 1000:.1f} s"
        yield CellEnded(
            label=labels[attempt.start.device],
            cell=named.describe(cells[attempt.start.cell]),
            batch_size=attempt.start.batch_size,
            attempt=attempt.start.attempt,
            summary=f"measured{lasted}",
            failure=attempt.failure,
        )


def _snapshot(stored: "StoredRun", status: "Status", share: float) -> "Snapshot":
    import msgspec

    from orchestrator.engine.display_events import DeviceLine, Snapshot

    lines = {
        device.label: DeviceLine(uuid=device.uuid, label=device.label, name=device.name) for device in stored.devices
    }
    for work in status.working:
        lines[work.device] = msgspec.structs.replace(
            lines[work.device], cell=work.cell, batch_size=work.batch_size, attempt=work.attempt
        )
    return Snapshot(
        devices=tuple(lines.values()),
        done=status.settled if status.planned is not None else status.settled - status.dropped,
        total=status.planned,
        share=share,
        failed=status.failed,
        elapsed_s=0.0,
        eta_s=status.eta_s,
    )
