"""Studies: operations in several implementations, sizes and precisions. Each cell has its own process."""

from typing import Final

from msgspec.structs import replace

from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.config.run_configuration import Configuration, Slot
from orchestrator.engine.kind import Kind, LaunchTerms
from orchestrator.kinds.study import chapter, planning
from orchestrator.kinds.study.analysis import analyse, judge
from orchestrator.report.chapters.brief import next_steps, warnings
from orchestrator.report.chapters.devices import described, devices
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.health import health
from orchestrator.report.layout import Layout
from orchestrator.report.sections import shown
from protocol.cell import Cell, Device

NAME: Final = "study"
MEASURE_S: Final = 600.0
"""Least deadline of a measurement in seconds. It includes compilation and the reference in fp64."""


def launch_terms(configuration: Configuration, device: Device, slot: Slot, cell: Cell) -> LaunchTerms:
    """Return the usual terms of a launch, but with at least MEASURE_S to measure: this time includes compilation.

    configuration: of the run. The terms are the same for every device, slot (cell id, round) and cell.
    """
    own = configuration.deadlines
    return LaunchTerms(configuration.measurement, replace(own, measure=max(own.measure, MEASURE_S)))


STUDY: Final = Kind(
    name=NAME,
    plan=planning.make,
    launch_terms=launch_terms,
    adds_launches=lambda *_: False,
    report=ReportTerms(analyse=analyse, judge=judge),
    layout=Layout(
        text=(described, chapter.study, health, failures, not_measured),
        brief=(shown(chapter.study, tables=("study",)), warnings),
        next_steps=next_steps,
        markdown=(chapter.study,),
        html=(chapter.study, devices),
        title="Study",
        answer=chapter.answer,
        checks=True,
    ),
)
