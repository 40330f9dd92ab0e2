"""`make-baseline`: reduce reports to a baseline for other runs."""

from pathlib import Path
from typing import Final

import click

from orchestrator.cli.decorators import RUNS_FOLDER, require_report_file, run_option
from orchestrator.cli.program import Command
from orchestrator.cli.streams import complain, indented, say
from orchestrator.config.naming import plural
from orchestrator.errors import ConfigError

EXAMPLES: Final = """\b
Examples:
  {command} runs/20260401-213000-1f2e3d -o h200.json
  {command} runs/resnet50 runs/bert-base -o h200.json
  {program} run --compare-baseline h200.json
"""
RIGOROUS: Final = "rigorous"
MOST: Final = 8  # excluded cells named for each reason


@click.command("make-baseline", cls=Command, short_help="Make a baseline of one or more reports.", epilog=EXAMPLES)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(),
    callback=require_report_file,
    help="The baseline's file; one that is there already is never replaced.",
)
@RUNS_FOLDER
@run_option("history_db")
def command(*, runs: tuple[str, ...], output: str, runs_folder: str, history_db: str | None) -> None:
    """Make a baseline of RUN, a report.json, the folder of a run, or its id: sound cells, with each launch's figure.

    Cells that were measured at a smaller batch, throttled, contaminated or never steady are left out, and named.
    Several runs are joined, where nothing of their stack differs and each cell of a device is in one of them.
    """
    from orchestrator.compare import baselines, cell_facts, pairing
    from orchestrator.figures import keys
    from orchestrator.run_reports import report_reader
    from orchestrator.store import folders
    from orchestrator.store.journal import write_durably

    path = Path(output)
    if path.suffix not in ("", ".json"):
        raise ConfigError(f"-o/--output: {output}: a baseline is JSON, so its suffix is .json, and not '{path.suffix}'")
    folders.require_file(path, "-o/--output")
    if path.exists():
        raise ConfigError(f"-o/--output: {path} is there already; choose another name")
    found = baselines.joined([report_reader.read(run, runs_folder, history_db) for run in runs])
    made = baselines.reduced(found, path.stem)
    write_durably(path, indented(made).encode() + b"\n")
    say(str(path))
    names = keys.names(cell.key for cell in found.cells)
    for why, left_out in baselines.unsound(found).items():
        told = [f"{place.device.label} {names[place.cell.key]}" for place in left_out]
        more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
        words = f"left out, {plural(len(told), 'cell')} of {len(found.cells)}: {', '.join(told[:MOST])}{more}"
        complain(f"note: {words}: {why}")
    places = pairing.places(made).values()
    if blind := sum(cell_facts.not_watched(place.device.kind, place.cell.throttled) for place in places):
        complain(
            f"note: nobody watched whether {blind} of {len(made.cells)} cells were throttled: no comparison with them "
            "will say SAME or FASTER"
        )
    if made.profile != RIGOROUS:
        complain(f"note: it was measured with the profile {made.profile}; baselines to share are made with {RIGOROUS}")
