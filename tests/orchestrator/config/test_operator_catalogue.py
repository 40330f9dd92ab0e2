"""configs/operators.yaml: formulas, shapes, and the functions that the worker has for them."""

import pytest

from orchestrator.config import operators
from orchestrator.config.formula import evaluate
from orchestrator.errors import ConfigError
from protocol.cell import DeviceKind, Precision
from worker.operators.functions import FUNCTIONS

OPERATORS = operators.load()


def test_every_operator_has_a_function_and_three_shapes() -> None:
    """At least 45 operators in nine categories; the file and the worker name the same ones."""
    assert len(OPERATORS) >= 45
    assert OPERATORS.keys() == FUNCTIONS.keys()
    assert len({one.category for one in OPERATORS.values()}) == 9
    for one in OPERATORS.values():
        for kind in DeviceKind:
            assert tuple(shape.name for shape in one.shapes[kind]) == operators.SHAPES


def test_shapes_grow() -> None:
    """A larger shape moves more bytes and takes at least as many operations."""
    for one in OPERATORS.values():
        for shapes in one.shapes.values():
            moved = [shape.moved[Precision.FP32] for shape in shapes]
            assert moved == sorted(set(moved)), one.name
            assert [shape.flops for shape in shapes] == sorted(shape.flops for shape in shapes)


@pytest.mark.parametrize(
    ("name", "flops", "fp32", "bf16"),
    [
        ("add", 4096, 3 * 4096 * 4, 3 * 4096 * 2),
        ("matmul_square", 2 * 32**3, 3 * 32**2 * 4, 3 * 32**2 * 2),
        ("conv2d", 2 * 9 * 8 * 8 * 64, (2 * 8 * 64 + 9 * 64) * 4, (2 * 8 * 64 + 9 * 64) * 2),
        ("attention", 4 * 2 * 16 * 16 * 16, 4 * 2 * 16 * 16 * 4, 4 * 2 * 16 * 16 * 2),
        ("embedding", 0, 2 * 32 * 16 * 4 + 8 * 32, 2 * 32 * 16 * 2 + 8 * 32),
    ],
)
def test_formulas_give_operations_and_bytes(name: str, flops: int, fp32: int, bf16: int) -> None:
    """The small shape of a CPU device, counted by hand."""
    shape = OPERATORS[name].shapes[DeviceKind.CPU][0]
    assert (shape.flops, shape.moved[Precision.FP32], shape.moved[Precision.BF16]) == (flops, fp32, bf16)


@pytest.mark.parametrize("text", ["n**2", "m", "print(n)", "n +", "1.5*n", "True"])
def test_a_formula_is_arithmetic_alone(text: str) -> None:
    """Anything else is refused, with its origin."""
    with pytest.raises(ConfigError, match=r"here: "):
        evaluate(text, {"n": 3}, "here")
