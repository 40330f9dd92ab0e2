"""Convolutional autoencoder: Hinton and Salakhutdinov (Science 313, 2006), with present-day layers."""

import itertools
from typing import Final

import torch
from torch import nn

from protocol.cell import ModelSpec
from worker.models.balance import RELU, Convolution
from worker.models.base import Batch, applied_to, described, integers

SIZES: Final = ("width", "stages", "latent_channels")


class AutoEncoder(nn.Module):
    """Turns images (batch, 3, side, side) into images of the same size. side is a multiple of 2 ** stages."""

    def __init__(self, width: int, stages: int, latent_channels: int) -> None:
        super().__init__()
        self.encoder = encoder(width, stages, latent_channels)
        self.decoder = decoder(width, stages, latent_channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the reconstructed images."""
        again: torch.Tensor = self.decoder(self.encoder(images))
        return again


def encoder(width: int, stages: int, code: int) -> nn.Sequential:
    """Make layers from images to `code` channels. Stage i, from 0, halves the side and has width * 2 ** i channels."""
    widths = [3, *(width << stage for stage in range(stages))]
    halving = [
        nn.Sequential(_convolution(upper, lower, stride=2, moment=RELU if stage else 1.0), _convolution(lower, lower))
        for stage, (upper, lower) in enumerate(itertools.pairwise(widths))
    ]
    return nn.Sequential(*halving, Convolution(widths[-1], code, 1))


def decoder(width: int, stages: int, code: int) -> nn.Sequential:
    """Make layers from `code` channels to images. Each of the stages doubles the side.

    width: channels at full and at half size; twice as many at each smaller one, as in `encoder`.
    """
    widths = [width << stage for stage in reversed(range(stages))]
    # Repeated pixels: transposed convolutions leave a checkerboard (Odena et al., Distill 2016).
    doubling = [
        nn.Sequential(
            _convolution(lower, lower, moment=RELU if stage else 1.0),
            nn.Upsample(scale_factor=2),
            _convolution(lower, upper),
        )
        for stage, (lower, upper) in enumerate(itertools.pairwise([*widths, width]))
    ]
    return nn.Sequential(Convolution(code, widths[0], 1, moment=1.0), *doubling, Convolution(width, 3, 3, padding=1))


def _convolution(inputs: int, outputs: int, stride: int = 1, moment: float = RELU) -> nn.Sequential:
    convolution = Convolution(inputs, outputs, 3, stride, 1, bias=False, moment=moment)  # the normalisation has a bias
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights in fp32, directly on `device`. input_size is not used."""
    with torch.device(device):
        return AutoEncoder(**integers(spec, *SIZES))


batch = described
forward = applied_to("images")


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean squared error of the reconstructed images."""
    return nn.functional.mse_loss(forward(module, batch), batch["images"])
