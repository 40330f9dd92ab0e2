"""A model of one's own, with everything that gpubench looks for. Only the class itself is needed, and inputs.

`gpubench-orchestrate -m docs/examples/own_model.py:TwoTowers --allow-code` measures it.
"""

import torch
from torch import nn

VOCABULARY = 10_000


class TwoTowers(nn.Module):
    """Scores how well texts and images belong together."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(VOCABULARY, width)
        self.pixels = nn.Sequential(nn.Conv2d(3, width, 16, stride=16), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, text: torch.Tensor, images: dict[str, torch.Tensor], scale: float = 1.0) -> torch.Tensor:
        """Logits of every text with every image."""
        return scale * self.words(text) @ self.pixels(images["left"] + images["right"]).T

    def get_example_inputs(self, batch_size: int) -> tuple[tuple[torch.Tensor, ...], dict[str, object]]:
        """What forward is called with: a tuple for its arguments, a dict for its keywords, or both, as here.

        Made on the CPU in fp32; gpubench moves them to the device, and casts them where the weights are cast.
        """
        text = torch.randint(VOCABULARY, (batch_size, 32))
        images = {side: torch.randn(batch_size, 3, 64, 64) for side in ("left", "right")}
        return (text,), {"images": images, "scale": 0.5}

    def loss(self, outputs: torch.Tensor) -> torch.Tensor:
        """What training makes smaller. gpubench does the backward pass and the optimizer's step, and times each."""
        labels = torch.arange(len(outputs), device=outputs.device)
        return nn.functional.cross_entropy(outputs, labels)

    def samples(self, batch: tuple[tuple[torch.Tensor, ...], dict[str, object]]) -> int:
        """How many samples a batch counts as in the throughput: here a text and its pair of images are one."""
        (text,), _ = batch
        return len(text)


class OwnStep(TwoTowers):
    """The same, trained by its own code: gpubench times whole steps."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1e-3)

    def train_step(self, batch: tuple[tuple[torch.Tensor, ...], dict[str, object]]) -> torch.Tensor:
        """A whole step: forward, backward, optimizer. Returns the loss."""
        arguments, keywords = batch
        self.optimizer.zero_grad()
        loss = self.loss(self(*arguments, **keywords))
        loss.backward()
        self.optimizer.step()
        return loss
