"""Image classifiers of torchvision, by the name of their builder.

Memory format is left at torch's default (contiguous). channels_last is faster for convolutions in half precision, and
is to become a dimension of its own rather than a silent choice.
"""

from typing import Final

import torch
from torchvision.models import get_model

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed

_CLASSES: Final = 1000


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """The model with random weights. Beside `builder`, the configuration is what the builder is called with."""
    arguments = {key: value for key, value in spec.config.items() if key != "builder"}
    with torch.device(device):
        module: torch.nn.Module = get_model(str(spec.config["builder"]), weights=None, **arguments)
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
