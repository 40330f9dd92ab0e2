"""Operations are counted where every kernel is visible, and unknown where one is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision.models import get_model

from protocol.cell import ModelSpec, Precision, Workload
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
from tests.fakes.spies import spy
from worker import flops
from worker.models import bert, lstm

WIDE, LONG, DEEP = 5, 7, 11
PRODUCT = 2 * WIDE * LONG * DEEP


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not change what is counted here."""
    monkeypatch.setattr(flops, "COUNTED_WITHIN_MS", 1e9)


def product() -> torch.Tensor:
    return torch.randn(WIDE, LONG) @ torch.randn(LONG, DEEP)


def counted(model: ModelSpec, workload: Workload, cache: Path, **options: Any) -> float | None:
    return run_here(assignment(model, workload, cache, **options)).flops_per_iteration


def certain(flops: float | None) -> float:
    assert flops is not None
    return flops


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_product_takes_two_operations_for_each_pair(mode: Callable[[], torch.no_grad]) -> None:
    """In inference mode too, where the counter of older versions of torch saw nothing."""
    with mode():
        assert flops.count(product, 1.0) == PRODUCT


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
    forward = certain(flops.count(lambda: layer(images), 1.0))
    assert flops.count(lambda: layer(images).sum().backward(), 1.0) == 3 * forward
    assert flops.count(lambda: layer(images.detach()).sum().backward(), 1.0) == 2 * forward
    layer.requires_grad_(False)
    assert flops.count(lambda: layer(images).sum().backward(), 1.0) == 2 * forward


def test_training_of_a_network_with_groups_takes_three_forward_passes() -> None:
    """Less the gradient of the images, which is not needed."""
    with torch.device("meta"):
        module, images = get_model("resnext50_32x4d"), torch.randn(2, 3, 64, 64)
    forward = certain(flops.count(lambda: module(images), 1.0))
    assert 2.8 * forward < certain(flops.count(lambda: module(images).sum().backward(), 1.0)) <= 3 * forward


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
def test_kernel_that_cannot_be_counted_leaves_no_number(hidden: Callable[[], torch.Tensor]) -> None:
    """A sum that misses a part would be taken for the whole. Nor is zero a count where nothing was seen."""
    assert flops.count(lambda: (product(), hidden()), 1.0) is None
    assert flops.count(lambda: torch.ones(3) + 1, 1.0) is None


def test_products_are_counted_and_pointwise_operations_are_zero() -> None:
    """A backward pass has two products where both sides need a gradient. Resizing, norms and activations hide none."""
    one, other = torch.randn(WIDE, LONG, requires_grad=True), torch.randn(LONG, DEEP, requires_grad=True)
    assert flops.count(lambda: (one @ other).sum().backward(), 1.0) == 3 * PRODUCT
    image = torch.randn(1, 2, 8, 8)

    def step() -> None:
        product()
        torch.nn.functional.interpolate(image, scale_factor=2, mode="bilinear")
        torch.nn.functional.gelu(torch.nn.functional.normalize(image)).softmax(-1)

    assert flops.count(step, 1.0) == PRODUCT


def test_counting_costs_no_time_and_no_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long iteration is not repeated; after an error the log has the reason for the missing number."""
    monkeypatch.setattr(flops, "COUNTED_WITHIN_MS", 2_000.0)
    assert flops.count(lambda: pytest.fail("it was run"), 2_001.0) is None
    assert flops.count(product, 1_999.0) == PRODUCT

    def step() -> None:
        raise RuntimeError("not under a counter")

    assert flops.count(step, 1.0) is None
    assert "not under a counter" in capsys.readouterr().err


def test_launches_count_the_passes_of_the_batch(tmp_path: Path) -> None:
    """One forward pass of each item, whatever the precision; a training step takes about three."""
    for precision, batch in ((Precision.FP32, 1), (Precision.BF16, 2)):
        found = counted(RESNET, Workload.INFERENCE, tmp_path, batch_size=batch, precision=precision)
        assert found == RESNET_OPERATIONS * batch / 2
    assert 2.5 * RESNET_OPERATIONS < certain(counted(RESNET, Workload.TRAINING, tmp_path)) <= 3 * RESNET_OPERATIONS


def test_attention_is_counted_or_there_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of torch without a formula for a CPU's attention give None, never the rest of the model."""
    assert counted(BERT, Workload.INFERENCE, tmp_path) in (None, BERT_OPERATIONS)
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    monkeypatch.delitem(flops.flop_registry, attention, raising=False)
    assert counted(BERT, Workload.INFERENCE, tmp_path) is None


def test_fused_attention_is_counted_by_the_products_it_stands_for(tmp_path: Path) -> None:
    """The measurement itself uses the fused kernel of torch.nn.MultiheadAttention, before and afterwards."""
    assert counted(VIT, Workload.INFERENCE, tmp_path) in (None, VIT_OPERATIONS)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    tokens = torch.randn(1, LONG, 8)
    projections, attention = 2 * LONG * 4 * 8**2, 2 * 2 * LONG**2 * 8
    with torch.inference_mode():
        assert flops.count(lambda: layer(tokens, tokens, tokens), 1.0) == projections + attention
    assert torch.backends.mha.get_fastpath_enabled()


def test_recurrent_model_has_no_number_unless_its_own_step_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for inference nor for training. The products of a model's own step are its operations."""
    assert counted(LSTM, Workload.INFERENCE, tmp_path) is None
    assert counted(LSTM, Workload.TRAINING, tmp_path) is None
    monkeypatch.setattr(lstm, "train_step", lambda *_: product().sum(), raising=False)
    assert counted(LSTM, Workload.TRAINING, tmp_path) == PRODUCT


def test_counting_follows_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of the warm-up or of a measured block runs under the counter: one more does, at the end."""
    seen = spy(monkeypatch, bert, "forward", lambda *_: torch._C._len_torch_dispatch_stack() > 0)
    counted(BERT, Workload.INFERENCE, tmp_path)
    assert seen[-1]
    assert not any(seen[:-1])
