"""`make-baseline`: reduce a report to what other runs are compared with."""

from pathlib import Path
from typing import Final

import click

from orchestrator.cli.program import Command
from orchestrator.cli.shared_options import a_file
from orchestrator.cli.streams import complain, say
from orchestrator.errors import ConfigError

EXAMPLES: Final = """\b
Examples:
  {command} runs/20260401-213000-1f2e3d -o h200.json
  {program} run --compare-baseline h200.json
"""
RIGOROUS: Final = "rigorous"


@click.command("make-baseline", cls=Command, short_help="Make a baseline of a report.", epilog=EXAMPLES)
@click.argument("run", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(),
    callback=a_file,
    help="The baseline's file; one that is there already is never replaced.",
)
def command(*, run: str, output: str) -> None:
    """Make a baseline of RUN, a report.json or the folder of a run: its sound cells, with the figure of each launch.

    Cells that were measured at a smaller batch, throttled or contaminated are left out.
    """
    import msgspec

    from orchestrator.compare import baselines, reading
    from orchestrator.disk import folders
    from orchestrator.disk.journal import write_durably

    path = Path(output)
    folders.require_file(path, "-o/--output")
    if path.exists():
        raise ConfigError(f"-o/--output: {path} is there already; choose another name")
    found = reading.read(run, "runs")
    made = baselines.reduced(found, path.stem)
    write_durably(path, msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
    say(str(path))
    if left_out := len(found.cells) - len(made.cells):
        complain(f"note: {left_out} of {len(found.cells)} cells are left out: they have no sound figures")
    if made.profile != RIGOROUS:
        complain(f"note: it was measured with the profile {made.profile}; baselines to share are made with {RIGOROUS}")
