"""From a run's folder to its report, and from the report to its files."""

from pathlib import Path

from orchestrator import archive, evidence, merge, report
from orchestrator.configuration import ReportFormat, StoredRun
from orchestrator.report.model import Report
from protocol.paths import RunPaths


def make(paths: RunPaths) -> Report:
    """What the run in that folder found out, as far as it has come. Raises RunFolderError."""
    loaded = archive.load(paths)
    return merge.merge(loaded, evidence.gather(loaded))


def write(stored: StoredRun, paths: RunPaths) -> Report:
    """Write the report into the run's folder in every format, and to where the user wants it in those asked for."""
    made = make(paths)
    report.write(made, paths, ReportFormat)
    report.publish(made, Path(stored.configuration.output_path), stored.configuration.formats)
    return made
