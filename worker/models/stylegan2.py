"""StyleGAN2: generator of images, and discriminator for its training. See stylegan2_networks.py.

Load and inference cells build the generator alone. A training step is one step of each network with the non-saturating
logistic loss (Goodfellow et al. 2014). Regularisation, style mixing and averaged weights are omitted.
"""

from typing import Final

import torch
from torch import nn

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed, Objective, applied_to, arguments
from worker.models.stylegan2_discriminator import doubt
from worker.models.stylegan2_discriminator import loss as critics_loss
from worker.models.stylegan2_networks import Discriminator, Generator

_GENERATORS: Final = ("resolution", "latent_size", "mapping_layers", "channel_base", "channel_max")


class StyleGan2(nn.Module):
    """Generator and discriminator, for images of one resolution."""

    def __init__(
        self, resolution: int, latent_size: int, mapping_layers: int, channel_base: int, channel_max: int
    ) -> None:
        super().__init__()
        self.generator = Generator(resolution, latent_size, mapping_layers, channel_base, channel_max)
        self.discriminator = Discriminator(resolution, channel_base, channel_max)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Generate images from latents (batch, latent_size)."""
        images: torch.Tensor = self.generator(latents)
        return images


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build both networks with random weights. Raises ValueError unless the resolution is a power of two above 4.

    input_size: side of the images, if the model's configuration has "size" as its resolution.
    """
    with torch.device(device):
        return StyleGan2(**_sizes(spec, input_size))


def build_for_inference(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the generator alone, with random weights. Raises ValueError unless the resolution is a power of 2 above 4.

    input_size: side of the images, if the model's configuration has "size" as its resolution.
    """
    sizes = _sizes(spec, input_size)
    with torch.device(device):
        return Generator(*(sizes[key] for key in _GENERATORS))


def _sizes(spec: ModelSpec, input_size: int | None) -> dict[str, int]:
    return {key: int(value) for key, value in arguments(spec, input_size).items()}


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Make random latents for the generator, and random "images", (batch, 3, side, side), that stand for real ones."""
    side = int(arguments(spec, feed.input_size)["resolution"])
    return feed.inputs(spec) | {"images": feed.normal((feed.batch_size, 3, side, side))}


forward = applied_to("latents")


def objectives(module: torch.nn.Module) -> tuple[Objective, ...]:
    """Return the parts of a training step in order: the discriminator's, then the generator's."""
    return (
        Objective("discriminator", discriminator_loss, lambda gan: gan.get_submodule("discriminator").parameters()),
        Objective("generator", loss, lambda gan: gan.get_submodule("generator").parameters()),
    )


def discriminator_loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the discriminator's loss: low if it scores real images high, and generated ones low."""
    with torch.no_grad():
        made = forward(module, batch)
    return critics_loss(module.get_submodule("discriminator"), {"images": batch["images"], "made": made})


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the generator's loss: low if the discriminator scores its images high. module: has both networks."""
    discriminator = module.get_submodule("discriminator")
    return doubt(discriminator(forward(module, batch)))
