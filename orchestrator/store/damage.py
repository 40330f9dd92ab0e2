"""Advice about a damaged file of a run, appended to every message about such a file."""

from pathlib import Path

from orchestrator.config.report_formats import ReportFormat
from protocol.paths import RunPaths


def advice(file: Path) -> str:
    """Return advice, in sentences, about the damaged `file` in a run's folder: how to go on, and where results are."""
    paths = RunPaths(file.parent)
    made = [str(path) for path in (paths.report(kind) for kind in ReportFormat) if path.is_file()]
    words = (
        f"Restore an intact {file.name} of this run. Then run `gpubench-orchestrate report {paths.folder}` or "
        f"`gpubench-orchestrate resume {paths.folder}`. Without an intact file, start a new run."
    )
    if made:
        words += f" An earlier report is still there: {', '.join(made)}."
    elif paths.launches.is_dir():
        words += f" The raw results are still in {paths.launches}."
    return words
