"""Cells of operators, and precisions that an operator does not have."""

from orchestrator.kinds.ops import planning
from protocol.cell import Precision, Workload
from tests.fakes.configurations import configuration, cpu
from tests.fakes.operator_runs import of_operators


def test_a_precision_that_an_operator_lacks_is_excluded_and_listed() -> None:
    """TF32 of softmax, beside its fp32 and the TF32 of a product."""
    asked = configuration(probes=(), precisions=(Precision.FP32, Precision.TF32))
    plan = planning.make(of_operators(asked, ("softmax", "linear"), ("eager",)), (cpu(0),))
    cells = {(cell.model, cell.precision) for cell in plan.cells if cell.workload is Workload.OPERATOR}
    assert cells == {("softmax", "fp32"), ("linear", "fp32"), ("linear", "tf32")}
    assert [(one.model, Precision.TF32 in one.why) for one in plan.excluded] == [("softmax", True)]


def test_fast_shortens_times_and_not_the_number_of_launches() -> None:
    """--fast --launches 3 measures each cell in three processes: intervals over launches need them."""
    asked = of_operators(configuration(probes=(), launches=3), ("softmax",), ("eager",), fast=True)
    plan = planning.make(asked, (cpu(0),))
    assert [len(launches) for launches in plan.order.values()] == [3]
