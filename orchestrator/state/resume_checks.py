"""Whether a run may be taken up as its folder stands, before anything is written there.

    journal of another plan, or damaged            refused
    result whose start the journal holds no more   refused: going on would give its launch, and its file, to another
    start without an end                           what every kill leaves: measured again, in a folder of its own
    end without its result                         measured again (Category.RESULT_LOST)

The second is refused to all who read a run (orphan_results.py).
"""

from orchestrator.config.run_configuration import StoredRun
from orchestrator.state import archive
from orchestrator.store import journal
from orchestrator.store.orphan_results import require_known
from protocol.paths import RunPaths


def require_own_journal(stored: StoredRun, paths: RunPaths) -> None:
    """Make sure that the journal, as far as it was begun, is that of `stored`, and knows of every result in launches/.

    Raises RunFolderError.
    """
    results = tuple(paths.results())
    records = journal.read(paths.journal) if paths.journal.exists() else ()
    if records:
        archive.assemble(stored, paths, records)
    require_known(paths, results, records)
