"""LSTM language model: embedding, LSTM layers, and a head that predicts the next token.

Under CUDA autocast torch runs an LSTM in fp16 in any precision. In bf16 without autocast it compacts the recurrent
weights at every call. Both are kept, because users of torch get them too.
"""

import torch
from torch import nn

from protocol.cell import ModelSpec
from worker.models.base import Batch, applied_to, described, integers


class LanguageModel(nn.Module):
    """Turns tokens (batch, length) into logits (batch, length, vocabulary)."""

    def __init__(self, vocab_size: int, embedding_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.lstm = nn.LSTM(embedding_size, hidden_size, num_layers, batch_first=True)
        self.head = nn.Linear(hidden_size, vocab_size)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return, at each token, the logits of the token that follows it."""
        hidden, _ = self.lstm(self.embedding(tokens))
        logits: torch.Tensor = self.head(hidden)
        return logits


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights in fp32, directly on `device`. input_size is not used."""
    sizes = integers(spec, "vocab_size", "embedding_size", "hidden_size", "num_layers")
    with torch.device(device):
        return LanguageModel(**sizes)


batch = described
forward = applied_to("tokens")


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross entropy of predicting each token from those before it."""
    logits = forward(module, batch)[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten())
