"""Inject faults into a real run on this machine, and check how the orchestrator handles each.

    faults (data) ─▶ campaign ─▶ a real run in a temporary folder ─▶ accounts ─▶ judge ─▶ Outcome ─▶ table, JSON

The report of the run says that faults were injected. The folder of the run, with the report, is removed, unless the
self-test found an error.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from orchestrator.engine import run
from orchestrator.engine.display_events import Display, Notice
from orchestrator.errors import ConfigError, StorageError
from orchestrator.gpu.inventory import Look
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.run_reports import reporting
from orchestrator.selftest import accounts, campaign, faults
from orchestrator.selftest.campaign import Injection
from orchestrator.selftest.judge import Account, judge
from orchestrator.state import archive
from orchestrator.store import folders, run_files
from orchestrator.system import temporary
from orchestrator.system.stop_signals import StopSignals
from protocol.cell import Device
from protocol.exit_codes import ExitCode

__all__ = ["Outcome", "Row", "inject"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of an injected fault. account: how it was handled. wrong: deviations from what is expected, as texts."""

    injection: Injection
    account: Account
    wrong: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a self-test. folder: of the run, None if removed. left_behind: leftovers of the run, in words.

    interrupted: whether a person stopped it. A row may then be wrong only because its fault was not handled yet.
    seconds: duration of the self-test.
    """

    rows: tuple[Row, ...]
    left_behind: tuple[str, ...]
    interrupted: bool
    seconds: float
    folder: Path | None

    @property
    def wrong(self) -> tuple[Row, ...]:
        """Rows of faults that were not handled as expected."""
        return tuple(row for row in self.rows if row.wrong)

    @property
    def exit_code(self) -> ExitCode:
        """INTERNAL if processes or files were left behind, or an uninterrupted run did not handle a fault as expected.

        Otherwise INCOMPLETE if a person interrupted the self-test, else PASSED.
        """
        if self.left_behind or (self.wrong and not self.interrupted):
            return ExitCode.INTERNAL
        return ExitCode.INCOMPLETE if self.interrupted else ExitCode.PASSED


def inject(
    devices: Sequence[Device],
    display: Display,
    command: tuple[str, ...],
    stop_signals: StopSignals,
    look: Look | None = None,
) -> Outcome:
    """Inject every fault into each device that it suits, on all devices at once. command: command line to record.

    look: returns what NVML showed when CUDA was tested, so that it is not tested again; None: read NVML and test CUDA
    now. Removes the run's folder unless the exit code of the outcome is INTERNAL. Raises UserError if the run cannot be
    made here, StorageError if files cannot be written.
    """
    began = time.monotonic()
    stop_signals.spare(1)  # from here on, a stop ends the run, and the table is printed
    with _temporary() as folder:
        moments_file = folder / "injected"
        with folders.new_run(folder, "TMPDIR", datetime.now()) as paths:
            stored, injections = campaign.prepare(faults.FAULTS, devices, paths.folder, moments_file, command)
            run_files.store(stored, paths)
        labels = ", ".join(device.label for device in devices)
        announcement = f"injecting {len(injections)} faults into {labels}: the following failures are intended"
        display.tell(Notice(level="info", message=announcement))
        watch = accounts.Watch(display, paths)
        report = run.execute(stored, paths, watch, look, stop_signals, kind=BENCHMARK, write_report=reporting.write)
        loaded, moments = archive.load(paths), accounts.moments(moments_file)
        outcome = Outcome(
            rows=tuple(
                _row(injection, accounts.read(loaded, report, injection, moments, watch.seen))
                for injection in injections
            ),
            left_behind=tuple(accounts.left_behind(paths)),
            interrupted=loaded.finished is not None and loaded.finished.interrupted and not loaded.finished.broken,
            seconds=time.monotonic() - began,
            folder=paths.folder,
        )
        if outcome.exit_code is ExitCode.INTERNAL:
            return outcome
        shutil.rmtree(folder)
        return msgspec.structs.replace(outcome, folder=None)


def _row(injection: Injection, account: Account) -> Row:
    return Row(injection=injection, account=account, wrong=tuple(judge(injection.fault.expected, account)))


@contextmanager
def _temporary() -> Iterator[Path]:
    """Make a temporary folder, removed only if the `with` block raises. Raises ConfigError if none can be made."""
    parent = temporary.require()
    try:
        folder = Path(tempfile.mkdtemp(prefix="gpubench-selftest-", dir=parent))
    except OSError as error:
        raise ConfigError(
            f"{parent}: no folder can be created there: {error.strerror}. {temporary.REMEDY}. Nothing was injected."
        ) from error
    try:
        yield folder
    except StorageError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StorageError(f"{error}. The self-test did not complete. {temporary.REMEDY}.") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
