"""What a kind of run, such as a burn-in, adds to the report and its verdict. Defaults: those of a benchmark."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orchestrator.analysis.evidence import Evidence
from orchestrator.config.run_configuration import Configuration, StoredRun
from orchestrator.figures.burn_in import BurnInReport
from orchestrator.figures.exit_code import Cause
from orchestrator.figures.health import HealthReport
from orchestrator.figures.operators import OperatorsReport
from orchestrator.figures.report import Report
from orchestrator.figures.studies import StudyReport
from orchestrator.state.archive import Archive


@dataclass(frozen=True)
class KindAnalysis:
    """Findings that only this kind of run has. burn_in, operators, study: None in other kinds of run.

    Causes of the exit code, as sentences: faults (hardware), unproven (injected faults that never came), failed (parts
    of cells without a result), unknown (what a burn-in could not judge). warnings: remarks without influence on the
    exit code.
    """

    burn_in: BurnInReport | None = None
    operators: OperatorsReport | None = None
    study: StudyReport | None = None
    unproven: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportTerms:
    """How a kind of run is reported.

    health_level: name of a level in configs/health.yaml. as_reported: returns the configuration that the report shows.
    short_of_launches: words for cells with fewer launches than planned. analyse: returns the findings of this kind of
    run. judge: returns more causes of the exit code, from the report.
    """

    health_level: str = "benchmark"
    as_reported: Callable[[StoredRun], Configuration] = lambda stored: stored.configuration
    short_of_launches: str = "measured by fewer launches than planned"  # describes cells with launches to come
    analyse: Callable[[Archive, Evidence, HealthReport], KindAnalysis] = lambda *_: KindAnalysis()
    judge: Callable[[Archive, Evidence, Report], Iterable[Cause]] = lambda *_: ()  # by the whole report
