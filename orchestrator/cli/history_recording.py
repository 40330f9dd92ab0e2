"""Record a run in the history and read earlier findings, each in at most 20 s and without failing the run."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from orchestrator.cli.decorators import HistoryParams
from orchestrator.cli.streams import complain
from orchestrator.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.config.run_configuration import Configuration, StoredRun
    from orchestrator.figures.report import Report
    from protocol.cell import Device
    from protocol.paths import RunPaths

T = TypeVar("T")

PATIENCE_S: Final = 20.0  # twice store.BUSY_S, which SQLite waits for another process


def record(report: "Report", stored: "StoredRun", paths: "RunPaths", given: HistoryParams | None = None) -> None:
    """Record a run's report in the history, replacing an earlier one. A failure only prints a note.

    given: options of this command, which override those stored with the run. Nothing is recorded if the options turn
    the history off, or if the folder is a copy and the run's own folder still exists.
    """
    from orchestrator.store import report_places

    file = stored.configuration.history_db
    wanted = stored.configuration.history
    if given is not None:
        file = given["history_db"] or file
        wanted = given["history"] if given["history"] is not None else wanted or given["history_db"] is not None
    if not wanted:
        return
    if report_places.is_copy(stored, paths):
        complain(
            f"note: this folder is a copy of {report_places.home(stored)}: the history keeps what the original recorded"
        )
        return
    notes: list[str] = []

    def write() -> None:
        from orchestrator.history import entry, location, store, updates

        made = entry.of_report(report, paths.folder, tainted=stored.configuration.tainted)
        with store.writing(location.find(file, os.environ), notes) as connection:
            updates.record(connection, made)

    try:
        _in_time(write)
    except (HistoryError, ImportError) as error:  # a Python without SQLite, or with one that cannot be loaded
        remedy = f"Fix this, then `gpubench-orchestrate report {paths.folder}` records it"
        notes.append(f"the run was not recorded: {str(error).removesuffix('.')}. {remedy}")
    for note in tuple(notes):
        complain(f"note: {note}")


def refused(configuration: "Configuration") -> tuple[str, ...]:
    """Return (sentence,) if the history file cannot record the run, else ().

    The file cannot if it is unreadable or of a newer version. Also () if the history is off. If the file has no folder
    or does not answer, the result is () and `earlier` reports it.
    """
    if not configuration.history:
        return ()

    def look() -> str:
        from orchestrator.history import location, store

        return store.refusal(location.find(configuration.history_db, os.environ))

    try:
        why = _in_time(look)
    except (HistoryError, ImportError):
        return ()  # `earlier` reports it
    what = "the run will not be recorded, and earlier findings against these devices are unknown"
    return (f"{what}: {why.removesuffix('.')}",) if why else ()


def earlier(configuration: "Configuration", devices: "Sequence[Device]") -> "tuple[dict[str, str], tuple[str, ...]]":
    """Return (device UUID → FAIL and WARN of earlier runs, as text; why these findings are unknown).

    The second element is (sentence,), or () if the history was read or is off.
    """
    if not configuration.history:
        return {}, ()

    def read() -> dict[str, str]:
        from orchestrator.history import location, queries, store, wording

        with store.reading(location.find(configuration.history_db, os.environ)) as connection:
            if connection is None:
                return {}
            return wording.earlier_findings(devices, queries.offences(connection, [device.uuid for device in devices]))

    try:
        return _in_time(read), ()
    except (HistoryError, ImportError) as error:
        return {}, (f"earlier findings against these devices are unknown: {error}",)


def _in_time(work: Callable[[], T]) -> T:
    """Return the result of `work`. Raises HistoryError after PATIENCE_S seconds; `work` then goes on in its thread."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  # it is raised again, where it is waited for
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="history", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if not outcome.done():
        raise HistoryError(f"the history did not answer within {PATIENCE_S:g} s")
    return outcome.result()
