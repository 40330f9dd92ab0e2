"""What a burn-in says of each GPU, as types: the verdict, every reason for it, and the evidence it stands on."""

from orchestrator.health.judges import Action
from orchestrator.health.verdict import Verdict
from orchestrator.report.parts import Part


class CheckReport(Part, frozen=True, kw_only=True):
    """What one kind of check did on one GPU.

    verified_operations: floating-point operations whose results were compared. verified_bytes: of memory.
    error_bound: the share of wrong checks that is excluded with 95 % confidence, 3/n; null where something was found.
    method: how outputs were compared.
    """

    check: str
    launches: int
    checks: int
    verified_operations: float
    verified_bytes: int
    measured_seconds: float
    mismatches: int
    error_bound: float | None
    method: str


class ReasonReport(Part, frozen=True, kw_only=True):
    """One thing that speaks for the verdict, and what to do about it (empty: nothing)."""

    verdict: Verdict
    text: str
    action: Action


class GpuBurnIn(Part, frozen=True, kw_only=True):
    """One GPU. asked_seconds, served_seconds: what was asked for, and how long the run lasted.

    under_load_seconds: in measured blocks. compared_launches: whose bits were held against another launch's.
    not_tested: what could not be tested → why.
    """

    gpu_uuid: str
    gpu_id: int
    verdict: Verdict
    action: Action
    reasons: tuple[ReasonReport, ...]
    asked_seconds: float
    served_seconds: float
    under_load_seconds: float
    rounds: int
    checks: tuple[CheckReport, ...]
    compared_launches: int
    temperature_max_c: float | None
    average_power_draw_w: float | None
    not_tested: dict[str, str]


class BurnInReport(Part, frozen=True, kw_only=True):
    """The night. verdict: that of the worst GPU."""

    level: str
    duration_seconds: float
    tainted: bool
    verdict: Verdict
    gpus: tuple[GpuBurnIn, ...]
