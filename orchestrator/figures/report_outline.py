"""Fields of a JSON report that `status` and `watch` read. The rest is not decoded: a large report would be slow."""

import msgspec

from orchestrator.figures.exit_code import RunVerdict
from orchestrator.figures.report import CellCounts


class MetadataOutline(msgspec.Struct, frozen=True, kw_only=True):
    """Id and sessions of the run. They show whether the report is older than the run."""

    run_id: str
    segments: tuple[msgspec.Raw, ...]


class SummaryOutline(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of cells by status."""

    cells: CellCounts


class GpuOutline(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict of a burn-in on a device."""

    gpu_uuid: str
    verdict: str


class BurnInOutline(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of a burn-in, one for each device."""

    gpus: tuple[GpuOutline, ...]


class ReportOutline(msgspec.Struct, frozen=True, kw_only=True):
    """The outline of a report. burn_in: null for other kinds of run."""

    metadata: MetadataOutline
    summary: SummaryOutline
    verdict: RunVerdict
    burn_in: BurnInOutline | None = None

    @property
    def gpu_verdicts(self) -> dict[str, str]:
        """Burn-in verdict of each device by UUID; empty for other kinds of run."""
        return {} if self.burn_in is None else {gpu.gpu_uuid: gpu.verdict for gpu in self.burn_in.gpus}
