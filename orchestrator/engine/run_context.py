"""The resources of a run: opened by run.py, used by the loop and the conductor."""

from dataclasses import dataclass

from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine.display_events import Display
from orchestrator.engine.kind import Kind
from orchestrator.engine.launches.link import Link
from orchestrator.engine.launches.zygote_client import ZygoteClient
from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.state.time_budget import Budget
from orchestrator.store.journal import Journal
from orchestrator.system.stop_signals import StopSignals
from protocol.messages import GpuBroken
from protocol.paths import RunPaths


@dataclass(frozen=True)
class RunContext:
    """Resources of a run, closed by run.py. link: socket to the workers. nursery: client of the zygote.

    telemetry: None without GPUs, or if it is switched off. budget: the time limit, None without one. gone: GPUs that
    were lost before the start.
    """

    stored: StoredRun
    kind: Kind
    paths: RunPaths
    journal: Journal
    link: Link
    nursery: ZygoteClient
    telemetry: Telemetry | None
    stop_signals: StopSignals
    display: Display
    budget: Budget | None = None
    gone: tuple[GpuBroken, ...] = ()
