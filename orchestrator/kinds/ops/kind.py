"""The run of operators: operators in the requested implementations, verified and compared with eager."""

from typing import Final

from msgspec.structs import replace

from orchestrator.analysis.kind_analysis import ReportTerms
from orchestrator.config.run_configuration import Configuration, Slot
from orchestrator.engine.kind import Kind, LaunchTerms
from orchestrator.kinds.ops import chapter, failed_shapes, planning, settings
from orchestrator.kinds.ops.analysis import analyse, judge
from orchestrator.report.chapters.brief import next_steps, probes, warnings
from orchestrator.report.chapters.devices import described, devices
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.health import health
from orchestrator.report.layout import Layout
from orchestrator.report.sections import shown
from protocol.cell import Cell, Device

MEASURE_S: Final = 600.0
"""Least deadline of a measurement in seconds. It includes compilation and references in fp64."""


def launch_terms(configuration: Configuration, device: Device, slot: Slot, cell: Cell) -> LaunchTerms:
    """Return the usual terms of a launch, but with at least MEASURE_S to measure: this time includes compilation.

    configuration: of the run. The terms are the same for every device, slot (cell id, round) and cell.
    """
    own = configuration.deadlines
    return LaunchTerms(configuration.measurement, replace(own, measure=max(own.measure, MEASURE_S)))


_PAGE: Final = shown(chapter.operators, tables=("categories", "slowest", "operators"))
OPERATORS: Final = Kind(
    name=settings.NAME,
    plan=planning.make,
    launch_terms=launch_terms,
    adds_launches=lambda *_: True,
    look=failed_shapes.look,
    report=ReportTerms(analyse=analyse, judge=judge),
    layout=Layout(
        text=(described, _PAGE, health, failures, not_measured),
        brief=(chapter.briefly, warnings, probes),
        next_steps=next_steps,
        markdown=(_PAGE,),
        html=(chapter.operators, devices),
        title="Operators",
        answer=chapter.answer,
        checks=True,
    ),
)
