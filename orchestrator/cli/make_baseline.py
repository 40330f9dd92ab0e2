"""`make-baseline`: reduce reports to what other runs are compared with."""

from pathlib import Path
from typing import Final

import click

from orchestrator.cli.program import Command
from orchestrator.cli.shared_options import HISTORY_DB, RUNS_FOLDER, a_file
from orchestrator.cli.streams import complain, say
from orchestrator.errors import ConfigError

EXAMPLES: Final = """\b
Examples:
  {command} runs/20260401-213000-1f2e3d -o h200.json
  {command} runs/resnet50 runs/bert-base -o h200.json
  {program} run --compare-baseline h200.json
"""
RIGOROUS: Final = "rigorous"


@click.command("make-baseline", cls=Command, short_help="Make a baseline of one or more reports.", epilog=EXAMPLES)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(),
    callback=a_file,
    help="The baseline's file; one that is there already is never replaced.",
)
@RUNS_FOLDER
@HISTORY_DB
def command(*, runs: tuple[str, ...], output: str, runs_folder: str, history_db: str | None) -> None:
    """Make a baseline of RUN, a report.json, the folder of a run, or its id: sound cells, with each launch's figure.

    Cells that were measured at a smaller batch, throttled or contaminated are left out. Several runs are joined, where
    nothing of their stack differs and each cell of a device is in one of them.
    """
    import msgspec

    from orchestrator.compare import baselines, reading
    from orchestrator.disk import folders
    from orchestrator.disk.journal import write_durably
    from protocol.cell import DeviceKind

    path = Path(output)
    folders.require_file(path, "-o/--output")
    if path.exists():
        raise ConfigError(f"-o/--output: {path} is there already; choose another name")
    found = baselines.joined([reading.read(run, runs_folder, history_db) for run in runs])
    made = baselines.reduced(found, path.stem)
    write_durably(path, msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
    say(str(path))
    if left_out := len(found.cells) - len(made.cells):
        complain(f"note: {left_out} of {len(found.cells)} cells are left out: they have no sound figures")
    gpus = {device.gpu_uuid for device in made.devices if device.kind == DeviceKind.CUDA}
    if blind := sum(cell.throttled is None and cell.gpu_uuid in gpus for cell in made.cells):
        complain(
            f"note: nobody watched whether {blind} of {len(made.cells)} cells were throttled: no comparison with them "
            "will say SAME or FASTER"
        )
    if made.profile != RIGOROUS:
        complain(f"note: it was measured with the profile {made.profile}; baselines to share are made with {RIGOROUS}")
