"""Sums over all launches of one check on one GPU, and how their outputs were compared. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orchestrator.analysis.evidence import LaunchEvidence
from orchestrator.figures.burn_in import CheckReport
from orchestrator.kinds.burn_in import memory_test, verdict
from orchestrator.kinds.burn_in.findings import Tally
from orchestrator.kinds.burn_in.wrong_bits import Share
from protocol.cell import Cell, DeviceKind, Workload
from protocol.verification import Verification

_SHARE: Final = re.compile(r"[\d.]+ % of the time")


def tallies(
    good: Iterable[tuple[Cell, LaunchEvidence]], beside: Sequence[Share], kind: DeviceKind
) -> dict[Workload, Tally]:
    """Return check → sums over its launches on one device. good: (cell, evidence) of the launches with a result.

    beside: further mismatches, of launches without a valid result, that count against the device. kind: of the device.
    """
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
    found = [launch.result.verification for launch in group if launch.result.verification is not None]
    return Tally(
        launches=len(group),
        checks=sum(verification.checks for verification in found),
        operations=sum(verification.operations for verification in found),
        verified_bytes=sum(verification.verified_bytes for verification in found),
        measured_s=sum(launch.measured_s for launch in group),
        mismatches=sum(verification.mismatches for verification in found) + more,
        method=method(found),
        covered=memory_test.covered(found, kind),
    )


def check(workload: Workload, tally: Tally) -> CheckReport:
    """Return the sums of a check for the report. Bounds on the error rate are None after mismatches or no checks."""
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
        covered="" if tally.covered is None else tally.covered.text,
    )


def method(launches: Sequence[Verification]) -> str:
    """Return how launches of one check compared their outputs, as text for the report; "" without launches."""
    ways: dict[str, str] = {}
    for verification in launches:
        ways.setdefault(_way(verification), verification.method)
    described = "; ".join(ways.values())
    times = ", ".join(f"{name} {times}" for name, times in memory_test.marched(launches).items())
    return f"{described}, complete passes: {times}" if times else described


def not_tested(cells: Mapping[str, Sequence[Verification]]) -> dict[str, str]:
    """Return omitted check → reason, for each cell whose launches compared their outputs by different methods.

    The check is named "<cell> with one method throughout". cells: name of a cell → verifications of its launches.
    """
    found = {}
    for name, launches in cells.items():
        ways = Counter(map(_way, launches))
        if len(ways) > 1:
            (_, most), *others = ways.most_common()
            # A digest that fails its trial is replaced (worker/verify/digest.py), on a healthy GPU always or never.
            exceptions = ", ".join(f"{way} in {count}" for way, count in others)
            found[f"{name} with one method throughout"] = (
                f"{exceptions} of {most + sum(count for _, count in others)} launches. On a healthy GPU a method works "
                "always or never, so test the GPU again"
            )
    return found


def _way(verification: Verification) -> str:
    return _SHARE.sub("", verification.method)
