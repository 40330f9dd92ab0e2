"""Counting operations: the right number where everything is seen, and none where it is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torchvision.models import get_model

from protocol.cell import ModelSpec, Precision, Workload
from protocol.result import Result
from tests.fakes.assignments import (
    BERT,
    BERT_OPERATIONS,
    LSTM,
    RESNET,
    RESNET_OPERATIONS,
    VIT,
    VIT_OPERATIONS,
    assignment,
    run_here,
)
from worker import flops
from worker.models import bert, lstm

WIDE, LONG, DEEP = 5, 7, 11
PRODUCT = 2 * WIDE * LONG * DEEP


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not change what is counted here."""
    monkeypatch.setattr(flops, "COUNTED_WITHIN_MS", 1e9)


def product() -> torch.Tensor:
    """A matrix product whose operations are known."""
    return torch.randn(WIDE, LONG) @ torch.randn(LONG, DEEP)


def measured(model: ModelSpec, workload: Workload, cache: Path, **options: object) -> Result:
    """One launch."""
    return run_here(assignment(model, workload, cache, **options))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_product_takes_two_operations_for_each_pair(mode: Callable[[], torch.no_grad]) -> None:
    """In inference mode too, where the counter of older versions of torch saw nothing."""
    with mode():
        assert flops.count(product, 1.0) == PRODUCT


def test_backward_pass_is_counted() -> None:
    """A product has two in its backward pass where both sides need a gradient."""
    one, other = torch.randn(WIDE, LONG, requires_grad=True), torch.randn(LONG, DEEP, requires_grad=True)
    assert flops.count(lambda: (one @ other).sum().backward(), 1.0) == 3 * PRODUCT


CONVOLUTIONS = {
    "dense": lambda: torch.nn.Conv2d(4, 6, 3, padding=1),
    "strided": lambda: torch.nn.Conv2d(4, 6, 3, stride=2),
    "grouped": lambda: torch.nn.Conv2d(4, 6, 3, groups=2),
    "depthwise": lambda: torch.nn.Conv2d(4, 8, 3, groups=4),
    "transposed": lambda: torch.nn.ConvTranspose2d(4, 6, 3, stride=2),
    "transposed and grouped": lambda: torch.nn.ConvTranspose2d(4, 6, 3, groups=2),
    "of a line": lambda: torch.nn.Conv1d(4, 4, 3, groups=4),
}


