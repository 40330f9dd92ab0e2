"""Where the processes of a launch on several devices find each other, and what they leave there for us.

    <private folder of the link>/meeting-<launch>   made by torch, gone with the link; never on another machine's disk
    launches/<cell>/<n>/steps                       what each has begun together with the others, kept as evidence

Both are given to a process with its work.
"""

import struct
from pathlib import Path

from orchestrator.state.slots import NextLaunch
from protocol.messages import STEP, Gang
from protocol.paths import LaunchPaths


def place(folder: Path, paths: LaunchPaths, following: NextLaunch, rank: int) -> Gang:
    """For one rank of a launch whose folder is there. Raises OSError where nothing can be written."""
    if rank == 0:
        paths.steps.write_bytes(bytes(STEP.size * len(following.cell.devices)))
    steps = str(paths.steps.resolve())
    return Gang(rank=rank, meeting=str(folder / f"meeting-{following.launch}"), steps=steps)


def steps(gang: Gang) -> int | None:
    """What a rank has begun; None where nothing can be read."""
    try:
        data = Path(gang.steps).read_bytes()
        return int(STEP.unpack_from(data, STEP.size * gang.rank)[0])
    except (OSError, struct.error):
        return None
