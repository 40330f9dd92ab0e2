"""Language models that read from left to right and can write: GPT-2 and Qwen2, from transformers (4 or 5).

GPT-2 is Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), Qwen2.5 is arXiv:2412.15115. The
configurations are transformers' own, the attention is the one that it chooses itself (sdpa), and embeddings and head
share their weights.

The models are called as most people call them, with the library's cache of keys and values also where nothing is
written: without it transformers 5 asks the device in every pass whether several sequences were packed into one
(masking_utils.find_packed_sequence_indices), and the host waits for the answer.
"""

from typing import Final, cast

import torch

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed
from worker.models.huggingface import GPT2Config, GPT2LMHeadModel, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

ARCHITECTURES: Final = {"gpt2": (GPT2Config, GPT2LMHeadModel), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}

_IGNORED: Final = -100


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """The model with random weights, its configuration the library's own; `input_size` plays no part in it."""
    configuration, model = ARCHITECTURES[str(spec.config["architecture"])]
    options = {key: value for key, value in spec.config.items() if key != "architecture"}
    with torch.device(device):
        module: torch.nn.Module = model(configuration(**options))
    return module


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Random tokens, without padding and so without a mask; each is to be predicted from those before it."""
    inputs = feed.inputs(spec)
    following = inputs["input_ids"][:, 1:]
    return inputs | {"labels": torch.nn.functional.pad(following, (0, 1), value=_IGNORED)}


def forward(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Logits of what follows each token."""
    logits: torch.Tensor = module(input_ids=batch["input_ids"]).logits
    return logits


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy of each next token."""
    logits = forward(module, batch)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=_IGNORED)


def prefill(module: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, object]:
    """Logits of the token that follows a prompt, (batch, vocabulary), and the keys and values of the prompt."""
    return _read(module, tokens, None)


def decode(module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
    """Logits of the token that follows one more token, (batch, vocabulary), and the cache with it."""
    return _read(module, tokens, cache)


def _read(module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
    """The head sees the last position alone: over a whole prompt it would cost as much as many layers.

    Taken apart by hand, because not every version and model of transformers knows `logits_to_keep`.
    """
    model = cast(PreTrainedModel, module)
    seen = model.base_model(input_ids=tokens, past_key_values=cache, use_cache=True)
    return model.lm_head(seen.last_hidden_state[:, -1]), seen.past_key_values
