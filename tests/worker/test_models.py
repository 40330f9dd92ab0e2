"""The models that ship are the models they claim to be; their batches are random, and the same for the same seed."""

import msgspec
import pytest
import torch
import yaml

from protocol.cell import InputSpec, ModelSpec
from tests.fakes.assignments import BERT, LSTM, RESNET, ROOT
from worker import memory
from worker.errors import UnknownFamilyError
from worker.models import registry
from worker.models.base import Batch, Feed

CPU = torch.device("cpu")
SHIPPED = msgspec.convert(
    yaml.safe_load((ROOT / "configs" / "models.yaml").read_text(encoding="utf-8"))["models"], list[ModelSpec]
)


def feed(spec: ModelSpec, seed: int = 1, dtype: torch.dtype = torch.float32, input_size: int | None = None) -> Batch:
    """A batch of three."""
    size = input_size if input_size is not None or spec.sizes is None else spec.sizes.default
    source = Feed(batch_size=3, input_size=size, device=CPU, dtype=dtype, seed=seed)
    return registry.family(spec).batch(spec, source)


@pytest.mark.parametrize("spec", SHIPPED, ids=lambda spec: spec.name)
def test_shipped_model_has_the_parameters_it_claims(spec: ModelSpec) -> None:
    """Counted on the model itself, built without memory; to 0.5 %."""
    module = registry.family(spec).build(spec, torch.device("meta"), spec.sizes.default if spec.sizes else None)
    assert memory.parameter_count(module) == pytest.approx(spec.parameters, rel=0.005)
    assert {parameter.device.type for parameter in module.parameters()} == {"meta"}


def test_bert_base_is_bert_base() -> None:
    """109.5 million parameters, as published with its masked-language-model head."""
    (spec,) = (spec for spec in SHIPPED if spec.name == "bert-base")
    assert spec.parameters == pytest.approx(109.5e6, rel=0.005)


@pytest.mark.parametrize(
    ("spec", "shape"),
    [(LSTM, (3, 12, 50)), (BERT, (3, 10, 60)), (RESNET, (3, 1000))],
    ids=lambda value: str(value)[:20],
)
def test_forward_and_loss(spec: ModelSpec, shape: tuple[int, ...]) -> None:
    """Logits have the shape of the task; the loss is a scalar that gives every parameter a gradient."""
    family = registry.family(spec)
    module = family.build(spec, CPU, None)
    batch = feed(spec)
    assert family.forward(module, batch).shape == shape
    loss = family.loss(module, batch)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    loss.backward()
    assert [name for name, parameter in module.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("spec", [LSTM, BERT, RESNET], ids=lambda spec: spec.name)
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
    with pytest.raises(UnknownFamilyError, match=r"'tiny-lstm'.*'lsmt'.*bert, lstm, torchvision"):
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


def test_shape_that_needs_a_size_the_cell_has_not_is_refused() -> None:
    """A model without an input size cannot have one in its shape."""
    with pytest.raises(ValueError, match="'size'"):
        feed(msgspec.structs.replace(LSTM, sizes=None))
