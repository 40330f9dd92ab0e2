"""U-Net for segmentation: Ronneberger, Fischer, Brox (2015), arXiv:1505.04597.

Five levels of 64 to 1024 channels with transposed convolutions, as published; padded convolutions with batch
normalisation, as commonly implemented. With 3 channels in and 2 classes out that is 31,037,698 parameters.
"""

import itertools
from typing import Final

import torch
from torch import nn

from protocol.cell import ModelSpec
from worker.models.balance import RELU, RELU_POOLED, Convolution, Doubling
from worker.models.base import Batch, Feed, applied_to, integers

_MERGED: Final = (RELU + 1) / 2
"""Mean square of merged features: half from the skip connection, half from the level below."""


class UNet(nn.Module):
    """Turns images (batch, 3, side, side) into logits (batch, classes, side, side). side: a multiple of 2 ** depth."""

    def __init__(self, width: int, depth: int, num_classes: int) -> None:
        super().__init__()
        levels = list(itertools.pairwise(width << level for level in range(depth + 1)))
        self.inlet = _double(3, width, 1.0)
        self.down = nn.ModuleList(_double(upper, lower, RELU_POOLED) for upper, lower in levels)
        self.up = nn.ModuleList(Doubling(lower, upper) for upper, lower in reversed(levels))
        self.merge = nn.ModuleList(_double(lower, upper, _MERGED) for upper, lower in reversed(levels))
        self.head = Convolution(width, num_classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of every pixel."""
        features = self.inlet(images)
        passed = []
        for down in self.down:
            passed.append(features)
            features = down(nn.functional.max_pool2d(features, 2))
        for up, merge in zip(self.up, self.merge, strict=True):
            features = merge(torch.cat([passed.pop(), up(features)], dim=1))
        logits: torch.Tensor = self.head(features)
        return logits


def _double(inputs: int, outputs: int, moment: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels, square in ((inputs, moment), (outputs, RELU)):
        convolution = Convolution(channels, outputs, 3, 1, 1, bias=False, moment=square)  # the normalisation has a bias
        layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights in fp32, directly on `device`. input_size is not used."""
    with torch.device(device):
        return UNet(**integers(spec, "width", "depth", "num_classes"))


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Make random images, and a random class for each pixel as labels."""
    inputs = feed.inputs(spec)
    count, _, *sides = inputs["images"].shape
    return inputs | {"labels": feed.classes(int(spec.config["num_classes"]), (count, *sides))}


forward = applied_to("images")


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross entropy of the predicted classes of all pixels."""
    return nn.functional.cross_entropy(forward(module, batch), batch["labels"])
