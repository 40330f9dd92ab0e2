"""Every family builds, runs and trains; its batches are random, and the same for the same seed."""

import msgspec
import pytest
import torch

from protocol.cell import InputSpec, ModelSpec, Precision
from tests.fakes.assignments import (
    AUTOENCODER,
    BERT,
    FAMILIES,
    GPT2,
    LSTM,
    QWEN,
    RESNET,
    STYLEGAN2,
    UNET,
    VAE,
    VIT,
)
from worker import devices
from worker.errors import UnknownFamilyError
from worker.models import registry
from worker.models.base import Batch, Feed

CPU = torch.device("cpu")
SHAPES = {
    LSTM.name: (3, 12, 50),
    BERT.name: (3, 10, 60),
    GPT2.name: (3, 10, 60),
    QWEN.name: (3, 10, 60),
    RESNET.name: (3, 1000),
    VIT.name: (3, 10),
    UNET.name: (3, 2, 16, 16),
    AUTOENCODER.name: (3, 3, 16, 16),
    VAE.name: (3, 3, 16, 16),
    STYLEGAN2.name: (3, 3, 16, 16),
}
"""What a forward pass makes of a batch of three."""

MODELS = pytest.mark.parametrize("spec", FAMILIES, ids=lambda spec: spec.name)
IMAGES = pytest.mark.parametrize("spec", [RESNET, UNET, AUTOENCODER, STYLEGAN2], ids=lambda spec: spec.name)


def feed(spec: ModelSpec, seed: int = 1, dtype: torch.dtype = torch.float32, input_size: int | None = None) -> Batch:
    size = input_size if input_size is not None or spec.sizes is None else spec.sizes.default
    source = Feed(batch_size=3, input_size=size, device=CPU, dtype=dtype, seed=seed)
    return registry.family(spec).batch(spec, source)


def build(spec: ModelSpec, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    torch.manual_seed(1)
    return registry.family(spec).build(spec, CPU, spec.sizes.default if spec.sizes else None).to(dtype)


@MODELS
def test_forward_and_loss(spec: ModelSpec) -> None:
    """The output has the shape of the task; the losses are scalars that give every parameter a gradient.

    Under autocast the loss is near that of fp32, and not in half precision itself.
    """
    family = registry.family(spec)
    module = build(spec)
    batch = feed(spec)
    assert family.forward(module, batch).shape == SHAPES[spec.name]
    parts = family.objectives(module) if hasattr(family, "objectives") else ()
    for find in [part.loss for part in parts] or [family.loss]:
        loss = find(module, batch)
        assert loss.shape == ()
        assert torch.isfinite(loss)
        loss.backward()
    assert [name for name, parameter in module.named_parameters() if parameter.grad is None] == []
    losses = []
    for precision in (Precision.FP32, Precision.BF16):
        torch.manual_seed(2)
        with devices.training_kernels(CPU, precision), devices.autocast(CPU, precision):
            losses.append(family.loss(module.eval(), batch))
    assert losses[1].dtype is torch.float32
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.05)


@pytest.mark.parametrize("spec", [spec for spec in FAMILIES if spec is not VIT], ids=lambda spec: spec.name)
@torch.inference_mode()
def test_forward_in_half_precision(spec: ModelSpec) -> None:
    """With the weights cast, everything between input and output has their type, and nothing overflows."""
    output = registry.family(spec).forward(build(spec, torch.float16).eval(), feed(spec, dtype=torch.float16))
    assert output.dtype is torch.float16
    assert torch.isfinite(output).all()


@IMAGES
@torch.inference_mode()
def test_channels_last_changes_nothing_but_the_layout(spec: ModelSpec) -> None:
    """The same numbers come out."""
    family = registry.family(spec)
    module, batch = build(spec).eval(), feed(spec)
    expected = family.forward(module, batch)
    module.to(memory_format=torch.channels_last)
    batch = {
        name: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
        for name, tensor in batch.items()
    }
    torch.testing.assert_close(family.forward(module, batch), expected, rtol=1e-4, atol=1e-4)


@MODELS
def test_batches_are_random_and_repeatable(spec: ModelSpec) -> None:
    """Never constant, the same for the same seed, different for another. Only floats have the type of the weights."""
    one, again, other, half = feed(spec), feed(spec), feed(spec, seed=2), feed(spec, dtype=torch.bfloat16)
    assert one.keys() == again.keys()
    for name, tensor in one.items():
        assert tensor.unique().numel() > 1
        assert torch.equal(tensor, again[name])
        assert half[name].dtype is (torch.bfloat16 if tensor.is_floating_point() else tensor.dtype)
    assert any(not torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_bert_predicts_some_tokens_even_of_a_short_sequence() -> None:
    """A loss over no tokens at all would be NaN."""
    for seed in range(20):
        labels = feed(BERT, seed, input_size=1)["labels"]
        assert (labels >= 0).any(dim=1).all()
    share = (feed(BERT, input_size=2000)["labels"] >= 0).float().mean()
    assert share == pytest.approx(0.15, abs=0.03)


def test_unknown_family_is_an_error_with_the_known_ones() -> None:
    """For a model file with a misspelt family."""
    spec = msgspec.structs.replace(LSTM, family="lsmt")
    with pytest.raises(UnknownFamilyError, match=rf"'tiny-lstm'.*'lsmt'.*{', '.join(registry.MODULES)}"):
        registry.family(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            msgspec.structs.replace(LSTM, inputs=(InputSpec(name="x", shape=("batch", "length")),)),
            "'x'.*'length'",
        ),
        (
            msgspec.structs.replace(LSTM, inputs=(InputSpec(name="x", shape=("batch", "size"), dtype="int8"),)),
            "'x'.*'int8'",
        ),
        (msgspec.structs.replace(LSTM, sizes=None), "'size'"),
        (msgspec.structs.replace(VIT, sizes=None), "'tiny-vit'.*image_size"),
    ],
)
def test_input_that_cannot_be_made_is_an_error(spec: ModelSpec, message: str) -> None:
    """A shape word or a type that does not exist, or a size that the cell does not have."""
    with pytest.raises(ValueError, match=message):
        registry.family(spec).build(spec, CPU, None) if spec.family == "torchvision" else feed(spec)
