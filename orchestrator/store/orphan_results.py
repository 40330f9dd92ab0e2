"""Whether a journal knows of every result in launches/: asked by all who read a run, before anything is told of it.

    results listed ─▶ journal read ─▶ a result whose start it does not hold: refused

A start is on the disk before its process is made, so that no kill leaves a result without one: only a journal that was
deleted, emptied or cut short does. Told from what is left of it, the run would be poorer than it is. Whoever asks lists
the results first: what a process at work adds in between then stands in the journal.
"""

from collections.abc import Iterable
from pathlib import Path

from orchestrator.errors import RunFolderError
from orchestrator.store import damage
from orchestrator.store.records import Record, Start
from protocol.paths import RunPaths


def require_known(paths: RunPaths, results: Iterable[Path], records: Iterable[Record]) -> None:
    """Make sure that the journal holds the start of each of `results`. Raises RunFolderError."""
    found = {path.parts[-3:-1]: path for path in results}
    known = {(one.cell, str(one.attempt)) for one in records if isinstance(one, Start)}
    if unknown := found.keys() - known:
        first = min(found[one] for one in unknown).parent
        raise RunFolderError(
            f"{paths.journal} is missing, empty or cut short: launches/ holds results that it knows nothing of "
            f"({len(unknown)} of {len(found)}, the first in {first}), which a report would leave out and "
            f"`resume` overwrite. {damage.advice(paths.journal)}"
        )
