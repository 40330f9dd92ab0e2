"""`triage`: which of these GPUs is slow, why, and in which slot, within ten minutes."""

from typing import Final, Unpack

import click

from orchestrator.cli import run
from orchestrator.cli.decorators import RunParams, preset_options
from orchestrator.cli.program import MeasuringCommand

EXAMPLES: Final = """\b
Examples:
  {command}                    every GPU of the node
  {command} --gpu-ids 0,1,2,3  four of them
  {command} --dry-run          what is measured, how long
"""

# The defaults of configs/presets.yaml, for --help.
DEFAULTS: Final = {
    "models": "gemm,hbm,h2d,d2h,resnet50,bert-base",
    "batch_sizes": "256; CPU devices: 1",
    "precision": "bf16",
    "profile": "triage",
    "phases": "training",
    "solo": "both ways",
    "launches": "3, more for a SUSPECT",
    "load_window": "1",
}


@click.command("triage", short_help="Say which GPU is slow, and why.", cls=MeasuringCommand, epilog=EXAMPLES)
@preset_options(DEFAULTS)
@click.pass_context
def command(context: click.Context, /, **params: Unpack[RunParams]) -> None:
    """Find which GPU is slower than its siblings, why, and in which slot. Ends within ten minutes.

    Measures probes and two models, in three launches each, on all GPUs at once and on one GPU at a time. The report
    begins with a verdict on each GPU. A verdict needs four identical GPUs. Options change what is measured, not the
    time limit.
    """
    from orchestrator.config import presets

    context.exit(run.measure(context, params, preset=presets.TRIAGE))
