"""figures/table.py: every figure of a report is declared once, and every reader can find it."""

import typing
from pathlib import Path

import pytest

from orchestrator.config.workloads import PHASES, WORKLOADS, Role
from orchestrator.figures.cells import GenerationMetrics, LoadMetrics, Measured, PhaseMetrics, ProbeMetrics
from orchestrator.figures.operators import OperatorMetric
from orchestrator.figures.table import BY_FIELD, COLUMNS, FIGURES, MAIN, Better, Figure, LimitName, main_figure
from orchestrator.plan.probes import PROBES
from protocol.cell import Workload

TYPES: dict[Workload, type[Measured | OperatorMetric]] = {
    Workload.LOAD: LoadMetrics,
    Workload.INFERENCE: PhaseMetrics,
    Workload.TRAINING: PhaseMetrics,
    Workload.GENERATION: GenerationMetrics,
    Workload.PROBE: ProbeMetrics,
    Workload.OPERATOR: OperatorMetric,
}
NO_FIGURES = {
    *("batch_size_requested", "batch_size", "launches_planned", "gpu_id", "prompt_tokens", "new_tokens"),
    *("warm_up_iterations", "first_iteration_ms", "second_iteration_ms", "inference_latency_values", "loss"),
    *("memory_allocated_mb", "inter_token_mean_ms", "interval_percent"),
}
"""Numbers of the JSON report that no other format has a column for."""


def numbers(kind: type[Measured | OperatorMetric]) -> set[str]:
    """The fields of a type that hold a number."""
    hints = typing.get_type_hints(kind)
    return {name for name, hint in hints.items() if hint in (int, float, int | None, float | None)}


def test_types_are_those_of_what_is_measured() -> None:
    """Checks measure nothing, but for operators; faults measure nothing."""
    probes = (one for one, facts in WORKLOADS.items() if facts.role is Role.PROBE)
    assert TYPES.keys() == {*PHASES, *probes, Workload.OPERATOR}


@pytest.mark.parametrize("kind", [*dict.fromkeys(TYPES.values())])
def test_every_number_of_the_report_is_declared(kind: type[Measured | OperatorMetric]) -> None:
    """A new field is no figure in CSV, comparisons and thresholds until it is in the table, or among NO_FIGURES."""
    assert numbers(kind) - BY_FIELD.keys() <= NO_FIGURES


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.field)
def test_a_figure_is_a_field_of_what_measures_it(figure: Figure) -> None:
    """A field that is missing would read as "not measured" in every format."""
    if figure.read is None:
        assert all(figure.field in TYPES[workload].__struct_fields__ for workload in figure.workloads)
    assert figure.workloads
    assert not figure.main or (figure.unit and figure.better is not Better.NEITHER)


def test_names_are_given_once() -> None:
    """Two rows of one name would hide each other."""
    for names in (
        [figure.field for figure in FIGURES],
        [figure.column for figure in COLUMNS],
        [figure.limit.name for figure in FIGURES if figure.limit],
    ):
        assert len(names) == len(set(names))


def test_every_workload_with_figures_has_a_main_one_and_probes_have_one_each() -> None:
    """It is what cells are compared by."""
    assert {workload for workload, figures in MAIN.items() if figures} == TYPES.keys()
    assert all(len(MAIN[phase]) == 1 for phase in PHASES)
    assert {main_figure(Workload.PROBE, name) for name in PROBES} == set(MAIN[Workload.PROBE])


def test_the_documentation_names_every_limit() -> None:
    """docs/compare.md has a table of what a threshold can be set for."""
    text = (Path(__file__).parents[3] / "docs" / "compare.md").read_text(encoding="utf-8")
    assert [name for name in LimitName if f"`{name}`" not in text] == []
