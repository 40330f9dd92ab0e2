"""A baseline of several runs: one for each model, on a GPU each."""

import msgspec
import pytest
from msgspec.structs import replace

from orchestrator.compare import baselines
from orchestrator.compare.comparison import compare
from orchestrator.config import margins
from orchestrator.errors import ConfigError
from tests.fakes.sides import STACK, cell, device, side


def test_runs_of_one_stack_make_one_baseline() -> None:
    """Their devices and their cells; the same cell on two GPUs is two figures, of which the median counts."""
    first = side(cell("a", 100.0), cell("gemm", 10.0), name="first")
    second = side(
        cell("b", 50.0, gpu_uuid="GPU-1"), cell("gemm", 20.0, gpu_uuid="GPU-1"), devices=(device(1),), name="second"
    )
    made = baselines.joined([first, second])
    assert [one.gpu_uuid for one in made.devices] == ["GPU-0", "GPU-1"]
    assert made.cells == (*first.cells, *second.cells)
    assert made.run_id == f"{first.run_id}, {second.run_id}"
    held = baselines.hold(side(cell("a", 100.0), cell("b", 50.0), cell("gemm", 15.0)), made).comparison
    assert held.overall_score == pytest.approx(100)


def test_baselines_that_share_a_run_say_so() -> None:
    """Neither is the other, because each has another run, too."""
    shared = side(cell("a"), run_id="20260401-213000-aaaaaa", name="shared")
    second = side(cell("b", gpu_uuid="GPU-1"), devices=(device(1),), run_id="20260402-213000-aaaaaa", name="second")
    third = replace(second, run_id="20260403-213000-aaaaaa", name="third")
    made, other = (baselines.reduced(baselines.joined([shared, own]), own.name) for own in (second, third))
    assert made.run_ids == {shared.run_id, second.run_id}
    shares = [any(shared.run_id in note for note in compare(made, one, margins.load()).notes) for one in (other, third)]
    assert shares == [True, False]


def test_one_run_is_itself() -> None:
    """Nothing is changed."""
    only = side(cell("a", 100.0))
    assert baselines.joined([only]) == only


def test_what_is_not_alike_is_not_joined() -> None:
    """Another driver would stand behind the name of the first; the same cell twice would count for more."""
    first = side(cell("a", 100.0), name="first")
    other = msgspec.structs.replace(side(cell("b", 100.0), name="second"), stack={**STACK, "driver": "580.95"})
    with pytest.raises(ConfigError, match=r"first and second .*: driver 570\.86 -> 580\.95"):
        baselines.joined([first, other])
    with pytest.raises(ConfigError, match=r"a inference .* on GPU-0 is in 2 of the runs"):
        baselines.joined([first, side(cell("a", 101.0), name="second")])
