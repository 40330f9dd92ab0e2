"""Whether a run may be taken up as its folder stands, before anything is written there.

    journal of another plan, or damaged            refused
    result whose start the journal holds no more   refused: going on would give its launch, and its file, to another
    start without an end                           what every kill leaves: measured again, in a folder of its own
    end without its result                         measured again (Category.RESULT_LOST)

A start is on the disk before its process is made, so that no kill leaves a result without one: only a journal that was
deleted, emptied or cut short does.
"""

from orchestrator.configuration.resolved import StoredRun
from orchestrator.disk import archive, journal
from orchestrator.disk.records import Start
from orchestrator.errors import RunFolderError
from protocol.paths import RunPaths


def require_own_journal(stored: StoredRun, paths: RunPaths) -> None:
    """Make sure that the journal, as far as it was begun, is that of `stored`, and knows of every result in launches/.

    Raises RunFolderError.
    """
    results = sorted(paths.results())  # listed first: a process that is at work on the run writes the start before
    records = journal.read(paths.journal) if paths.journal.exists() else ()
    if records:
        archive.assemble(stored, paths, records)
    known = {paths.launch(one.cell, one.attempt).result for one in records if isinstance(one, Start)}
    if unknown := [result for result in results if result not in known]:
        raise RunFolderError(
            f"{paths.journal} is missing, empty or cut short: launches/ holds results that it knows nothing of "
            f"({len(unknown)} of {len(results)}, the first in {unknown[0].parent}), which going on would overwrite. "
            "Put the journal back, or begin a new run."
        )
