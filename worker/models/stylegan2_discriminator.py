"""StyleGAN2's discriminator alone, trained on random images in place of generated ones."""

import torch
from torch.nn import functional

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed, applied_to, arguments
from worker.models.stylegan2_networks import Discriminator


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the discriminator with random weights. Raises ValueError unless the image side is a power of 2 above 4.

    input_size: that side, if the model's configuration has "size" as its resolution.
    """
    sizes = {key: int(value) for key, value in arguments(spec, input_size).items()}
    with torch.device(device):
        return Discriminator(sizes["resolution"], sizes["channel_base"], sizes["channel_max"])


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Make random images in place of real ones ("images") and of generated ones ("made")."""
    images = feed.inputs(spec)
    return images | {"made": feed.normal(tuple(images["images"].shape))}


forward = applied_to("images")


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the loss: low if the discriminator scores real images high, and generated ones low."""
    return doubt(-module(batch["made"])) + doubt(forward(module, batch))


def doubt(scores: torch.Tensor) -> torch.Tensor:
    """Return the mean of softplus(-score), low for high scores. It is computed in fp32, as CUDA's autocast does."""
    return functional.softplus(-scores.float()).mean()
