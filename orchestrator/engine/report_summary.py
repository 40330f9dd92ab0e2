"""Outcome of a run, read from the report in its folder: for `status` and `watch`."""

import msgspec

from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.exit_code import RunVerdict
from orchestrator.figures.report import CellCounts
from orchestrator.state.archive import Archive
from orchestrator.system import safe_read


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict of a report. why: reason for a non-zero exit code. report: its path. burn_in: verdict by device label."""

    verdict: str
    exit_code: int
    why: str = ""
    cells: CellCounts
    report: str
    burn_in: dict[str, str] = {}


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Run id and number of sessions of a report, which tell whether it is outdated."""

    run_id: str
    segments: tuple[msgspec.Raw, ...]


class _Summary(msgspec.Struct, frozen=True, kw_only=True):
    cells: CellCounts


class _GpuVerdict(msgspec.Struct, frozen=True, kw_only=True):
    gpu_uuid: str
    verdict: str


class _BurnIn(msgspec.Struct, frozen=True, kw_only=True):
    gpus: tuple[_GpuVerdict, ...]


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _Metadata
    summary: _Summary
    verdict: RunVerdict
    burn_in: _BurnIn | None = None


def outcome(run: Archive) -> Outcome | str:
    """Read the outcome from the report in the run's folder, or say why that is not possible."""
    path = run.paths.report(ReportFormat.JSON)
    try:
        report = msgspec.json.decode(safe_read.read(path), type=_Report)
    except FileNotFoundError:
        return f"the report {path} is missing"
    except OSError as error:
        return f"the report {path} cannot be read: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"the report {path} is damaged"
    if (report.metadata.run_id, len(report.metadata.segments)) != (run.stored.run_id, len(run.segments)):
        return f"the report {path} is outdated: it was made before a resume, or belongs to another run"
    labels = {device.uuid: device.label for device in run.stored.devices}
    judged = () if report.burn_in is None else report.burn_in.gpus
    return Outcome(
        verdict=report.verdict.word,
        exit_code=report.verdict.exit_code,
        why=report.verdict.why,
        cells=report.summary.cells,
        report=str(path),
        burn_in={labels.get(gpu.gpu_uuid, gpu.gpu_uuid): gpu.verdict for gpu in judged},
    )
