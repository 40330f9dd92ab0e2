"""Variational autoencoder: Kingma and Welling (2013), arXiv:1312.6114, with the networks of autoencoder.py."""

import torch
from torch import nn

from protocol.cell import ModelSpec
from worker.models.autoencoder import SIZES, decoder, encoder
from worker.models.base import Batch, described, integers


class VariationalAutoEncoder(nn.Module):
    """Reconstructs images (batch, 3, side, side). Also returns the mean and log variance of their codes."""

    def __init__(self, width: int, stages: int, latent_channels: int) -> None:
        super().__init__()
        self.encoder = encoder(width, stages, 2 * latent_channels)
        self.decoder = decoder(width, stages, latent_channels)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return (images decoded from a random draw of the code, mean of the code, log variance of the code)."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        code = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(code), mean, log_variance


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights in fp32, directly on `device`. input_size is not used."""
    with torch.device(device):
        return VariationalAutoEncoder(**integers(spec, *SIZES))


batch = described


def forward(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the reconstructed images, (batch, 3, side, side)."""
    again: torch.Tensor
    again, _, _ = module(batch["images"])
    return again


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the negative evidence lower bound, divided by the number of elements of the images.

    Without the division it would overflow fp16.
    """
    images = batch["images"]
    again, *code = module(images)
    mean, log_variance = (part.float() for part in code)  # a sum over all images overflows half precision
    reconstruction = 0.5 * nn.functional.mse_loss(again, images)
    divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum()
    total: torch.Tensor = reconstruction + divergence / images.numel()
    return total
