"""Import of transformers (4 or 5) that a broken torchvision does not break.

transformers imports torchvision if it is there. Here a torchvision that cannot be imported, for example after an update
of torch alone, is hidden. Models of torchvision still fail with the import error.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final, cast

import torch

from worker.models.base import Batch

IGNORED: Final = -100
"""Label of a token that is not predicted."""


@contextmanager
def _hidden_if_broken(library: str) -> Iterator[None]:
    broken = not _can_be_imported(library)
    if broken:
        sys.modules[library] = cast(ModuleType, None)  # importlib.util.find_spec does not find it
    try:
        yield
    finally:
        if broken:
            del sys.modules[library]


def _can_be_imported(library: str) -> bool:
    try:
        importlib.import_module(library)
    except Exception:  # noqa: BLE001 - a broken package may raise anything while it is imported
        return False
    return True


with _hidden_if_broken("torchvision"):
    from transformers.modeling_utils import PreTrainedModel
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertForMaskedLM
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

__all__ = [
    "IGNORED",
    "BertConfig",
    "BertForMaskedLM",
    "GPT2Config",
    "GPT2LMHeadModel",
    "PreTrainedModel",
    "Qwen2Config",
    "Qwen2ForCausalLM",
    "forward",
    "loss",
]


def forward(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the logits at every token, (batch, length, vocabulary)."""
    logits: torch.Tensor = module(input_ids=batch["input_ids"]).logits
    return logits


def loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross entropy of the tokens whose label is not IGNORED."""
    logits = forward(module, batch)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)
