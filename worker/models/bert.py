"""BERT with its masked-language-model head, from transformers (4 or 5). Attention: default (sdpa)."""

from typing import Final

import torch

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed
from worker.models.huggingface import IGNORED, BertConfig, BertForMaskedLM, forward, loss

_PREDICTED: Final = 0.15
"""Share of tokens to predict, as in the training of BERT."""
__all__ = ["batch", "build", "forward", "loss"]


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights in fp32, directly on `device`. input_size is not used."""
    with torch.device(device):
        module: torch.nn.Module = BertForMaskedLM(BertConfig(**spec.config))
    return module


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Make random tokens without padding. Labels: the first token and 15 % of the others, IGNORED elsewhere."""
    inputs = feed.inputs(spec)
    tokens = inputs["input_ids"]
    predicted = feed.uniform(tuple(tokens.shape)) < _PREDICTED
    predicted[:, 0] = True  # a short sequence with nothing to predict would have no loss
    return inputs | {"labels": torch.where(predicted, tokens, IGNORED)}
