"""`selftest`: inject faults, and show whether gpubench recognises them."""

import sys
from typing import TYPE_CHECKING, Final

import click

from orchestrator.cli.decorators import run_option
from orchestrator.cli.program import MeasuringCommand, table
from orchestrator.cli.streams import complain, indented, say
from orchestrator.errors import DeviceError
from orchestrator.system.stop_signals import StopSignals

if TYPE_CHECKING:
    from orchestrator.gpu.inventory import Look
    from orchestrator.selftest import Outcome
    from protocol.cell import Device

EXAMPLES: Final = """\b
Examples:
  {command}                all GPUs, or cpu:0 without any
  {command} --gpu-ids 0,1
  {command} --gpu-ids cpu:0 --json
"""


@click.command(
    "selftest", cls=MeasuringCommand, short_help="Inject faults, and check that each is named.", epilog=EXAMPLES
)
@run_option("gpu_ids", "all, or cpu:0 where there is no GPU")
@click.option("--json", "as_json", is_flag=True, help="The table as JSON.")
@click.pass_context
def command(context: click.Context, /, gpu_ids: str | None, *, as_json: bool) -> None:
    """Make processes freeze, crash, run out of memory and more, and check that gpubench names each fault.

    Takes about a minute, on all devices at once. The faults are real. The workers and the orchestrator are the same as
    in every run. No report is written. Exit code 5: a row of the table is wrong, or a process or file is left behind.
    Exit code 4: interrupted.
    """
    with StopSignals() as stop_signals:
        stop_signals.spare(0)
        outcome = _injected(gpu_ids, context.find_root().meta["command"], stop_signals)
        stop_signals.spare(0)
        say(_describe(outcome, as_json=as_json))
    context.exit(outcome.exit_code)


def _injected(gpu_ids: str | None, words: tuple[str, ...], stop_signals: StopSignals) -> "Outcome":
    from orchestrator import selftest, terminal
    from orchestrator.gpu import inventory

    look = inventory.once(complain)
    devices = _devices(gpu_ids, look)
    display = terminal.make(quiet=False, verbose=False, log_format="text", stream=sys.stderr)
    try:
        return selftest.inject(devices, display, words, stop_signals, look)
    finally:
        display.close()


def _devices(gpu_ids: str | None, seen: "Look") -> "tuple[Device, ...]":
    from orchestrator.gpu import cuda_probe, devices, gpu_users

    requested = devices.on_this_machine(_everything(seen) if gpu_ids is None else gpu_ids, seen)
    others = [process for process in gpu_users.busy(requested, seen) if process.compute]
    if others:
        raise DeviceError(
            f"{others[0]}. Nothing was injected. Exclude that GPU with --gpu-ids, or wait until the process ends."
        )
    cuda_probe.require(requested)
    return requested


def _everything(seen: "Look") -> str:
    from orchestrator.gpu.inventory import NvmlStatus

    found = seen().inventory
    none = found.nvml is NvmlStatus.OK and not (found.gpus or found.slices or found.unreadable)
    return "cpu:0" if none or found.nvml is NvmlStatus.ABSENT else "all"


def _describe(outcome: "Outcome", *, as_json: bool) -> str:
    from orchestrator.selftest.table import HEADER, as_builtins, details, rows

    if as_json:
        return indented(as_builtins(outcome))
    return "\n".join((table(HEADER, rows(outcome)), "", *details(outcome)))
