"""Operators: every function against its reference, and what verification finds."""

from collections.abc import Callable

import pytest
import torch

from orchestrator.config import operators
from protocol.cell import DeviceKind, Precision
from worker.operators import rounds, verification
from worker.operators.functions import FUNCTIONS, REFERENCES

OPERATORS = operators.load()


def inputs_of(name: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    made = []
    for one in OPERATORS[name].shapes[DeviceKind.CPU][0].inputs:
        shape = tuple(map(int, one.shape))
        if one.dtype == "int64":
            made.append(torch.randint(0, int(one.high), shape, generator=generator))
        elif one.high:
            made.append(one.low + (one.high - one.low) * torch.rand(shape, generator=generator))
        else:
            made.append(torch.randn(shape, generator=generator))
    return made


def verified(name: str, function: Callable[..., torch.Tensor]) -> verification.Verified:
    spec = OPERATORS[name]
    tolerance = spec.tolerance[Precision.FP32]
    return verification.verify(function, REFERENCES[name], inputs_of(name), 1, tolerance, backward=spec.backward)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_operator_is_right(name: str) -> None:
    """In fp32 on a CPU, its values and its gradient."""
    found = verified(name, FUNCTIONS[name])
    assert (found.wrong, found.no_gradient) == ("", False)


def test_a_softmax_written_by_hand_is_right() -> None:
    """Its gradient flows through the maximum as well, which costs digits in long rows [2.7e-5 at this size]."""

    def softmax(x: torch.Tensor) -> torch.Tensor:
        powers = torch.exp(x - x.max(-1, keepdim=True).values)
        return powers / powers.sum(-1, keepdim=True)

    rows = torch.randn(8192, 2048, generator=torch.Generator().manual_seed(1))
    tolerance = OPERATORS["softmax"].tolerance[Precision.FP32]
    assert verification.verify(softmax, REFERENCES["softmax"], [rows], 1, tolerance, backward=True).wrong == ""


class WrongGradient(torch.autograd.Function):
    """relu with the gradient of the identity."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.relu()

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x: x.relu()[:-1], "shape"),
        (lambda x: x.relu().double(), "type"),
        (lambda x: x.relu() + 1e-3, "values"),
        (lambda x: x.relu() * float("nan"), "values"),
        (WrongGradient.apply, "gradient"),
        (lambda x: x.relu() if torch.is_grad_enabled() else x.relu() + 1e-3, "no_grad"),
        (lambda x: x.relu() + 1e-3 if torch.is_grad_enabled() else x.relu(), "values"),
    ],
)
def test_what_is_wrong_is_named(function: Callable[..., torch.Tensor], word: str) -> None:
    """Shape, values, NaN, a gradient behind right values, and values that are wrong only without or with gradients."""
    assert word in verified("relu", function).wrong


def test_the_larger_deviation_is_reported() -> None:
    """Of the outputs with gradients and without."""
    found = verified("relu", lambda x: x.relu() if torch.is_grad_enabled() else x.relu() + 1e-5)
    assert found.wrong == ""
    assert found.deviation == pytest.approx(1e-5 / 0.7, rel=0.1)  # the root mean square of the output is 0.7


def test_an_output_without_a_gradient_is_verified_by_its_values() -> None:
    """As of a kernel that knows no autograd."""
    found = verified("relu", lambda x: x.detach().relu())
    assert (found.wrong, found.no_gradient) == ("", True)


@pytest.mark.parametrize(
    ("name", "function", "word"),
    [
        ("relu", lambda x: x.relu_(), "input 1"),
        ("index_select", lambda table, rows: table[rows] + 0 * rows.zero_().sum(), "input 2"),
    ],
)
def test_a_function_that_changes_its_inputs_is_wrong(
    name: str, function: Callable[..., torch.Tensor], word: str
) -> None:
    """Even if its output is right: the next call would get other inputs."""
    found = verification.verify(function, REFERENCES[name], inputs_of(name), 1, 1e-3, backward=False)
    assert word in found.wrong


class Shared:
    """An array of another framework."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__dlpack__ = tensor.__dlpack__
        self.__dlpack_device__ = tensor.__dlpack_device__


def test_an_output_may_come_through_dlpack() -> None:
    """It is verified as a tensor. Anything else is refused."""
    assert verification.as_tensor(Shared(torch.ones(2))).tolist() == [1, 1]
    with pytest.raises(TypeError, match="list"):
        verification.as_tensor([1.0])


def test_copies_exceed_the_cache_and_fit() -> None:
    """Small inputs are copied until they exceed it, large ones as far as there is room."""
    assert rounds.copies(2**20, 2**40, "cuda") == rounds.MOST_COPIES
    assert rounds.copies(2**25, 2**40, "cuda") == rounds.ROTATED_BYTES["cuda"] // 2**25
    assert rounds.copies(2**30, 2**40, "cuda") == 1
    assert rounds.copies(2**25, 2**27, "cuda") == 1
