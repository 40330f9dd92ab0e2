"""A launch-bound cell: layers that cost the host some microseconds each, and a GPU less than that."""

import torch
from torch import nn

LAYERS = 60
WIDTH = 64


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out

    def get_example_inputs(self, batch_size: int) -> torch.Tensor:
        return torch.randn(batch_size, WIDTH)