@pytest.mark.parametrize("make", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_each_gradient_of_a_convolution_takes_what_its_forward_pass_does(make: Callable[[], torch.nn.Module]) -> None:
    """In groups and transposed too; a gradient that nobody wants takes nothing."""
    layer = make()
    images = torch.randn(2, 4, *(9,) * (next(layer.parameters()).dim() - 2), requires_grad=True)
    forward = flops.count(lambda: layer(images), 1.0)
    assert forward is not None
    assert flops.count(lambda: layer(images).sum().backward(), 1.0) == 3 * forward
    assert flops.count(lambda: layer(images.detach()).sum().backward(), 1.0) == 2 * forward
    layer.requires_grad_(False)
    assert flops.count(lambda: layer(images).sum().backward(), 1.0) == 2 * forward


@pytest.mark.parametrize("builder", ["resnext50_32x4d", "efficientnet_b0", "shufflenet_v2_x0_5"])
def test_training_of_networks_with_groups_takes_three_forward_passes(builder: str) -> None:
    """All but the gradient of the images, which nobody wants."""
    with torch.device("meta"):
        module, images = get_model(builder), torch.randn(2, 3, 64, 64)
    forward = flops.count(lambda: module(images), 1.0)
    assert forward is not None
    step = flops.count(lambda: module(images).sum().backward(), 1.0)
    assert step is not None
    assert 2.8 * forward < step <= 3 * forward


def dot() -> torch.Tensor:
    """An operator of torch that works in products and has no formula."""
    return torch.mv(torch.randn(LONG, WIDE), torch.randn(WIDE))


def transform() -> torch.Tensor:
    """So has this one none."""
    return torch.fft.fft(torch.randn(16))


@torch.library.custom_op("gpubench_tests::scale", mutates_args=())
def scale(tensor: torch.Tensor) -> torch.Tensor:
    """A kernel from outside torch."""
    return tensor * 2


def recurrent() -> torch.Tensor:
    """Layers whose kernels hide their products."""
    output: torch.Tensor = torch.nn.LSTM(4, 4)(torch.randn(2, 1, 4))[0]
    return output


@pytest.mark.parametrize("hidden", [dot, transform, lambda: scale(torch.ones(3)), recurrent])
def test_kernel_that_nobody_can_count_leaves_no_number(hidden: Callable[[], torch.Tensor]) -> None:
    """A sum that misses a part would be taken for the whole."""
    assert flops.count(lambda: (product(), hidden()), 1.0) is None


def test_pointwise_operations_are_taken_for_nothing() -> None:
    """Resizing, norms and activations hide nothing, though their names may sound like it."""
    image = torch.randn(1, 2, 8, 8)

    def step() -> None:
        product()
        torch.nn.functional.interpolate(image, scale_factor=2, mode="bilinear")
        torch.nn.functional.gelu(torch.nn.functional.normalize(image)).softmax(-1)

    assert flops.count(step, 1.0) == PRODUCT


def test_nothing_counted_is_no_number() -> None:
    """Zero operations in a second would be a statement."""
    assert flops.count(lambda: torch.ones(3) + 1, 1.0) is None


def test_long_iteration_is_not_run_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU it would take as long again."""
    monkeypatch.setattr(flops, "COUNTED_WITHIN_MS", 2_000.0)
    assert flops.count(lambda: pytest.fail("it was run"), 2_001.0) is None
    assert flops.count(product, 1_999.0) == PRODUCT


def test_error_while_counting_costs_the_number_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """What was measured is not lost; the log says why there is no number."""

    def step() -> None:
        raise RuntimeError("not under a counter")

    assert flops.count(step, 1.0) is None
    assert "not under a counter" in capsys.readouterr().err


def test_inference_counts_one_forward_pass_of_the_batch(tmp_path: Path) -> None:
    """Twice the batch, twice the operations, whatever the precision."""
    counts = [measured(RESNET, Workload.INFERENCE, tmp_path, batch_size=n).flops_per_iteration for n in (1, 2)]
    assert counts == [RESNET_OPERATIONS / 2, RESNET_OPERATIONS]
    half = measured(RESNET, Workload.INFERENCE, tmp_path, batch_size=1, precision=Precision.BF16)
    assert half.flops_per_iteration == counts[0]


def test_training_counts_forward_and_backward(tmp_path: Path) -> None:
    """About three times a forward pass: the first layer needs no gradient of its input."""
    step = measured(RESNET, Workload.TRAINING, tmp_path, batch_size=2).flops_per_iteration
    assert step is not None
    assert 2.5 * RESNET_OPERATIONS < step <= 3 * RESNET_OPERATIONS


def test_attention_is_counted_or_there_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of torch that have no formula for a CPU's attention give none, and never the rest of the model."""
    with_formula = measured(BERT, Workload.INFERENCE, tmp_path).flops_per_iteration
    assert with_formula in (None, BERT_OPERATIONS)
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    monkeypatch.delitem(flops.flop_registry, attention, raising=False)
    assert measured(BERT, Workload.INFERENCE, tmp_path).flops_per_iteration is None


def test_fused_attention_is_counted_by_the_products_it_stands_for(tmp_path: Path) -> None:
    """What is measured takes the fused kernel of torch.nn.MultiheadAttention all the same, before and afterwards."""
    assert measured(VIT, Workload.INFERENCE, tmp_path).flops_per_iteration in (None, VIT_OPERATIONS)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    tokens = torch.randn(1, LONG, 8)
    projections, attention = 2 * LONG * 4 * 8**2, 2 * 2 * LONG**2 * 8
    with torch.inference_mode():
        assert flops.count(lambda: layer(tokens, tokens, tokens), 1.0) == projections + attention
    assert torch.backends.mha.get_fastpath_enabled()


def test_recurrent_model_has_no_number(tmp_path: Path) -> None:
    """Neither for inference nor for training."""
    assert measured(LSTM, Workload.INFERENCE, tmp_path).flops_per_iteration is None
    assert measured(LSTM, Workload.TRAINING, tmp_path).flops_per_iteration is None


def test_counting_is_over_before_and_begins_after_nothing_that_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step of the warm-up or of a measured block runs under the counter: one more does, at the end."""
    seen: list[bool] = []
    honest = bert.forward

    def watched(module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append(torch._C._len_torch_dispatch_stack() > 0)
        return honest(module, batch)

    monkeypatch.setattr(bert, "forward", watched)
    measured(BERT, Workload.INFERENCE, tmp_path)
    assert seen[-1]
    assert not any(seen[:-1])


def test_whole_step_is_counted_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever products the model's own code makes are its operations."""

    def step(module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return product().sum()

    monkeypatch.setattr(lstm, "train_step", step, raising=False)
    assert measured(LSTM, Workload.TRAINING, tmp_path).flops_per_iteration == PRODUCT
