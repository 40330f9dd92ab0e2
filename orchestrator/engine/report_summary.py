"""Outcome of a run, as read from the report in its folder: for `status` and `watch`."""

import msgspec

from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.report import CellCounts, RunVerdict
from orchestrator.state.archive import Archive
from orchestrator.system import safe_read


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict of a report. report: its file. burn_in: verdict by device label."""

    verdict: str
    exit_code: int
    cells: CellCounts
    report: str
    burn_in: dict[str, str] = {}


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the run that a report is of, and its age by the number of segments."""

    run_id: str
    segments: tuple[msgspec.Raw, ...]


class _Summary(msgspec.Struct, frozen=True, kw_only=True):
    cells: CellCounts


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    gpu_uuid: str
    verdict: str


class _Night(msgspec.Struct, frozen=True, kw_only=True):
    gpus: tuple[_Judged, ...]


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _Made
    summary: _Summary
    verdict: RunVerdict
    burn_in: _Night | None = None


def outcome(run: Archive) -> Outcome | str:
    """Read the outcome from the report in the run's folder, or say why that is not possible."""
    path = run.paths.report(ReportFormat.JSON)
    try:
        told = msgspec.json.decode(safe_read.read(path), type=_Told)
    except FileNotFoundError:
        return f"the report {path} is missing"
    except OSError as error:
        return f"the report {path} cannot be read: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"the report {path} is damaged"
    if (told.metadata.run_id, len(told.metadata.segments)) != (run.stored.run_id, len(run.segments)):
        return f"the report {path} was made before the run was gone on with, or is of another run"
    labels = {device.uuid: device.label for device in run.stored.devices}
    judged = () if told.burn_in is None else told.burn_in.gpus
    return Outcome(
        verdict=told.verdict.word,
        exit_code=told.verdict.exit_code,
        cells=told.summary.cells,
        report=str(path),
        burn_in={labels.get(one.gpu_uuid, one.gpu_uuid): one.verdict for one in judged},
    )
