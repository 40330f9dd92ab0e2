"""`ops`: which implementation of an operator is fast, and whether its results are right."""

from typing import TYPE_CHECKING, Final, Unpack

import click

from orchestrator.cli import run
from orchestrator.cli.decorators import OPTIONS, RunParams, add_options, offering
from orchestrator.cli.list_options import ListOption
from orchestrator.cli.program import MeasuringCommand
from orchestrator.config.options import COMPARISON, HISTORY, MEASUREMENT, PLACES, REHEARSAL, SESSION, SHOWN

if TYPE_CHECKING:
    from orchestrator.cli.preparation import Requested

EXAMPLES: Final = """\b
Examples:
  {command}                              all operators
  {command} --category reduction --fast  one category
  {command} --op add -p fp32,bf16        two precisions
  {command} --against my.py:f=add --allow-code
"""
_KEYS: Final = frozenset(
    {"pythonpath", "benchmark.precision", "benchmark.profile", "benchmark.launches", "benchmark.isolation"}
    | {"benchmark.seed", "monitoring.enabled", "health.require", "benchmark.mode"}
)
RUN_OPTIONS: Final = (
    *(one for one in COMPARISON if one.key != "compare.price"),
    *(
        one
        for one in MEASUREMENT
        if one.key in _KEYS or one.key.startswith(("gpu.", "output.", "monitoring.")) or one.name == "allow_code"
    ),
    *PLACES,
    *HISTORY,
    *REHEARSAL,
    *SHOWN,
    *SESSION,
)
"""Options of a run that have an effect on operators."""


class OpsParams(RunParams):
    """Options of `ops`, and the options of its run that are read by name. None: not given.

    category, op, implementations: names, separated by commas. against: FILE:FUNCTION=OPERATOR of each user's function.
    fast: measure 10 ms for each figure. pythonpath: folders, separated by colons.
    """

    category: str | None
    op: str | None
    implementations: str | None
    against: tuple[str, ...]
    fast: bool
    pythonpath: str | None


def _operators() -> list[str]:
    from orchestrator.config import operators

    return [*operators.load()]


def _categories() -> list[str]:
    from orchestrator.config import operators

    return [*dict.fromkeys(spec.category for spec in operators.load().values())]


@click.command("ops", short_help="Measure and verify operators.", cls=MeasuringCommand, epilog=EXAMPLES)
@click.option(
    "--category",
    cls=ListOption,
    metavar="NAMES",
    shell_complete=offering(_categories, several=True),
    help="Categories of operators. [default: all]",
)
@click.option(
    "--op",
    cls=ListOption,
    metavar="NAMES",
    shell_complete=offering(_operators, several=True),
    help="Operators; --dry-run lists all. [default: all]",
)
@click.option(
    "--implementations",
    cls=ListOption,
    metavar="NAMES",
    help="eager, compiled (torch.compile). [default: eager,compiled]",
)
@click.option(
    "--against",
    multiple=True,
    metavar="FILE:FUNCTION=OPERATOR",
    help="Also measure your function, as one more implementation of OPERATOR; needs --allow-code.",
)
@click.option("--fast", is_flag=True, help="Shorter measurement: 10 ms for each figure.")
@add_options(RUN_OPTIONS, {"launches": "1"})
@click.pass_context
def command(context: click.Context, /, **params: Unpack[OpsParams]) -> None:
    """Measure operators in several implementations, each verified against a reference in fp64.

    Exit code 1: a result is wrong. The report marks it as WRONG and gives it no speed.
    """
    context.exit(run.execute(context, params, _requested))


def _requested(params: OpsParams) -> "Requested":
    from orchestrator.cli.preparation import Requested, configure, read_references
    from orchestrator.config import operator_runs, own_code
    from orchestrator.kinds.ops import settings as ops
    from orchestrator.store import folders

    current = folders.current()
    settings, configuration, models = configure(params, operator_runs.preset(ops.NAME, OPTIONS))
    places = [path for path, _ in settings.items("pythonpath", ":")] if "pythonpath" in settings.values else []
    pythonpath = own_code.folders(places, current, "--pythonpath")
    mine = ops.own(params["against"], own_code.Search(current, pythonpath, params["allow_code"]))
    chosen = ops.chosen(words_of(params["category"]), words_of(params["op"]))
    configuration = ops.with_operators(
        configuration, chosen, mine, words_of(params["implementations"]) or ops.IMPLEMENTATIONS, fast=params["fast"]
    )
    against = read_references(settings, configuration, configuration.models)
    return Requested(settings, configuration, models, against)


def words_of(text: str | None) -> list[str]:
    """Split the text of a list option at its commas; [] for None. Empty words are dropped."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]
