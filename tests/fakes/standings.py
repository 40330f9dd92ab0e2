"""Where runs of fakes stand: who holds them, and what `status` finds in their folders.

run = FakeRun(tmp_path / "run")
held_by(run)                                          # this process works on it
assert look(run).standing is Standing.RUNNING
"""

from pathlib import Path

import msgspec

from orchestrator import report
from orchestrator.configuration.report_formats import ReportFormat
from orchestrator.disk import lock, reporting, run_files, standing
from orchestrator.disk.status import Status
from protocol.failure import Category
from tests.fakes.runs import FakeRun

MYSELF = lock.myself()
"""This process, as a lock names it."""


def look(run: FakeRun) -> Status:
    """The status of a run that a test has written."""
    return standing.look(run_files.load(run.paths), run.paths)[0]


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
