"""Where the processes of a launch (measurement) on several devices find each other, and how many transfers they began.

<Link.folder>/meeting-<launch>   made by torch, removed with the orchestrator's socket (link.py), on a local disk
launches/<cell>/<n>/steps        transfers that each rank has begun, kept as evidence
"""

import struct
from pathlib import Path

from orchestrator.state.slots import NextLaunch
from protocol.messages import STEP, Gang
from protocol.paths import LaunchPaths


def place(folder: Path, paths: LaunchPaths, following: NextLaunch, rank: int) -> Gang:
    """Return where process `rank` of the launch `following` finds the others: paths of meeting file and counters.

    The call for rank 0 creates the file of counters, and raises OSError if it cannot. folder: Link.folder, in which
    torch will make the meeting file. paths: files of the launch, whose folder must exist; the same for all ranks.
    """
    if rank == 0:
        paths.steps.write_bytes(bytes(STEP.size * len(following.cell.devices)))
    steps = str(paths.steps.resolve())
    return Gang(rank=rank, meeting=str(folder / f"meeting-{following.launch}"), steps=steps)


def steps(gang: Gang) -> int | None:
    """Return how many transfers the process `gang.rank` has begun; None if the file `gang.steps` cannot be read."""
    try:
        data = Path(gang.steps).read_bytes()
        return int(STEP.unpack_from(data, STEP.size * gang.rank)[0])
    except (OSError, struct.error):
        return None
