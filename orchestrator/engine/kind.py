"""The decisions of a kind of run, as one value. The defaults are those of a benchmark.

    kinds/registry.py ── of(configuration) ──▶ Kind ┬─▶ cli: plan
                                                    ├─▶ engine: launch_terms, telemetry_terms, next_rounds, look, …
                                                    ├─▶ analysis: report
                                                    └─▶ report: layout

Code outside kinds/ should not ask which kind a run has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from orchestrator.analysis import report_builder
from orchestrator.analysis.evidence import Evidence
from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.config.run_configuration import Configuration, Plan, Slot, StoredRun
from orchestrator.figures.report import Report
from orchestrator.gpu.telemetry.overheating import TemperatureStop
from orchestrator.plan import load_windows, planner
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout
from orchestrator.state import added_launches
from orchestrator.state.added_launches import Look
from orchestrator.state.archive import Archive
from orchestrator.state.slots import RunState
from protocol.cell import Cell, Device
from protocol.messages import Deadlines, LoadSteps, Measurement
from protocol.verification import Injection

Advise = Callable[[StoredRun, Mapping[str, Sequence[float]]], str]
"""Function: (run, cell id → ms of an iteration in each launch so far) → what the user should change now, or ""."""


@dataclass(frozen=True)
class LaunchTerms:
    """Settings of a launch (one measurement in fresh processes) on one device.

    injection: fault to simulate. steps: alternating load and pauses of a burn-in; None: continuous load. python: path
    of the interpreter; empty: the one that runs gpubench.
    """

    measurement: Measurement
    deadlines: Deadlines
    injection: Injection | None = None
    steps: LoadSteps | None = None
    python: str = ""


@dataclass(frozen=True)
class TelemetryTerms:
    """Settings of telemetry. stop: when a GPU is too hot; None: never. hot: UUID → simulated temperature in °C."""

    stop: TemperatureStop | None = None
    hot: Mapping[str, int] = field(default_factory=dict)


class Remaining(NamedTuple):
    """Remaining time of a run with a duration (burn-in). Quarantined devices count only if all are quarantined.

    served_s: served time of the device with the least: work, and short gaps (served_time.py). left_s: seconds that a
    resume has for launches: the duration minus served_s and the time for reports; may be negative. short: whether some
    device has worked too little and another launch on it fits into left_s.
    """

    served_s: float
    left_s: float
    short: bool


def configured_terms(configuration: Configuration, device: Device, slot: Slot, cell: Cell) -> LaunchTerms:
    """Return the settings of a launch as configured. slot: (cell id, round).

    load_s of the measurement is 0 if the launch has no load window, a time in which power and utilisation are read.
    Only launches of round 0 at the largest batch size, on GPUs with telemetry, can have one.
    """
    load_s = load_windows.window_s(cell, configuration, device, slot[1])
    return LaunchTerms(replace(configuration.measurement, load_s=load_s), configuration.deadlines)


@dataclass(frozen=True)
class Outcome:
    """What a command prints after a run. text: the answer; empty: print the report instead."""

    text: str


def suspects(archive: Archive, evidence: Evidence) -> Look:
    """Return a doubt for each SUSPECT GPU (perhaps slower than identical GPUs) and cell that should decide about it."""
    return Look(report_builder.in_doubt(archive, evidence))


@dataclass(frozen=True)
class Kind:
    """The decisions of a kind of run. Its functions are pure.

    worker_environment: variables of processes that import torch, unless the user sets them. next_rounds: takes the
    state, the seed and a function that says whether there is time for a cell; returns launches to add when a device is
    idle, may be (). None: no rounds are added. adds_launches: whether launches may be added for doubts about GPUs.
    look: returns these doubts. advise: returns advice after a launch, or "". remaining: returns the remaining time of a
    run with a duration; None: the run ends with its plan. works_around_pauses: whether a launch that was paused keeps
    its result, because the figures of this kind exclude pauses (stats/stalls.py). outcome: returns the printed answer;
    None: the report is printed.
    """

    name: str
    plan: Callable[[Configuration, Sequence[Device]], Plan] = planner.make
    launch_terms: Callable[[Configuration, Device, Slot, Cell], LaunchTerms] = configured_terms
    worker_environment: Callable[[Configuration], Mapping[str, str]] = lambda _: {}
    telemetry_terms: Callable[[Configuration], TelemetryTerms] = lambda _: TelemetryTerms()
    next_rounds: Callable[[RunState, int, Callable[[Cell], bool]], tuple[Slot, ...]] | None = None
    adds_launches: Callable[[Configuration, Sequence[Device]], bool] = added_launches.applies
    look: Callable[[Archive, Evidence], Look] = suspects
    advise: Advise | None = None
    remaining: Callable[[Archive, Evidence], Remaining] | None = None
    works_around_pauses: bool = False
    report: ReportTerms = field(default_factory=ReportTerms)
    layout: Layout = DEFAULT
    outcome: Callable[[Archive, Evidence, Report], Outcome] | None = None
