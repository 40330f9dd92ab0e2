"""The decisions of a kind of run, as one value. The defaults are those of a benchmark.

    kinds/registry.py ── of(configuration) ──▶ Kind ┬─▶ cli: plan
                                                    ├─▶ engine: launch_terms, telemetry_terms, next_rounds, remaining
                                                    ├─▶ analysis: report
                                                    └─▶ report: layout

Rooms below the kinds get a kind, or the part of it that they need, and never ask which one it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.config.run_configuration import Configuration, Plan, Slot
from orchestrator.gpu.telemetry.overheating import TemperatureStop
from orchestrator.plan import planner
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout
from orchestrator.state.archive import Archive
from orchestrator.state.slots import RunState
from protocol.cell import Cell, Device
from protocol.messages import Deadlines, LoadSteps, Measurement
from protocol.verification import Injection


@dataclass(frozen=True)
class LaunchTerms:
    """How one launch measures on its device, with its deadlines. injection, steps: as in Assign."""

    measurement: Measurement
    deadlines: Deadlines
    injection: Injection | None = None
    steps: LoadSteps | None = None


@dataclass(frozen=True)
class TelemetryTerms:
    """Terms of the sampler. stop: when a GPU is too hot, None for never. hot: simulated degrees Celsius, by GPU."""

    stop: TemperatureStop | None = None
    hot: Mapping[str, int] = field(default_factory=dict)


class Remaining(NamedTuple):
    """Served and remaining time of a run, of the device that has served least, in seconds.

    left_s: for launches of a resumed run. short: too little was served, and a launch fits into what remains.
    """

    served_s: float
    left_s: float
    short: bool


def configured_terms(configuration: Configuration, device: Device, slot: Slot, cell: Cell) -> LaunchTerms:
    """Measure as the configuration says, the same in every launch."""
    return LaunchTerms(configuration.measurement, configuration.deadlines)


@dataclass(frozen=True)
class Kind:
    """A kind of run. Its functions are pure.

    launch_terms: of one launch (cell and round) on one of its devices. worker_environment: variables of processes that
    import torch, where the user has not set them. next_rounds: state, seed, and whether there is time for a cell →
    launches to add once devices are idle; None: only the plan. remaining: None: the run ends with its plan. report:
    what it adds to the report.
    """

    name: str
    plan: Callable[[Configuration, Sequence[Device]], Plan] = planner.make
    launch_terms: Callable[[Configuration, Device, Slot, Cell], LaunchTerms] = configured_terms
    worker_environment: Mapping[str, str] = field(default_factory=dict)
    telemetry_terms: Callable[[Configuration], TelemetryTerms] = lambda _: TelemetryTerms()
    next_rounds: Callable[[RunState, int, Callable[[Cell], bool]], tuple[Slot, ...]] | None = None
    remaining: Callable[[Archive, Evidence], Remaining] | None = None
    report: ReportTerms = field(default_factory=ReportTerms)
    layout: Layout = DEFAULT
