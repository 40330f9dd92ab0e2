"""Causal language models: GPT-2 (Radford et al., 2019) and Qwen2 (arXiv:2412.15115), from transformers (4 or 5).

The KV cache of transformers is used even where no text is generated. Without it, transformers 5 looks for packed
sequences in every pass, for which the host waits for the device.
"""

from typing import Final, cast

import torch

from protocol.cell import ModelSpec
from worker.models.base import Batch, Feed
from worker.models.huggingface import (
    IGNORED,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    forward,
    loss,
)

__all__ = ["batch", "build", "decode", "forward", "loss", "prefill"]

ARCHITECTURES: Final = {"gpt2": (GPT2Config, GPT2LMHeadModel), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}


def build(spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
    """Build the model with random weights in fp32, directly on `device`. input_size is not used."""
    configuration, model = ARCHITECTURES[str(spec.config["architecture"])]
    options = {key: value for key, value in spec.config.items() if key != "architecture"}
    with torch.device(device):
        module: torch.nn.Module = model(configuration(**options))
    return module


def batch(spec: ModelSpec, feed: Feed) -> Batch:
    """Make random tokens without padding or mask. Labels: the token that follows each, IGNORED at the last."""
    inputs = feed.inputs(spec)
    following = inputs["input_ids"][:, 1:]
    return inputs | {"labels": torch.nn.functional.pad(following, (0, 1), value=IGNORED)}


def prefill(module: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, object]:
    """Read a prompt (batch, length). Returns the next token's logits, (batch, vocabulary), and the KV cache."""
    return _read(module, tokens, None)


def decode(module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
    """Read one more token of each sequence, (batch, 1). Returns the next token's logits and the extended `cache`."""
    return _read(module, tokens, cache)


def _read(module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
    model = cast(
        PreTrainedModel, module
    )  # the head on the last position alone: `logits_to_keep` is not in all versions
    seen = model.base_model(input_ids=tokens, past_key_values=cache, use_cache=True)
    return model.lm_head(seen.last_hidden_state[:, -1]), seen.past_key_values
