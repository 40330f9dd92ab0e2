"""Records a run in the history, and asks the history about the GPUs of a run: at its edges, and never in its way.

Whatever is wrong with the history is a note on standard error. It changes neither the run nor how it ends.
"""

import os
from typing import TYPE_CHECKING

from orchestrator.cli.options import HistoryParams
from orchestrator.cli.streams import complain
from orchestrator.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.configuration.resolved import Configuration, StoredRun
    from orchestrator.report.model import Report
    from protocol.cell import Device
    from protocol.paths import RunPaths


def record(report: "Report", stored: "StoredRun", paths: "RunPaths", given: HistoryParams | None = None) -> None:
    """Write what the report says into the history, in place of what an earlier report of the run had said.

    given: options of a later command, in place of what was said when the run was begun.
    """
    file = stored.configuration.history_db
    wanted = stored.configuration.history
    if given is not None:
        file = given["history_db"] or file
        wanted = given["history"] if given["history"] is not None else wanted or given["history_db"] is not None
    if not wanted:
        return
    notes: list[str] = []
    try:
        from orchestrator.history import entry, place, store, writing

        made = entry.of_report(report, paths.folder, tainted=stored.configuration.tainted)
        with store.writing(place.find(file, os.environ), notes) as connection:
            writing.record(connection, made)
    except (HistoryError, ModuleNotFoundError) as error:  # a Python that was built without SQLite has no sqlite3
        notes.append(f"the run was not recorded: {error}")
    for note in notes:
        complain(f"note: {note}")


def earlier(configuration: "Configuration", devices: "Sequence[Device]") -> "tuple[dict[str, str], tuple[str, ...]]":
    """What earlier runs have said against these devices, by UUID; and why that is not known, for people."""
    if not configuration.history:
        return {}, ()
    try:
        from orchestrator.history import earlier as history
        from orchestrator.history import place, reading, store

        with store.reading(place.find(configuration.history_db, os.environ)) as connection:
            if connection is None:
                return {}, ()
            return history.remarks(devices, reading.offences(connection, [device.uuid for device in devices])), ()
    except (HistoryError, ModuleNotFoundError) as error:
        return {}, (f"what earlier runs said of these devices is not known: {error}",)
