"""Every family builds, runs and trains; its batches are random, and the same for the same seed."""

import msgspec
import pytest
import torch

from protocol.cell import InputSpec, ModelSpec
from tests.fakes.assignments import AUTOENCODER, BERT, GPT2, LSTM, QWEN, RESNET, STYLEGAN2, UNET, VAE, VIT
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

FAMILIES = [LSTM, BERT, GPT2, QWEN, RESNET, VIT, UNET, AUTOENCODER, VAE, STYLEGAN2]
MODELS = pytest.mark.parametrize("spec", FAMILIES, ids=lambda spec: spec.name)
IMAGES = pytest.mark.parametrize("spec", [RESNET, UNET, AUTOENCODER, STYLEGAN2], ids=lambda spec: spec.name)


def feed(spec: ModelSpec, seed: int = 1, dtype: torch.dtype = torch.float32, input_size: int | None = None) -> Batch:
    """A batch of three."""
    size = input_size if input_size is not None or spec.sizes is None else spec.sizes.default
    source = Feed(batch_size=3, input_size=size, device=CPU, dtype=dtype, seed=seed)
    return registry.family(spec).batch(spec, source)


def build(spec: ModelSpec, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The model at its default size, the same every time."""
    torch.manual_seed(1)
    return registry.family(spec).build(spec, CPU, spec.sizes.default if spec.sizes else None).to(dtype)


@MODELS
def test_forward_and_loss(spec: ModelSpec) -> None:
    """The output has the shape of the task; the losses are scalars that give every parameter a gradient."""
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


@MODELS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@torch.inference_mode()
def test_forward_in_half_precision(spec: ModelSpec, dtype: torch.dtype) -> None:
    """With the weights cast, everything between input and output has their type, and nothing overflows."""
    output = registry.family(spec).forward(build(spec, dtype).eval(), feed(spec, dtype=dtype))
    assert output.dtype is dtype
    assert torch.isfinite(output).all()


@MODELS
def test_loss_under_autocast(spec: ModelSpec) -> None:
    """Near that of fp32, and not in half precision itself."""
    family = registry.family(spec)
    losses = []
    for enabled in (False, True):
        module = build(spec).eval()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(family.loss(module, feed(spec)))
    assert losses[1].dtype is torch.float32
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.05)


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
    """Never constant, the same for the same seed, another for another."""
    one, again, other = feed(spec), feed(spec), feed(spec, seed=2)
    assert one.keys() == again.keys()
    for name, tensor in one.items():
        assert tensor.unique().numel() > 1
        assert torch.equal(tensor, again[name])
    assert any(not torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_floating_inputs_have_the_type_of_the_weights() -> None:
    """Images of a bf16 model are bf16; its labels stay whole numbers."""
    batch = feed(RESNET, dtype=torch.bfloat16)
    assert batch["images"].dtype is torch.bfloat16
    assert batch["labels"].dtype is torch.int64


def test_bert_predicts_some_tokens_even_of_a_short_sequence() -> None:
    """A loss over no tokens at all would be NaN."""
    for seed in range(20):
        labels = feed(BERT, seed, input_size=1)["labels"]
        assert (labels >= 0).any(dim=1).all()
    share = (feed(BERT, input_size=2000)["labels"] >= 0).float().mean()
    assert share == pytest.approx(0.15, abs=0.03)


def test_unknown_family_is_named_with_those_there_are() -> None:
    """A model file with a misspelt family is told so."""
    spec = msgspec.structs.replace(LSTM, family="lsmt")
    with pytest.raises(UnknownFamilyError, match=r"'tiny-lstm'.*'lsmt'.*autoencoder, bert, causal, lstm, "):
        registry.family(spec)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (InputSpec(name="x", shape=("batch", "length")), "'length'"),
        (InputSpec(name="x", shape=("batch", "size"), dtype="int8"), "'int8'"),
    ],
)
def test_input_that_cannot_be_made_is_named(entry: InputSpec, message: str) -> None:
    """A shape word or a type that does not exist is an error with the input's name."""
    with pytest.raises(ValueError, match=rf"'x'.*{message}"):
        feed(msgspec.structs.replace(LSTM, inputs=(entry,)))


def test_configuration_that_needs_a_size_the_cell_has_not_is_refused() -> None:
    """With the key that needs it."""
    with pytest.raises(ValueError, match="'tiny-vit': image_size needs the input size"):
        registry.family(VIT).build(VIT, CPU, None)


def test_shape_that_needs_a_size_the_cell_has_not_is_refused() -> None:
    """A model without an input size cannot have one in its shape."""
    with pytest.raises(ValueError, match="'size'"):
        feed(msgspec.structs.replace(LSTM, sizes=None))
