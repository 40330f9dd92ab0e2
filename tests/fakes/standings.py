"""Where runs of fakes stand: who holds them, and what `status` finds in their folders."""

from pathlib import Path

import msgspec

from orchestrator import report
from orchestrator.config.report_formats import ReportFormat
from orchestrator.engine import run_status
from orchestrator.engine.status_types import Status
from orchestrator.run_reports import reporting
from orchestrator.store import lock, run_files
from protocol.failure import Category
from tests.fakes.runs import FakeRun

MYSELF = lock.myself()
"""This process, as a lock names it."""


def look(run: FakeRun) -> Status:
    return run_status.look(run_files.load(run.paths), run.paths)[0]


def held_by(run: FakeRun, **changes: object) -> None:
    """Write another process into the run's lock."""
    run.paths.lock.write_bytes(msgspec.json.encode(msgspec.structs.replace(MYSELF, **changes)))


def reported(folder: Path) -> FakeRun:
    """A run that is over, with its report in its folder."""
    run = FakeRun(folder, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.EXCEPTION)
    run.finish()
    made = reporting.make_all(run.paths)
    report.write(made.report, run.paths, ReportFormat, samples=made.samples)
    return run
