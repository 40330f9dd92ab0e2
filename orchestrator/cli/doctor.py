"""`doctor`: whether a run could start on this machine's GPUs, and what to fix."""

import textwrap
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.program import RunCommand
from orchestrator.cli.streams import say
from orchestrator.config.naming import plural
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


@click.command(
    "doctor", cls=RunCommand, short_help="Check whether a run can start, and how to fix problems.", epilog=EXAMPLES
)
@click.option(
    "--runs-folder",
    metavar="FOLDER",
    type=click.Path(),
    default="runs",
    help="The folder for the runs. [default: ./runs]",
)
@click.option(
    "--gpu-ids",
    metavar="IDS",
    default="all",
    help="Devices of that run: 0,1; UUIDs; cpu:0. [default: all]",
)
@click.pass_context
def command(context: click.Context, /, runs_folder: str, gpu_ids: str) -> None:
    """Check driver, CUDA, torch, GPUs, cores, memory, disks and limits, and say how to fix problems.

    Exit code 0: a run on all GPUs, or on the given devices, can start (there may be warnings). Exit code 4: the run
    cannot start. The command changes nothing.
    """
    from orchestrator import doctor

    findings = tuple(doctor.examine(runs_folder, gpu_ids))
    say(describe(findings, "all GPUs" if gpu_ids == "all" else gpu_ids))
    broken = any(finding.level is doctor.Level.BROKEN for finding in findings)
    context.exit(ExitCode.INCOMPLETE if broken else ExitCode.PASSED)


def describe(findings: "Sequence[Finding]", on: str) -> str:
    """Return text on each finding with its fix, then whether a run can start. on: the run's devices, as text."""
    from orchestrator.doctor import Level

    lines = []
    for finding in findings:
        head = f"{finding.level:<8} {finding.subject:<9} "
        fix = [f"do: {finding.fix}"] if finding.fix else []
        for number, text in enumerate([finding.message, *fix]):
            first = head if number == 0 else " " * len(head)
            lines += textwrap.wrap(
                text,
                _WIDTH,
                initial_indent=first,
                subsequent_indent=" " * len(head) + ("    " if number else ""),
                break_long_words=False,
                break_on_hyphens=False,
            )
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    if counts[Level.BROKEN]:
        problems = plural(counts[Level.BROKEN], "problem")
        end = f"A run on {on} cannot start: {problems} to fix, {plural(counts[Level.WARNING], 'warning')}."
    else:
        end = f"A run can start: {plural(counts[Level.WARNING], 'warning')}."
    return "\n".join((*lines, "", end))
