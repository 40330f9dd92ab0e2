"""`study`: a grid of operations, implementations, sizes and precisions."""

from typing import TYPE_CHECKING, Final, Unpack

import click

from orchestrator.cli import run
from orchestrator.cli.decorators import OPTIONS, RunParams, add_options, offering
from orchestrator.cli.list_options import ListOption
from orchestrator.cli.ops import RUN_OPTIONS, words_of
from orchestrator.cli.program import MeasuringCommand

if TYPE_CHECKING:
    from orchestrator.cli.preparation import Requested

EXAMPLES: Final = """\b
Examples:
  {command} conv                  convolutions, also in JAX
  {command} attention -p bf16     backends of attention
  {command} conv --size h=32      one size of images
  {command} my.yaml --allow-code  your own grid
"""


class StudyParams(RunParams):
    """Options of a study, besides RunParams. study: name of a shipped study, or a YAML file.

    implementations: "eager,jax", None for all. size: such as "h=32,64". fast: measure only 10 ms for each figure.
    pythonpath: folders of the user's code, separated by ":", or None.
    """

    study: str
    implementations: str | None
    size: tuple[str, ...]
    fast: bool
    pythonpath: str | None


def _names() -> list[str]:
    from orchestrator.kinds.study import grid

    return grid.names()


@click.command(
    "study", short_help="Measure a grid of implementations and sizes.", cls=MeasuringCommand, epilog=EXAMPLES
)
@click.argument("study", metavar="STUDY", shell_complete=offering(_names, several=False))
@click.option(
    "--implementations", cls=ListOption, metavar="NAMES", help="Only these of the study. [default: all of its own]"
)
@click.option("--size", multiple=True, metavar="NAME=SIZES", help="Other sizes of a dimension, such as h=32,64.")
@click.option("--fast", is_flag=True, help="Shorter measurement: 10 ms for each figure.")
@add_options(RUN_OPTIONS, {"precision": "of the study", "launches": "1"})
@click.pass_context
def command(context: click.Context, /, **params: Unpack[StudyParams]) -> None:
    """Measure a study: a grid of operations, implementations, sizes and precisions, with a process for each cell.

    STUDY is `conv`, `attention`, or a YAML file of yours (docs/studies.md). Exit code 1 if a result is wrong.
    """
    context.exit(run.execute(context, params, _requested))


def _requested(params: StudyParams) -> "Requested":
    from orchestrator.cli.preparation import Requested, configure, read_references
    from orchestrator.config import operator_runs, own_code
    from orchestrator.kinds.study import grid, kind
    from orchestrator.store import folders

    current = folders.current()
    found = grid.narrowed(grid.read(params["study"], current), words_of(params["implementations"]), params["size"])
    settings, configuration, models = configure(params, operator_runs.preset(kind.NAME, OPTIONS, found.precisions))
    places = [path for path, _ in settings.items("pythonpath", ":")] if "pythonpath" in settings.values else []
    pythonpath = own_code.folders(places, current, "--pythonpath")
    entries = grid.entries(found, own_code.Search(found.base, pythonpath, params["allow_code"]))
    configuration = operator_runs.configured(configuration, entries, study=found.name, fast=params["fast"])
    against = read_references(settings, configuration, configuration.models)
    return Requested(settings, configuration, models, against)
