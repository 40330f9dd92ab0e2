"""What all launches of a kind of check verified on one GPU, added up. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.figures.burn_in import CheckReport
from orchestrator.kinds.burn_in import memory_patterns, memory_share, verdict
from orchestrator.kinds.burn_in.findings import Tally
from orchestrator.kinds.burn_in.wrong_bits import Share
from protocol.cell import Cell, DeviceKind, Workload


def tallies(
    good: Iterable[tuple[Cell, LaunchEvidence]], beside: Sequence[Share], kind: DeviceKind
) -> dict[Workload, Tally]:
    """By kind of check. good: launches with a result. beside: what counts against the GPU in those without one."""
    groups: dict[Workload, list[LaunchEvidence]] = defaultdict(list)
    for cell, evidence in good:
        groups[cell.workload].append(evidence)
    more = Counter[Workload]()
    for share in beside:
        more[share.workload] += share.mismatches
    return {
        workload: _tally(groups.get(workload, ()), more[workload], kind) for workload in dict.fromkeys((*groups, *more))
    }


def _tally(group: Sequence[LaunchEvidence], more: int, kind: DeviceKind) -> Tally:
    """more: mismatches of launches that are no evidence for anything else."""
    found = [one.result.verification for one in group if one.result.verification is not None]
    return Tally(
        launches=len(group),
        checks=sum(one.checks for one in found),
        operations=sum(one.operations for one in found),
        verified_bytes=sum(one.verified_bytes for one in found),
        measured_s=sum(one.measured_s for one in group),
        mismatches=sum(one.mismatches for one in found) + more,
        method=memory_patterns.method(found),
        covered=memory_share.covered(found, kind),
    )


def check(workload: Workload, tally: Tally) -> CheckReport:
    """As the report has it; no bound where something was wrong."""
    return CheckReport(
        check=workload,
        launches=tally.launches,
        checks=tally.checks,
        verified_operations=tally.operations,
        verified_bytes=tally.verified_bytes,
        measured_seconds=tally.measured_s,
        mismatches=tally.mismatches,
        error_bound=None if tally.mismatches else verdict.bound(tally.checks),
        error_bound_per_hour=None if tally.mismatches else verdict.bound(tally.measured_s / 3600),
        method=tally.method,
        covered_share=None if tally.covered is None else tally.covered.share,
        covered="" if tally.covered is None else tally.covered.words,
    )
