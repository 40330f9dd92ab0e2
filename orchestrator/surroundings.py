"""What a run works with: opened by run.py, used by the loop and the conductor."""

from dataclasses import dataclass

from orchestrator.configuration.resolved import StoredRun
from orchestrator.deciding.budget import Budget
from orchestrator.disk.journal import Journal
from orchestrator.processes.link import Link
from orchestrator.processes.nursery import Nursery
from orchestrator.processes.signals import StopSignals
from orchestrator.sampling.telemetry import Telemetry
from orchestrator.view import Display
from protocol.messages import GpuBroken
from protocol.paths import RunPaths


@dataclass(frozen=True)
class Surroundings:
    """Closed again by run.py. budget: None without a limit. gone: GPUs lost beforehand."""

    stored: StoredRun
    paths: RunPaths
    journal: Journal
    link: Link
    nursery: Nursery
    telemetry: Telemetry | None
    stop_signals: StopSignals
    display: Display
    budget: Budget | None = None
    gone: tuple[GpuBroken, ...] = ()
