"""Language models write what they would have written without a cache."""

import pytest
import torch

from protocol.cell import ModelSpec
from tests.fakes.assignments import GPT2, QWEN
from worker.models import causal

CPU = torch.device("cpu")


@pytest.mark.parametrize("spec", [GPT2, QWEN], ids=lambda spec: spec.name)
@torch.inference_mode()
def test_decoding_with_the_cache_agrees_with_a_full_pass(spec: ModelSpec) -> None:
    """Prompt, then token by token: the same logits as of one pass over the whole text. A second prompt has its own."""
    torch.manual_seed(1)
    module = causal.build(spec, CPU, None).eval()
    text = torch.randint(60, (3, 12))
    whole = causal.forward(module, {"input_ids": text})
    logits, cache = causal.prefill(module, text[:, :7])
    assert logits.shape == (3, 60)
    torch.testing.assert_close(logits, whole[:, 6])
    assert torch.equal(causal.prefill(module, text[:, :7])[0], logits)
    for place in range(7, 12):
        logits, cache = causal.decode(module, text[:, place : place + 1], cache)
        torch.testing.assert_close(logits, whole[:, place])


def test_loss_ignores_what_follows_the_last_token() -> None:
    """The loss is that of predicting each token but the first from those before it."""
    torch.manual_seed(1)
    module = causal.build(GPT2, CPU, None).eval()
    tokens = torch.randint(60, (2, 10))
    labels = torch.cat([tokens[:, 1:], torch.full((2, 1), -100)], dim=1)
    logits = causal.forward(module, {"input_ids": tokens})
    expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    torch.testing.assert_close(causal.loss(module, {"input_ids": tokens, "labels": labels}), expected)
