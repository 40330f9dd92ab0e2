"""Image classifiers of torchvision: ResNet, ResNeXt, EfficientNet, ViT."""

from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torchvision.models import EfficientNet, ResNet, VisionTransformer, get_model
from torchvision.models.efficientnet import MBConv
from torchvision.models.resnet import BasicBlock, Bottleneck

from protocol.cell import ModelSpec
from worker.models import balance
from worker.models.base import Batch, Feed, applied_to, arguments

_CLASSES: Final = 1000
_STEM_POOLED: Final = 2.53
"""Mean square of the outputs of ResNet's stem: ReLU and a max pooling of 3 x 3 [sim]."""
_SILU: Final = 0.355
"""Mean square of SiLU of a standard normal number."""
_GATE: Final = 0.25
"""Mean square of EfficientNet's squeeze-and-excitation factors: sigmoids of numbers near zero."""


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights.

    spec.config: `builder` (torchvision's name of the model) and its arguments. A value "size" stands for `input_size`.
    """
    options = arguments(spec, input_size)
    builder = str(options.pop("builder"))
    with torch.device(device):
        module: torch.nn.Module = get_model(builder, weights=None, **options)
    for kind, balanced in _BALANCED.items():
        if isinstance(module, kind):
            balanced(module)
    return module


def _resnet(module: ResNet) -> None:
    balance.expect(module.bn1, module.conv1, 1.0)
    blocks = [block for stage in (module.layer1, module.layer2, module.layer3, module.layer4) for block in stage]
    branches = [_pairs(block) for block in blocks]
    added = balance.residual([branch[-1][0] for branch in branches])
    moment = _STEM_POOLED
    for block, ((norm, convolution), *further) in zip(blocks, branches, strict=True):
        balance.expect(norm, convolution, moment)
        for later in further:
            balance.expect(*later, balance.RELU)
        if block.downsample is not None:
            balance.expect(block.downsample[1], block.downsample[0], moment)
            moment = balance.RELU
        moment += added * balance.RELU


def _pairs(block: BasicBlock | Bottleneck) -> list[tuple[nn.BatchNorm2d, nn.Conv2d]]:
    pairs = [(block.bn1, block.conv1), (block.bn2, block.conv2)]
    return [*pairs, (block.bn3, block.conv3)] if isinstance(block, Bottleneck) else pairs


def _efficientnet(module: EfficientNet) -> None:
    stem, *stages, last = module.features
    balance.expect(stem[1], stem[0], 1.0)
    blocks: list[MBConv] = [block for stage in stages for block in stage]
    added = balance.residual([block.block[-1][1] for block in blocks if block.use_res_connect])
    moment = _SILU
    for block in blocks:
        *expansion, depthwise, _, projection = block.block
        for layers in expansion:
            balance.expect(layers[1], layers[0], moment)
        balance.fit(depthwise[0], _SILU)  # torchvision overlooks that each output sees one channel
        balance.expect(projection[1], projection[0], _SILU * _GATE)
        moment = moment + added if block.use_res_connect else 1.0
    balance.expect(last[1], last[0], moment)


def _transformer(module: VisionTransformer) -> None:
    balance.fit(module.heads.head, 1.0)  # torchvision's is zero


_BALANCED: Final[dict[type[nn.Module], Callable[[nn.Module], None]]] = {
    ResNet: _resnet,
    EfficientNet: _efficientnet,
    VisionTransformer: _transformer,
}


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Make random images, and random classes as labels."""
    classes = int(spec.config.get("num_classes", _CLASSES))
    return feed.inputs(spec) | {"labels": feed.classes(classes, (feed.batch_size,))}


forward = applied_to("images")


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross entropy of the predicted classes."""
    return torch.nn.functional.cross_entropy(forward(module, batch), batch["labels"])
