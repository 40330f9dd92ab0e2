"""`make-baseline`: reduce reports to a baseline for other runs."""

from pathlib import Path
from typing import Final

import click

from orchestrator.cli.decorators import RUNS_FOLDER, run_option
from orchestrator.cli.output_formats import output_option
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
@output_option("The baseline's file, which must not exist yet.", required=True)
@click.option("--gpu-bound", is_flag=True, help="Only cells that the GPU limits, for use on other machines.")
@RUNS_FOLDER
@run_option("history_db")
def command(*, runs: tuple[str, ...], output: str, gpu_bound: bool, runs_folder: str, history_db: str | None) -> None:
    """Make a baseline of RUN: the figures of its healthy cells, launch by launch.

    RUN is a report.json, the folder of a run, or its id. Cells that were measured at a smaller batch, throttled,
    contaminated or never steady are excluded, and named. Several runs are joined if they have the same stack (versions
    and settings) and each cell of a device is in only one of the runs.
    """
    from orchestrator.compare import baselines, cell_facts, pairing
    from orchestrator.figures import keys
    from orchestrator.run_reports import report_reader
    from orchestrator.store import folders
    from orchestrator.store.journal import write_durably

    path = Path(output)
    if path.suffix not in ("", ".json"):
        raise ConfigError(f"-o/--output: {output}: a baseline is JSON. Use the suffix .json instead of {path.suffix}")
    folders.require_file(path, "-o/--output")
    if path.exists():
        raise ConfigError(f"-o/--output: {path} exists already. Choose another name")
    joined = baselines.joined([report_reader.read(run, runs_folder, history_db) for run in runs])
    made = baselines.reduced(joined, path.stem, gpu_bound=gpu_bound)
    write_durably(path, indented(made).encode() + b"\n")
    say(str(path))
    names = keys.names(cell.key for cell in joined.cells)
    for why, places in baselines.excluded(joined, gpu_bound=gpu_bound).items():
        cells = [f"{place.device.label} {names[place.cell.key]}" for place in places]
        more = f" and {len(cells) - MOST} more" if len(cells) > MOST else ""
        count = f"{plural(len(cells), 'cell')} of {len(joined.cells)}"
        complain(f"note: excluded, {count}: {', '.join(cells[:MOST])}{more}: {why}")
    kept = pairing.places(made).values()
    if blind := sum(cell_facts.not_watched(place.device.kind, place.cell.throttled) for place in kept):
        complain(
            f"note: throttling of {blind} of {len(made.cells)} cells was not monitored. A comparison with them never "
            "says SAME or FASTER"
        )
    if made.profile != RIGOROUS:
        complain(f"note: the baseline has profile {made.profile}. Use {RIGOROUS} for baselines to share")
