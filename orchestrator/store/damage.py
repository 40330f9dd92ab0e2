"""Advice about a damaged file of a run, appended to every message about one."""

from pathlib import Path

from orchestrator.config.report_formats import ReportFormat
from protocol.paths import RunPaths


def advice(file: Path) -> str:
    """How to go on without `file` in the folder of a run, and which results are still readable."""
    paths = RunPaths(file.parent)
    made = [str(path) for path in (paths.report(kind) for kind in ReportFormat) if path.is_file()]
    words = (
        f"Put a sound {file.name} of this run back: then `gpubench-orchestrate report {paths.folder}` makes its "
        f"report, and `gpubench-orchestrate resume {paths.folder}` goes on with it. Without one, begin a new run."
    )
    if made:
        words += f" The report that was made before is still there: {', '.join(made)}."
    elif paths.launches.is_dir():
        words += f" The raw results are still in {paths.launches}."
    return words
