"""All kinds of run, by name."""

from typing import Final

from orchestrator.config.run_configuration import Configuration
from orchestrator.engine.kind import Kind
from orchestrator.figures.report import Report
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.kinds.burn_in.kind import BURN_IN
from orchestrator.kinds.gate.kind import GATE
from orchestrator.kinds.ops.kind import OPERATORS
from orchestrator.kinds.study.kind import STUDY
from orchestrator.kinds.triage import TRIAGE

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (BENCHMARK, TRIAGE, BURN_IN, GATE, OPERATORS, STUDY)}


def of(configuration: Configuration) -> Kind:
    """Return the kind of a run: burn-in if it has settings of one, else the kind of its preset, else benchmark."""
    return _of(configuration.preset, burn_in=configuration.burn_in is not None)


def of_report(report: Report) -> Kind:
    """Return the kind of a report's run: burn-in if it has such a part, else the kind of its preset, else benchmark."""
    return _of(report.test_configuration.preset, burn_in=report.burn_in is not None)


def _of(preset: str | None, *, burn_in: bool) -> Kind:
    return KINDS[BURN_IN.name] if burn_in else KINDS.get(preset or "", KINDS[BENCHMARK.name])
