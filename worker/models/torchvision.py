"""Image classifiers of torchvision, by the name of their builder: ResNet, ResNeXt, EfficientNet, ViT.

Attention is torch's own (`nn.MultiheadAttention`), which in evaluation takes its fused path.
"""

from typing import Final

import torch
from torchvision.models import get_model

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed, arguments

_CLASSES: Final = 1000


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """The model with random weights. Beside `builder`, the configuration is what the builder is called with."""
    options = arguments(spec, input_size)
    builder = str(options.pop("builder"))
    with torch.device(device):
        module: torch.nn.Module = get_model(builder, weights=None, **options)
    return module


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Random images and random classes."""
    classes = int(spec.config.get("num_classes", _CLASSES))
    return feed.inputs(spec) | {"labels": feed.classes(classes, (feed.batch_size,))}


def forward(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Logits of every class."""
    logits: torch.Tensor = module(batch["images"])
    return logits


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy."""
    return torch.nn.functional.cross_entropy(forward(module, batch), batch["labels"])
