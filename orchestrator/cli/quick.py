"""`quick`: a benchmark with a time limit."""

from typing import Final, Unpack

import click

from orchestrator.cli import run
from orchestrator.cli.decorators import RunParams, preset_options
from orchestrator.cli.program import MeasuringCommand

EXAMPLES: Final = """\b
Examples:
  {command}                          three minutes, all GPUs
  {command} --light -m resnet50,bert-base
  {command} --extensive -o report.txt
  {command} --light --gpu-ids cpu:0  without any GPU
"""

# The defaults of configs/presets.yaml, for --help.
DEFAULTS: Final = {
    "batch_sizes": "light: 8; standard: 1,32, training: 32; extensive: 1,8,32, training: 8,32; generation: 1",
    "precision": "fp32; extensive: fp32,bf16",
    "profile": "quick",
    "launches": "1",
    "load_window": "1",
    "phases": "light: inference; standard: inference,training,generation; extensive: all four",
}


class QuickParams(RunParams):
    """Options of a run, and three flags that choose a preset. At most one flag may be given.

    Without a flag, the preset is `standard`.
    """

    light: bool
    standard: bool
    extensive: bool


@click.command("quick", short_help="Measure for one, three or ten minutes.", cls=MeasuringCommand, epilog=EXAMPLES)
@click.option("--light", is_flag=True, help="End within one minute.")
@click.option("--standard", is_flag=True, help="End within three minutes. This is the default.")
@click.option("--extensive", is_flag=True, help="End within ten minutes.")
@preset_options(DEFAULTS)
@click.pass_context
def command(context: click.Context, /, **params: Unpack[QuickParams]) -> None:
    """Measure the most important cells first, and end within one, three or ten minutes, reports included.

    Cells for which no time is left are dropped, and the report names them. Options change what is measured, not the
    time limit.
    """
    from orchestrator.config import presets

    flags = {"light": params["light"], "standard": params["standard"], "extensive": params["extensive"]}
    chosen = [name for name, given in flags.items() if given]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(f'--{name}' for name in chosen)} contradict each other. Keep one")
    context.exit(run.measure(context, params, preset=chosen[0] if chosen else presets.DEFAULT))
