"""Choose the run that `resume` continues if none is named.

    the newest run is not over            the newest run; the command refuses it if another process works on it
    the newest is over, an older is not   the newest unfinished run that this user can resume, with a note
    all are over                          the newest run, whose report is shown again

If the newest run is a burn-in with remaining time, it is not over. Older burn-ins that ended are over all the same.
"""

from pathlib import Path

from orchestrator.engine import run
from orchestrator.errors import UserError
from orchestrator.kinds import registry
from orchestrator.run_reports import run_lookup
from orchestrator.state import archive
from orchestrator.store import folders, journal, run_files
from protocol.paths import RunPaths


def choose(name: str | None, runs: str, history_db: str | None = None) -> tuple[RunPaths, str]:
    """Return (run, note): the run `name` (folder, id or @last), or, if None, the run to resume in the folder `runs`.

    note: a sentence for the user if an older run was chosen than the newest, else "". history_db: history file for ids
    that `runs` lacks; None for the user's own. Raises UserError if no run matches, or several.
    """
    newest = run_lookup.find(name, runs, history_db)
    if name is not None or not _is_over(newest) or _lacks_time(newest):
        return newest, ""
    for folder in reversed(folders.in_order(Path(runs))):
        paths = RunPaths(folder)
        if not _is_over(paths) and _can_be_resumed(paths):
            return paths, f"{newest.folder} is over, so {folder} is resumed"
    return newest, ""


def _is_over(paths: RunPaths) -> bool:
    try:
        records = journal.read(paths.journal) if paths.journal.exists() else ()
    except (UserError, OSError):
        return False  # resuming it says why
    return run.came_to_its_end(records)


def _lacks_time(paths: RunPaths) -> bool:
    try:
        stored = run_files.load(paths)
        remaining = run.remaining(stored, paths, registry.of(stored.configuration))
    except (UserError, OSError):
        return False
    return remaining is not None and remaining.short


def _can_be_resumed(paths: RunPaths) -> bool:
    try:
        folders.require_ours(paths)
        archive.require_own_journal(run_files.load(paths), paths)
    except (UserError, OSError):
        return False
    return True
