"""Where a run's reports are: in its folder, and at the path of -o.

A run whose folder was moved still owns the report at -o. A copy of the folder does not.
"""

import filecmp
from collections.abc import Collection
from pathlib import Path

from orchestrator.config.report_formats import ALWAYS, target
from orchestrator.config.run_configuration import StoredRun
from protocol.paths import RunPaths


def published(stored: StoredRun, paths: RunPaths) -> tuple[Path, ...]:
    """Return the path at -o (or its default) for each requested format, even if missing. Empty for a copy of a run."""
    if is_copy(stored, paths):
        return ()
    output = Path(stored.configuration.output_path)
    return tuple(target(output, kind) for kind in stored.configuration.formats)


def unwritten(stored: StoredRun, paths: RunPaths) -> tuple[Path, ...]:
    """Return the paths of the run's reports that do not exist: first those in its folder, then those at -o."""
    own = (paths.report(kind) for kind in dict.fromkeys((*ALWAYS, *stored.configuration.formats)))
    return tuple(path for path in (*own, *published(stored, paths)) if _is_missing(path))


def shown(stored: StoredRun, paths: RunPaths, fresh: Collection[Path] = ()) -> tuple[Path, ...]:
    """Return the path of the report to show to the user in each requested format, in the order of the configuration.

    The path is that at -o if the file there has the same bytes as the report in the run's folder. Else it is that in
    the run's folder, where the file may be missing. fresh: files at -o that were just written, and so are shown without
    comparison.
    """
    own = [paths.report(kind) for kind in stored.configuration.formats]
    both = zip(published(stored, paths) or own, own, strict=True)
    return tuple(place if place in fresh or _alike(place, mine) else mine for place, mine in both)


def home(stored: StoredRun) -> Path:
    """Return the path at which the folder of the run was made. It may have been moved since."""
    return Path(stored.configuration.runs_folder) / stored.run_id


def is_copy(stored: StoredRun, paths: RunPaths) -> bool:
    """Whether the folder at `paths` is a copy: the folder in which the run was made is another one and still exists.

    False if the original folder cannot be read.
    """
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
    try:
        return not path.exists()
    except OSError:
        return False
