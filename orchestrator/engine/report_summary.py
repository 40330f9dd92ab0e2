"""Outcome of a run, read from the report in its folder: for `status` and `watch`."""

import msgspec

from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.report import CellCounts
from orchestrator.figures.report_outline import ReportOutline
from orchestrator.state.archive import Archive
from orchestrator.system import safe_read


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the report of a run says, in short. verdict: in a word. why: reason for a non-zero exit code; else "".

    report: path of report.json. gpus: label of a device → its burn-in verdict; empty for other kinds of run.
    """

    verdict: str
    exit_code: int
    why: str = ""
    cells: CellCounts
    report: str
    gpus: dict[str, str] = {}


def outcome(run: Archive) -> Outcome | str:
    """Read verdict and counts from report.json in the run's folder.

    Return a text instead if that is missing, unreadable, or older than the last resume: "the report … is missing".
    """
    path = run.paths.report(ReportFormat.JSON)
    try:
        report = msgspec.json.decode(safe_read.read(path), type=ReportOutline)
    except FileNotFoundError:
        return f"the report {path} is missing"
    except OSError as error:
        return f"the report {path} cannot be read: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"the report {path} is damaged"
    if (report.metadata.run_id, len(report.metadata.segments)) != (run.stored.run_id, len(run.segments)):
        return f"the report {path} is outdated: it was made before a resume, or belongs to another run"
    labels = {device.uuid: device.label for device in run.stored.devices}
    return Outcome(
        verdict=report.verdict.word,
        exit_code=report.verdict.exit_code,
        why=report.verdict.why,
        cells=report.summary.cells,
        report=str(path),
        gpus={labels.get(uuid, uuid): verdict for uuid, verdict in report.gpu_verdicts.items()},
    )
