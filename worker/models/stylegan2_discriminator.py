"""StyleGAN2's discriminator alone: the critic of images, and its half of a training step. See stylegan2.py.

Trained alone it is shown random images in the place of those that a generator would have made.
"""

import torch
from torch.nn import functional

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed, arguments
from worker.models.stylegan2_networks import Discriminator


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """The network with random weights. Raises ValueError for a resolution that is no power of two."""
    sizes = {key: int(value) for key, value in arguments(spec, input_size).items()}
    with torch.device(device):
        return Discriminator(sizes["resolution"], sizes["channel_base"], sizes["channel_max"])


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Random images that it is to take for real, and others that it is not."""
    images = feed.inputs(spec)
    return images | {"made": feed.normal(tuple(images["images"].shape))}


def forward(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """A score for each image."""
    scores: torch.Tensor = module(batch["images"])
    return scores


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Low where real images are taken for real, and made ones are not."""
    return doubt(-module(batch["made"])) + doubt(forward(module, batch))


def doubt(scores: torch.Tensor) -> torch.Tensor:
    """The logistic loss of what should score high; in fp32, as CUDA's autocast has it and a CPU's has not."""
    return functional.softplus(-scores.float()).mean()
