"""Sums over all launches of one check on one GPU, and how their outputs were compared. Pure.

A digest that fails its trial in a process is replaced (worker/verify/digest.py). On one device with the same libraries
it fails always or never; a single failure is a sign of a fault.
"""

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
    """Return the tally of each check. beside: mismatches of launches without a valid result."""
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
    found = [one.result.verification for one in group if one.result.verification is not None]
    return Tally(
        launches=len(group),
        checks=sum(one.checks for one in found),
        operations=sum(one.operations for one in found),
        verified_bytes=sum(one.verified_bytes for one in found),
        measured_s=sum(one.measured_s for one in group),
        mismatches=sum(one.mismatches for one in found) + more,
        method=method(found),
        covered=memory_test.covered(found, kind),
    )


def check(workload: Workload, tally: Tally) -> CheckReport:
    """Return a tally for the report. With mismatches there is no bound."""
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


def method(launches: Sequence[Verification]) -> str:
    """Describe how the outputs of one check were compared; for a memory test also how often per pattern."""
    ways: dict[str, str] = {}
    for one in launches:
        ways.setdefault(_way(one), one.method)
    told = "; ".join(ways.values())
    times = ", ".join(f"{name} {times}" for name, times in memory_test.marched(launches).items())
    return f"{told}, times from end to end: {times}" if times else told


def not_tested(cells: Mapping[str, Sequence[Verification]]) -> dict[str, str]:
    """Report cells whose launches compared in several ways. cells: launches by name of the cell."""
    found = {}
    for name, launches in cells.items():
        ways = Counter(map(_way, launches))
        if len(ways) > 1:
            (_, most), *others = ways.most_common()
            told = ", ".join(f"{way} in {count}" for way, count in others)
            found[f"{name} in one way all night"] = (
                f"{told} of {most + sum(count for _, count in others)} launches; the same way is right always or never "
                "on a sound GPU, so test it again"
            )
    return found


def _way(one: Verification) -> str:
    return _SHARE.sub("", one.method).rstrip(", ")
