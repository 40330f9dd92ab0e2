"""What a verdict of a burn-in is made of: a burn-in that was clean, and the same with something else."""

import dataclasses
from typing import Any

from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.findings import Ahead, Planned, Tally, Work
from orchestrator.kinds.burn_in.levels import CHECKS
from orchestrator.kinds.burn_in.memory_test import Covered
from protocol.cell import Workload

ENOUGH = Covered(0.85, "85.0 % of the memory", "")
DONE = Tally(launches=4, checks=100, operations=1e12, verified_bytes=0, measured_s=100.0, covered=ENOUGH)
CLEAN = Work(
    requested_s=600,
    served_s=600,
    cell_s=20,
    ahead=Ahead(left_s=400, launch_s=25, least="20m"),
    tallies=dict.fromkeys(CHECKS, DONE),
    planned=tuple(Planned(check, f"{check} of gemm in bf16", 100) for check in CHECKS),
    health=HealthVerdict.PASS,
)


def covering(covered: Covered | None, checks: int = 100) -> dict[str, object]:
    """The clean burn-in, with a test of memory that has covered this."""
    return {"tallies": CLEAN.tallies | {Workload.MEMORY: dataclasses.replace(DONE, covered=covered, checks=checks)}}


def changed(**facts: Any) -> Work:
    """The clean burn-in with something else. facts: fields of Work."""
    return dataclasses.replace(CLEAN, **facts)
