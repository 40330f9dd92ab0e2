"""Image classifiers of torchvision, by the name of their builder: ResNet, ResNeXt, EfficientNet, ViT."""

from typing import Final

import torch
from torchvision.models import get_model
from torchvision.models.resnet import BasicBlock, Bottleneck

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed, applied_to, arguments

_CLASSES: Final = 1000


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """The model with random weights. The configuration holds `builder` and its arguments."""
    options = arguments(spec, input_size)
    builder = str(options.pop("builder"))
    with torch.device(device):
        module: torch.nn.Module = get_model(builder, weights=None, **options)
    _balance(module)
    return module


def _balance(module: torch.nn.Module) -> None:
    """Scale the residual branches, so that together they add about as much as the path beside them.

    Otherwise each doubles the variance in evaluation: the outputs of ResNet-101 in fp16 are NaN after 33 blocks.
    """
    blocks = [block for block in module.modules() if isinstance(block, BasicBlock | Bottleneck)]
    for block in blocks:
        last = block.bn3 if isinstance(block, Bottleneck) else block.bn2
        torch.nn.init.constant_(last.weight, len(blocks) ** -0.5)


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Random images and random classes."""
    classes = int(spec.config.get("num_classes", _CLASSES))
    return feed.inputs(spec) | {"labels": feed.classes(classes, (feed.batch_size,))}


forward = applied_to("images")


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy."""
    return torch.nn.functional.cross_entropy(forward(module, batch), batch["labels"])
