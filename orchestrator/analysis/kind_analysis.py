"""What a kind of run adds to the report, and to the reasons for its verdict. The defaults are those of a benchmark."""

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.analysis.evidence import Evidence
from orchestrator.config.run_configuration import Configuration, StoredRun
from orchestrator.figures.burn_in import BurnInReport
from orchestrator.figures.health import HealthReport
from orchestrator.state.archive import Archive


@dataclass(frozen=True)
class KindAnalysis:
    """What a kind found out, beyond cells and health.

    burn_in: its part of the report. incomplete, unknown: reasons why the run is incomplete, named first and last.
    faults: reasons why hardware has failed. warnings: remarks on a run that has passed.
    """

    burn_in: BurnInReport | None = None
    incomplete: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportTerms:
    """health_level: the level of configs/health.yaml that decides what PASS requires.

    as_reported: the configuration as the report shows it. short_of_launches: what is said of cells with launches to
    come. analyse: what the kind found out.
    """

    health_level: str = "benchmark"
    as_reported: Callable[[StoredRun], Configuration] = lambda stored: stored.configuration
    short_of_launches: str = "measured by fewer launches than planned"
    analyse: Callable[[Archive, Evidence, HealthReport], KindAnalysis] = lambda *_: KindAnalysis()
