"""`gate`: measure until each cell is known to be slower than its other side or not, with an exit code for CI."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

import click

from orchestrator.cli import output_formats, run, session_spread
from orchestrator.cli.decorators import OPTIONS, RunParams, add_options
from orchestrator.cli.program import MeasuringCommand
from orchestrator.config.options import HISTORY, MEASUREMENT, PLACES, REHEARSAL, SESSION
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.cli.preparation import Requested
    from orchestrator.engine.kind import Outcome

EXAMPLES: Final = """\b
Examples:
  {command} main.json          this machine now
  {command} main.json -m resnet50 --junit gate.xml
  {command} --ab net.py:Old net.py:New --allow-code
  {command} -m lstm --set-b precision=bf16
  {command} -m resnet50 --python-b new/bin/python
"""
_RUN: Final = (
    # A gate's reports are in the run's folder, and it reads no power.
    *(option for option in MEASUREMENT if not option.key.startswith(("output.", "benchmark.load_window"))),
    *PLACES,
    *HISTORY,
    *REHEARSAL,
    *SESSION,
)

_AS_BASELINE: Final = frozenset(
    {"models", "batch_sizes", "precision", "phases", "profile", "solo", "iterations", "warmup", "isolation", "seed"}
)
DEFAULTS: Final = {
    **{one.name: f"as BASELINE, else {one.default}" for one in MEASUREMENT if one.name in _AS_BASELINE},
    "launches": "3, more until decided",
}
"""Parameter → default value as --help shows it. kinds/gate/settings.py sets these defaults."""


class GateParams(RunParams):
    """Options of a gate, beside those of its run that RunParams declares. None or (): the option was not given.

    kind: --format. compared: -o. The other fields are named after their option or argument.
    """

    baseline: str | None
    ab: tuple[str, str] | None
    set_a: tuple[str, ...]
    set_b: tuple[str, ...]
    python_a: str | None
    python_b: str | None
    time_limit: str | None
    threshold: float | None
    kind: str | None
    compared: str | None
    junit: str | None
    models: str | None
    runs_folder: str | None
    history_db: str | None


@click.command("gate", short_help="Measure until it is known what got slower.", cls=MeasuringCommand, epilog=EXAMPLES)
@click.argument("baseline", required=False, metavar="[BASELINE]", type=click.Path())
@click.option("--ab", nargs=2, metavar="A B", help="Compare two models, measured in turn.")
@click.option(
    "--set-a", multiple=True, metavar="KEY=VALUE", help="A setting of the first side, such as precision=fp32."
)
@click.option("--set-b", multiple=True, metavar="KEY=VALUE", help="A setting of the second side.")
@click.option(
    "--python-a", metavar="FILE", type=click.Path(), help="Interpreter of the first side. [default: this one]"
)
@click.option("--python-b", metavar="FILE", type=click.Path(), help="Interpreter of the second side.")
@click.option(
    "--time-limit",
    metavar="DURATION",
    help="End this long after the imports, decided or not: 90s, 5m, 1h. [default: 5m]",
)
@click.option(
    "--threshold", metavar="PERCENT", type=float, help="Largest change that counts as the same. [default: as `compare`]"
)
@click.option("--format", "kind", metavar="NAME", help="text, json or md. [default: by the suffix of -o, else text]")
@click.option(
    *("-o", "--output", "compared"),
    metavar="FILE",
    type=click.Path(),
    help=f"Write the comparison into this file too; {output_formats.OLDER_KEPT}.",
)
@click.option("--junit", metavar="FILE", type=click.Path(), help="Also write JUnit XML, a test case for each cell.")
@add_options(_RUN, DEFAULTS)
@click.pass_context
def command(context: click.Context, /, **params: Unpack[GateParams]) -> None:
    """Measure until every cell is known to be faster, slower or the same, or the time is up.

    BASELINE is a report, the folder or id of a run, or a baseline, as for `compare`. Its cells are measured; options
    select some of them. With --ab, --set-b or --python-b there is no BASELINE, and two sides are measured in turn. Exit
    code 0: no cell is slower. Exit code 1: a cell is slower. Exit code 4: a cell stays undecided.
    """
    from orchestrator.kinds.gate import outcome
    from orchestrator.store import folders

    if params["threshold"] is not None and not 0 < params["threshold"] < 100:
        raise ConfigError(f"--threshold: expected more than 0 and less than 100, got {params['threshold']:g}")
    kind = output_formats.chosen(params["kind"], params["compared"], outcome.FORMATS)
    for place, origin in ((params["compared"], "-o/--output"), (params["junit"], "--junit")):
        if place is not None:
            folders.require_file(Path(place), origin)

    def present(answer: "Outcome") -> str:
        assert isinstance(answer, outcome.Answer)
        rendered = answer.render(kind)
        if params["junit"] is not None:
            output_formats.write(answer.junit(), params["junit"])
        if params["compared"] is not None:
            output_formats.write(rendered, params["compared"])
            return answer.text
        return rendered

    context.exit(run.execute(context, params, _requested, present))


def _requested(params: GateParams) -> "Requested":
    from orchestrator.cli.preparation import Requested, configure
    from orchestrator.compare.references import Against
    from orchestrator.config import margins
    from orchestrator.config.settings import NOTHING
    from orchestrator.kinds.burn_in.settings import seconds
    from orchestrator.kinds.gate import settings as gate
    from orchestrator.run_reports import report_reader

    text, percent = params["time_limit"], params["threshold"]
    limit_s = gate.LIMIT_S if text is None else seconds(text, "--time-limit")
    sides = gate.sides(params["ab"], (params["set_a"], params["set_b"]), (params["python_a"], params["python_b"]))
    if bool(sides) is (params["baseline"] is not None):
        wrong = "BASELINE is missing" if not sides else "a gate has a BASELINE or two sides, not both"
        raise ConfigError(f"{wrong}. Name a report or run as BASELINE, or two sides with --ab, --set-b or --python-b")
    if params["baseline"] is not None:
        runs, history_db = params["runs_folder"] or "runs", params["history_db"]
        baseline = report_reader.baseline(params["baseline"], runs, history_db, origin="BASELINE")
        settings, configuration, models = configure(
            params, gate.of_baseline(baseline, params["baseline"], limit_s, OPTIONS)
        )
        numbered = settings.find("benchmark.launches", int)
        whole = gate.with_cells(configuration, baseline, numbered, percent)
        session = session_spread.learned(baseline, baseline, margins.load(), history_db)
        return Requested(settings, whole, models, Against(baseline=baseline, session=session))
    if params["ab"] is not None and params["models"] is not None:
        raise ConfigError("-m/--models and --ab contradict each other. Remove one of them")
    preset = gate.preset(limit_s, NOTHING)
    (settings, _, models), *_ = configured = [
        configure(cast("RunParams", {**params, **side.changed}), preset) for side in sides
    ]
    configurations = [configuration for _, configuration, _ in configured]
    whole = gate.with_sides(sides, configurations, settings.find("benchmark.launches", int), percent)
    return Requested(settings, whole, models, Against())
