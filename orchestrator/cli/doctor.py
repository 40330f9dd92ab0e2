"""`doctor`: whether a run could start on this machine's GPUs, and what to fix."""

import textwrap
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.program import RunCommand
from orchestrator.cli.streams import say
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.doctor import Finding

EXAMPLES: Final = """\b
Examples:
  {command}  for a run on all GPUs
  {command} --gpu-ids 0,1 --runs-folder /data/runs
"""
_WIDTH: Final = 118


@click.command("doctor", cls=RunCommand, short_help="Say what stands in the way of a run.", epilog=EXAMPLES)
@click.option(
    "--runs-folder",
    metavar="FOLDER",
    type=click.Path(),
    default="runs",
    help="Where runs would be written. [default: ./runs]",
)
@click.option(
    "--gpu-ids",
    metavar="IDS",
    default="all",
    help="The devices of that run, as `run` takes them: 0,1; UUIDs; cpu:0. [default: all]",
)
@click.pass_context
def command(context: click.Context, /, runs_folder: str, gpu_ids: str) -> None:
    """Look at driver, CUDA, torch, GPUs, cores, memory, disks and limits, and say how to mend what is wrong.

    Ends with 0 where a run on all GPUs, or on those that are named, could begin (there may be warnings), with 4 where
    it could not. Changes nothing.
    """
    from orchestrator import doctor

    found = tuple(doctor.examine(runs_folder, gpu_ids))
    say(describe(found, "all GPUs" if gpu_ids == "all" else gpu_ids))
    broken = any(one.level is doctor.Level.BROKEN for one in found)
    context.exit(ExitCode.INCOMPLETE if broken else ExitCode.PASSED)


def describe(found: "Sequence[Finding]", on: str) -> str:
    """Describe each finding with its fix, then the conclusion. on: the devices of the run, in words."""
    from orchestrator.doctor import Level

    lines = []
    for one in found:
        head = f"{one.level:<8} {one.subject:<9} "
        fix = [f"do: {one.fix}"] if one.fix else []
        for number, text in enumerate([one.words, *fix]):
            first = head if number == 0 else " " * len(head)
            lines += textwrap.wrap(
                text,
                _WIDTH,
                initial_indent=first,
                subsequent_indent=" " * len(head) + ("    " if number else ""),
                break_long_words=False,
                break_on_hyphens=False,
            )
    counts = {level: sum(one.level is level for one in found) for level in Level}
    if counts[Level.BROKEN]:
        end = f"A run on {on} cannot begin: {counts[Level.BROKEN]} to mend, {counts[Level.WARNING]} warnings."
    else:
        end = f"A run can begin; {counts[Level.WARNING]} warnings."
    return "\n".join((*lines, "", end))
