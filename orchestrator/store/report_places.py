"""Where a run was begun, and where its report goes beside its own folder.

    the folder that it was begun in     to -o, as it was asked for
    the same, moved                     to -o too; that place may look strange by now, so it is said
    a copy, the original being there    nowhere else: what lies at -o is the original's

Pure, but for the looks at what is there.
"""

import filecmp
from pathlib import Path

from orchestrator.config.report_formats import ALWAYS, target
from orchestrator.config.run_configuration import StoredRun
from orchestrator.system import safe_read
from protocol.paths import RunPaths


def published(stored: StoredRun, paths: RunPaths) -> tuple[Path, ...]:
    """The files that the user wants the report in, a file for each format; none for a copy of a run."""
    if is_copy(stored, paths):
        return ()
    output = Path(stored.configuration.output_path)
    return tuple(target(output, kind) for kind in stored.configuration.formats)


def unwritten(stored: StoredRun, paths: RunPaths) -> tuple[Path, ...]:
    """Files of its report that a run which is over should have, in its folder and at -o, and that are not there."""
    own = (paths.report(kind) for kind in dict.fromkeys((*ALWAYS, *stored.configuration.formats)))
    return tuple(path for path in (*own, *published(stored, paths)) if _is_missing(path))


def shown(stored: StoredRun, paths: RunPaths) -> tuple[Path, ...]:
    """Where its report is, a file for each format: where the user wanted it, unless another run wrote there since."""
    wanted = published(stored, paths)
    own = [paths.report(kind) for kind in stored.configuration.formats[: len(wanted)]]  # of a copy none is wanted
    both = zip(wanted, own, strict=True)
    return tuple(place if _alike(place, mine) else mine for place, mine in both if safe_read.is_there(mine))


def home(stored: StoredRun) -> Path:
    """The folder that the run was begun in."""
    return Path(stored.configuration.runs_folder) / stored.run_id


def is_copy(stored: StoredRun, paths: RunPaths) -> bool:
    """Whether the folder in which the run was begun is there, and is another one."""
    original = RunPaths(home(stored)).config
    try:
        return original.exists() and not original.samefile(paths.config)
    except OSError:  # in a folder that is closed to us: whether it is a copy cannot be known
        return False


def _alike(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _is_missing(path: Path) -> bool:
    """In a folder that is closed to us, that cannot be known."""
    try:
        return not path.exists()
    except OSError:
        return False
