"""The two networks of StyleGAN2: Karras et al. (2019), arXiv:1912.04958, configuration F.

    latents ── mapping ──▶ style ────────┬─────────────────┬──────────── …
                                         ▼                 ▼
    generator:      constant 4 x 4 ─── layer ──────── block 8 x 8 ────── … ── block
                                         └── RGB ────────▶ + ─────────── … ──── + ──▶ image

    discriminator:  image ── from RGB ── residual blocks ── minibatch deviation ── convolution ── dense ──▶ score

At 1024 pixels that is 30,370,060 and 29,012,513 parameters, as published. Weights are scaled when used (the equalised
learning rate). Features are modulated instead of weights, so that a batch is one convolution (as in NVIDIA's
stylegan2-ada-pytorch). The filters around resampling, CUDA kernels there, are depthwise convolutions here.
"""

import math
from typing import Final

import torch
from torch import nn
from torch.nn import functional

SMALLEST: Final = 4

_TAPS: Final = (1.0, 3.0, 3.0, 1.0)
_GROUP: Final = 4
_MAPPING_RATE: Final = 0.01
_EPSILON: Final = 1e-8


def channels(resolution: int, base: int, most: int) -> int:
    """Return the number of channels of features of side `resolution`: base // resolution, but at most `most`."""
    return min(base // resolution, most)


def _require_doublings(resolution: int) -> None:
    """Raise ValueError unless `resolution` (image side) is a power of two above 4."""
    if resolution <= SMALLEST or resolution.bit_count() != 1:
        raise ValueError(f"the image side of StyleGAN2 must be a power of two above {SMALLEST}, not {resolution}")


def _per_channel(values: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Return values (batch, channels) as (batch, channels, 1, 1), in the type of `features`."""
    return values.to(features.dtype)[:, :, None, None]


# ── layers ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Activation(nn.LeakyReLU):
    """Leaky ReLU, scaled by sqrt(2) so that the variance stays about the same."""

    def __init__(self) -> None:
        super().__init__(negative_slope=0.2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(features) * math.sqrt(2)


class _Linear(nn.Linear):
    """Linear layer: (batch, inputs) to (batch, outputs). rate: learning rate relative to the other layers."""

    def __init__(self, inputs: int, outputs: int, *, bias: float = 0.0, rate: float = 1.0) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight, std=1 / rate)
        nn.init.constant_(self.bias, bias / rate)
        self._scale = rate / math.sqrt(inputs)
        self._rate = rate

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return functional.linear(features, self.weight * self._scale, self.bias * self._rate)


class Filter(nn.Module):
    """Low-pass filter of each channel, for changes of resolution. padding: zeros on each side. gain: output factor.

    kernel: buffer of shape (1, 1, 4, 4), already multiplied by `gain`.
    """

    kernel: torch.Tensor

    def __init__(self, padding: int, gain: float = 1.0) -> None:
        super().__init__()
        taps = torch.tensor(_TAPS) / sum(_TAPS)
        self.register_buffer("kernel", gain * taps.outer(taps).expand(1, 1, -1, -1).contiguous())
        self._padding = padding

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Apply the filter. The side of the features changes by 2 x padding - 3."""
        return functional.conv2d(features, self._kernels(features), padding=self._padding, groups=features.shape[1])

    def doubled(self, features: torch.Tensor) -> torch.Tensor:
        """Put zeros between the pixels, then apply the filter. The side s becomes 2 x (s + 1 - padding)."""
        kernels = self._kernels(features)
        return functional.conv_transpose2d(features, kernels, stride=2, padding=self._padding, groups=features.shape[1])

    def _kernels(self, features: torch.Tensor) -> torch.Tensor:
        return self.kernel.to(features.dtype).expand(features.shape[1], -1, -1, -1)


class _Convolution(nn.Conv2d):
    """Convolution of the discriminator. down: filter, then halve the side."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, bias: bool = True, down: bool = False) -> None:
        stride, padding = (2, 0) if down else (1, kernel // 2)
        super().__init__(inputs, outputs, kernel, stride, padding, bias=bias)
        nn.init.normal_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self.before = Filter(padding=(kernel + 1) // 2) if down else nn.Identity()
        self._scale = 1 / math.sqrt(inputs * kernel**2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        weight = self.weight * self._scale
        return functional.conv2d(self.before(features), weight, self.bias, self.stride, self.padding)


class ModulatedConvolution(nn.Module):
    """Convolution of the generator. A style scales its input channels. latent: numbers in the style of one image.

    demodulate: divide the outputs by their expected standard deviation. up: double the side, then filter.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, latent: int, *, demodulate: bool = True, up: bool = False
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.style = _Linear(latent, inputs, bias=1.0)
        self.after = Filter(padding=1, gain=4.0) if up else None
        self._demodulate = demodulate
        self._scale = 1 / math.sqrt(inputs * kernel**2)

    def forward(self, features: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """Convolve features (batch, inputs, side, side), scaled by style (batch, latent)."""
        weight = self.weight * self._scale
        factors = self.style(style)
        features = features * _per_channel(factors, features)
        if self.after is None:
            features = functional.conv2d(features, weight, padding=weight.shape[-1] // 2)
        else:
            features = self.after(functional.conv_transpose2d(features, weight.transpose(0, 1), stride=2))
        if self._demodulate:
            variances = functional.linear(factors.square(), weight.square().sum((2, 3)))
            features = features * _per_channel((variances + _EPSILON).rsqrt(), features)
        return features


class _StyledLayer(nn.Module):
    """Modulated convolution, then random noise (one number a pixel, new in every pass), bias, activation."""

    def __init__(self, inputs: int, outputs: int, latent: int, *, up: bool = False) -> None:
        super().__init__()
        self.convolution = ModulatedConvolution(inputs, outputs, 3, latent, up=up)
        self.noise_strength = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1, outputs))
        self.activation = _Activation()

    def forward(self, features: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        features = self.convolution(features, style)
        noise = torch.randn_like(features[:, :1]) * self.noise_strength.to(features.dtype)
        activated: torch.Tensor = self.activation(features + noise + _per_channel(self.bias, features))
        return activated


class _ToRgb(nn.Module):
    """Turns a block's features into its contribution to the image (batch, 3, side, side)."""

    def __init__(self, inputs: int, latent: int) -> None:
        super().__init__()
        self.convolution = ModulatedConvolution(inputs, 3, 1, latent, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(1, 3))

    def forward(self, features: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        image: torch.Tensor = self.convolution(features, style)
        return image + _per_channel(self.bias, image)


# ── generator ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _SynthesisBlock(nn.Module):
    """Block of the generator: doubles the side of the features and of the image."""

    def __init__(self, inputs: int, outputs: int, latent: int) -> None:
        super().__init__()
        self.first = _StyledLayer(inputs, outputs, latent, up=True)
        self.second = _StyledLayer(outputs, outputs, latent)
        self.to_rgb = _ToRgb(outputs, latent)
        self.filter = Filter(padding=1, gain=4.0)

    def forward(
        self, features: torch.Tensor, image: torch.Tensor, style: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.second(self.first(features, style), style)
        return features, self.filter.doubled(image) + self.to_rgb(features, style)


class Generator(nn.Module):
    """Turns latents (batch, latent) into images (batch, 3, resolution, resolution).

    latent: length of one image's latent. layers: number of layers of the mapping network. base, most: features of side
    s have base // s channels, but at most `most`.
    """

    def __init__(self, resolution: int, latent: int, layers: int, base: int, most: int) -> None:
        _require_doublings(resolution)
        super().__init__()
        mapping = (
            module for _ in range(layers) for module in (_Linear(latent, latent, rate=_MAPPING_RATE), _Activation())
        )
        self.mapping = nn.Sequential(nn.RMSNorm(latent, eps=_EPSILON, elementwise_affine=False), *mapping)
        width = channels(SMALLEST, base, most)
        self.constant = nn.Parameter(torch.randn(1, width, SMALLEST, SMALLEST))
        self.first = _StyledLayer(width, width, latent)
        self.to_rgb = _ToRgb(width, latent)
        self.blocks = nn.ModuleList()
        side = SMALLEST
        while side < resolution:
            inputs, side = channels(side, base, most), 2 * side
            self.blocks.append(_SynthesisBlock(inputs, channels(side, base, most), latent))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Make images from latents (batch, latent). One style for each image modulates all layers."""
        style = self.mapping(latents)
        features = self.first(self.constant.repeat(len(latents), 1, 1, 1), style)
        image: torch.Tensor = self.to_rgb(features, style)
        for block in self.blocks:
            features, image = block(features, image, style)
        return image


# ── discriminator ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _ResidualBlock(nn.Module):
    """Block of the discriminator: halves the side. The sum of its two paths is scaled to the variance of one path."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.straight = nn.Sequential(
            _Convolution(inputs, inputs, 3), _Activation(), _Convolution(inputs, outputs, 3, down=True), _Activation()
        )
        self.skip = _Convolution(inputs, outputs, 1, bias=False, down=True)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        both: torch.Tensor = (self.straight(features) + self.skip(features)) * math.sqrt(0.5)
        return both


class MinibatchDeviation(nn.Module):
    """Appends a channel: mean standard deviation in groups of 4 images, or of 2 or 1 if 4 does not divide the batch."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Append the channel. It is computed in fp32, because the 1e-8 under the root would be zero in fp16."""
        group = math.gcd(len(features), _GROUP)
        variances = features.float().view(group, -1, *features.shape[1:]).var(0, correction=0)
        deviations = (variances + _EPSILON).sqrt().mean((1, 2, 3), keepdim=True).to(features.dtype)
        return torch.cat([features, deviations.repeat(group, 1, *features.shape[2:])], dim=1)


class Discriminator(nn.Sequential):
    """Turns images (batch, 3, resolution, resolution) into scores (batch, 1).

    base, most: features of side s have base // s channels, but at most `most`.
    """

    def __init__(self, resolution: int, base: int, most: int) -> None:
        _require_doublings(resolution)
        layers: list[nn.Module] = [_Convolution(3, channels(resolution, base, most), 1), _Activation()]
        side = resolution
        while side > SMALLEST:
            layers.append(_ResidualBlock(channels(side, base, most), channels(side // 2, base, most)))
            side //= 2
        width = channels(SMALLEST, base, most)
        layers += [MinibatchDeviation(), _Convolution(width + 1, width, 3), _Activation(), nn.Flatten()]
        layers += [_Linear(width * SMALLEST**2, width), _Activation(), _Linear(width, 1)]
        super().__init__(*layers)
