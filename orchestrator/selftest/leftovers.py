"""What a run of this process has left behind, though it is over. Nothing should be."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from orchestrator.engine.launches.link import socket_folder
from orchestrator.system import process_end
from protocol.paths import RunPaths


def find(paths: RunPaths) -> Iterator[str]:
    """Processes of the run, its folder of sockets, and temporary files, in words."""
    own = psutil.Process()
    children = {child.pid for child in own.children(recursive=True)}
    for process in psutil.process_iter(("pid", "name")):
        if process.pid in children or (process.pid != own.pid and _uses(process.pid, paths.folder)):
            yield f"the process {process.pid} ({process.info['name']})"
    sockets = socket_folder(paths.folder.name)
    if sockets.exists():
        yield f"the socket folder {sockets}"
    yield from (f"the temporary file {path}" for path in sorted(paths.folder.rglob("*.tmp")))


def _uses(pid: int, folder: Path) -> bool:
    """Whether a process has a file of the folder open, as every process of a run has its log."""
    try:
        return process_end.holds(pid, folder)
    except OSError:
        return False  # it has ended, or is somebody else's
