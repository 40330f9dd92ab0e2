"""Random weights compute something: the scale of every layer of every shipped model, in evaluation."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from tests.worker.test_zoo import SHIPPED
from worker.models import registry
from worker.models.base import Feed
from worker.workloads.common import cast, serving

CPU = torch.device("cpu")
SMALL = {"efficientnet-b0": 64, "unet": 32, "vae": 64, "autoencoder": 64, "resnet50": 32, "lstm": 8, "gpt2": 4}
"""Input sizes of what is quick enough for every change."""
LARGE = {
    **dict.fromkeys(("bert-base", "bert-large", "gpt2-medium", "qwen2.5-0.5b"), 16),
    **dict.fromkeys(("vit-base", "vit-large"), 64),
    **dict.fromkeys(("resnet101", "resnext101", "efficientnet-b7"), 96),
    **dict.fromkeys(("stylegan2", "stylegan2-critic"), 256),
}
LARGE_FP16 = LARGE | dict.fromkeys(("stylegan2", "stylegan2-critic"), 32)
"""A CPU needs minutes for their convolutions in fp16 at 64 pixels and more; fp32 has the layers of the full size."""
LEAST, MOST = 1 / 64, 32.0
"""Root mean square of a layer's outputs. As published: 0.02 of embeddings, 16 of EfficientNet's squeeze."""
ZEROS = 0.7
"""Share of a layer's outputs; behind ReLU one half."""


class Layer(NamedTuple):
    """Outputs of one layer in one pass."""

    name: str
    root_mean_square: float
    zeros: float


def layers(name: str, size: int, dtype: torch.dtype) -> list[Layer]:
    """Every layer of a model that serves a random input, and its output: innermost ones, and those with own weights."""
    spec = SHIPPED[name]
    family = registry.family(spec)
    torch.manual_seed(1)
    module = cast(serving(family)(spec, CPU, size), dtype).eval()
    found: list[Layer] = []

    def note(layer: str) -> Callable[[object, object, object], None]:
        def hook(_module: object, _inputs: object, output: object) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                values = tensor.float()
                root = math.sqrt(values.square().mean().item())
                found.append(Layer(layer, root, (values == 0).float().mean().item()))

        return hook

    for layer, part in module.named_modules():
        if not [*part.children()] or [*part.parameters(recurse=False)]:
            part.register_forward_hook(note(layer))
    batch = family.batch(spec, Feed(batch_size=1, input_size=size, device=CPU, dtype=dtype, seed=1))
    with torch.inference_mode():
        output = family.forward(module, batch)
    note("output")(None, None, output)
    return found


def require_scale(name: str, size: int, dtype: torch.dtype) -> None:
    found = layers(name, size, dtype)
    assert len(found) > 3
    wrong = [one for one in found if not LEAST <= one.root_mean_square <= MOST or one.zeros > ZEROS]
    assert wrong == []


def test_every_shipped_model_is_looked_at() -> None:
    """Also one that is added later."""
    assert SMALL.keys() | LARGE.keys() == SHIPPED.keys()
    assert not SMALL.keys() & LARGE.keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", SMALL)
def test_layers_of_quick_models_keep_their_scale(name: str, dtype: torch.dtype) -> None:
    """Root mean square near one, and no zeros but those of ReLU, in each layer and the output."""
    require_scale(name, SMALL[name], dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "sizes"), [(torch.float32, LARGE), (torch.float16, LARGE_FP16)], ids=["fp32", "fp16"]
)
@pytest.mark.parametrize("name", LARGE)
def test_layers_of_large_models_keep_their_scale(name: str, dtype: torch.dtype, sizes: dict[str, int]) -> None:
    """The same for those that take seconds."""
    require_scale(name, sizes[name], dtype)


def test_equal_seeds_give_equal_weights() -> None:
    """Scales follow from shapes, not from numbers that a device computed."""
    weights = []
    for _ in range(2):
        torch.manual_seed(7)
        spec = SHIPPED["efficientnet-b0"]
        weights.append(registry.family(spec).build(spec, CPU, 64).state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
