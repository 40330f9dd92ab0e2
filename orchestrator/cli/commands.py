"""The programs gpubench-orchestrate and torch-gpu-benchmark, which share every command.

Import nothing slow here: --help takes 0.2 s.
"""

from typing import Final, Unpack

import click

from orchestrator import TOOL_VERSION
from orchestrator.cli import (
    compare,
    completion,
    doctor,
    explain,
    gate,
    history,
    info,
    list_models,
    make_baseline,
    ops,
    quick,
    report,
    resume,
    run,
    selftest,
    status,
    stop,
    study,
    triage,
    watch,
)
from orchestrator.cli.decorators import RunParams, run_options
from orchestrator.cli.program import SETTINGS, Program, refuse_misplaced

EXAMPLES: Final = """\b
Examples:
  {command} run --gpu-ids 0,1 --profile quick
  {command} quick --light --gpu-ids cpu:0
  {command} compare before.json after.json
  {command} history trend resnet50
"""  # -


@click.group(
    "gpubench-orchestrate",
    cls=Program,
    invoke_without_command=True,
    context_settings=SETTINGS,
    epilog=run.EXAMPLES,
)
@run_options()
@click.version_option(TOOL_VERSION, message="%(prog)s %(version)s")
@click.pass_context
def orchestrate(context: click.Context, /, **params: Unpack[RunParams]) -> None:
    """Measure every model on every GPU, each cell in a new process, and merge the results into one report."""
    if context.invoked_subcommand is None:
        context.exit(run.measure(context, params))
    refuse_misplaced(context)


@click.group("torch-gpu-benchmark", cls=Program, context_settings=SETTINGS, epilog=EXAMPLES)
@click.version_option(TOOL_VERSION, message="%(prog)s %(version)s")
def benchmark() -> None:
    """Measure how fast GPUs, models and the software stack are.

    `torch-gpu-benchmark run` measures. `torch-gpu-benchmark run --help` explains its options.
    """


for _program in (orchestrate, benchmark):
    for _module in (
        *(run, quick, triage, resume, status, watch, stop, report, compare, gate, ops, study, make_baseline),
        *(explain, history, doctor, selftest, info, list_models, completion),
    ):
        _program.add_command(_module.command)
