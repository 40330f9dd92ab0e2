"""`run`: measure models on GPUs, or burn them in."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

import click

from orchestrator.cli.decorators import RunParams, require_one_volume, run_options
from orchestrator.cli.exit_notification import announced
from orchestrator.cli.program import MeasuringCommand
from protocol.exit_codes import ExitCode

if TYPE_CHECKING:
    from orchestrator.cli.preparation import Requested
    from orchestrator.engine.kind import Outcome

P = TypeVar("P", bound=RunParams)
EXAMPLES: Final = """\b
Examples:
  {command}                                 all models and GPUs
  {command} --gpu-ids 0,1 --profile quick   a first look
  {command} --gpu-ids cpu:0,cpu:1           without any GPU
  {command} --config my.yaml --dry-run      the plan, how long
  {command} -m resnet50,lstm -b 1,8 -p bf16 -o out/bf16.json
"""


@click.command("run", short_help="Measure models on GPUs.", cls=MeasuringCommand, epilog=EXAMPLES)
@run_options()
@click.pass_context
def command(context: click.Context, /, **params: Unpack[RunParams]) -> None:
    """Measure models on GPUs, each cell in a new process, and merge the results into one report.

    Separate the items of a list by commas.
    """
    context.exit(measure(context, params))


def measure(context: click.Context, params: RunParams, preset: str | None = None) -> ExitCode:
    """Execute a benchmark or burn-in. preset: its name or None. Errors as `execute`."""

    def requested(params: RunParams) -> "Requested":
        from orchestrator.cli import preparation

        return preparation.from_preset(params, preset)

    return execute(context, params, requested)


def execute(
    context: click.Context,
    params: P,
    requested: "Callable[[P], Requested]",
    present: "Callable[[Outcome], str]" = lambda outcome: outcome.text,
) -> ExitCode:
    """Execute the run that `requested` makes of the parameters. --on-failure also runs if that raises UserError.

    present: returns the text to print at the end, or "" to print the report. Raises UserError before anything is
    measured.
    """
    require_one_volume(params)
    with announced(params, rehearsal=params["dry_run"]) as ending:
        from orchestrator.cli import preparation

        words = context.find_root().meta["command"]
        return preparation.execute(words, params, requested(params), ending, present)
