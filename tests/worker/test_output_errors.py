"""Errors of compiled outputs against eager ones, with the infinities of a mask."""

import math

import pytest
import torch

from worker import compiler

EAGER = [-math.inf, 3.0, -4.0]


@pytest.mark.parametrize(
    ("found", "absolute", "relative"),
    [
        (EAGER, 0, 0),
        ([-math.inf, 3.0, -4.4], 0.4, 0.1),
        ([-math.inf, math.inf, -4.0], math.inf, math.inf),
        ([0.0, 3.0, -4.0], math.inf, math.inf),
        ([-math.inf, math.nan, -4.0], math.inf, math.inf),
    ],
)
def test_equal_infinities_are_no_error(found: list[float], absolute: float, relative: float) -> None:
    """Another infinity or NaN is the largest error that a result can hold."""
    errors = compiler.output_errors(torch.tensor(EAGER).double(), torch.tensor(found).double())
    assert all(map(math.isfinite, errors.values()))
    assert errors["absolute_error"] == pytest.approx(min(absolute, 1.7e308), rel=0.1)
    assert errors["relative_error"] == pytest.approx(min(relative, 0.45e308), rel=0.1)


@pytest.mark.parametrize("value", [0.0, float("inf")])
def test_equal_outputs_without_a_direction_are_equal(value: float) -> None:
    """All zero, or nothing finite."""
    outputs = torch.full((3,), value, dtype=torch.float64)
    assert set(compiler.output_errors(outputs, outputs).values()) == {0.0}
