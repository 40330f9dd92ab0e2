"""Scales of random weights that keep the outputs of each layer near one in every precision.

moment: mean square of a layer's inputs. A convolution with weights of variance v has outputs of variance
n * v * moment, if each output depends on n inputs.
In evaluation an untrained batch normalisation divides by one, so that scales multiply from layer to layer until fp16
holds zeros or infinities. So either the kernel is drawn for its inputs (`Convolution`), or the running variance is set
to that of the kernel's outputs (`expect`), as training would. All residual branches together add as much variance as
the main path has. Otherwise each doubles it, and the outputs of ResNet-101 in fp16 are NaN.

The scales need no forward pass, only sizes: equal seeds give equal weights on equal devices.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import nn

RELU: Final = 0.5
"""Mean square of the ReLU of a standard normal number."""
RELU_POOLED: Final = 1.54
"""Mean square of standard normal numbers after ReLU and a max pooling of 2 x 2."""


class Convolution(nn.Conv2d):
    """Convolution whose outputs have variance one for inputs of mean square `moment`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        *,
        bias: bool = True,
        moment: float = RELU,
    ) -> None:
        self._moment = moment
        super().__init__(inputs, outputs, kernel, stride, padding, bias=bias)

    def reset_parameters(self) -> None:
        """Set random weights, scaled for the inputs, and a bias of zero."""
        fit(self, self._moment)


class Doubling(nn.ConvTranspose2d):
    """Transposed convolution that doubles the side, scaled like Convolution. Each output depends on one input pixel."""

    def __init__(self, inputs: int, outputs: int, *, moment: float = RELU) -> None:
        self._moment = moment
        super().__init__(inputs, outputs, kernel_size=2, stride=2)

    def reset_parameters(self) -> None:
        """Set random weights, scaled for the inputs, and a bias of zero."""
        nn.init.normal_(self.weight, std=(self.in_channels * self._moment) ** -0.5)
        _clear(self.bias)


def fit(layer: nn.Conv2d | nn.Linear, moment: float) -> None:
    """Set random weights for which inputs of mean square `moment` give outputs of variance one, and a bias of zero."""
    nn.init.normal_(layer.weight, std=(layer.weight[0].numel() * moment) ** -0.5)
    _clear(layer.bias)


def _clear(bias: torch.Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)


def expect(norm: nn.BatchNorm2d, convolution: nn.Conv2d, moment: float) -> None:
    """Set the running variance of `norm` to that of the convolution's outputs. moment: mean square of the inputs.

    The convolution must have torchvision's random weights (Kaiming normal, fan-out).
    """
    assert norm.running_var is not None
    norm.running_var.fill_(2 * convolution.weight.shape[1] / convolution.out_channels * moment)


def residual(norms: Sequence[nn.BatchNorm2d]) -> float:
    """Scale down all residual branches: set the weights of `norms`, the last normalisation of each branch.

    n branches get weights of 1 / sqrt(n). Returns 1 / n, the variance of one branch's output relative to the main path.
    """
    for norm in norms:
        nn.init.constant_(norm.weight, len(norms) ** -0.5)
    return 1 / max(len(norms), 1)
