"""Generation: tiny language models that really write, on the CPU, as they would without a cache."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from protocol.cell import ModelSpec, Precision, Workload
from protocol.failure import Phase
from protocol.result import Result
from tests.fakes.assignments import GPT2, LSTM, QWEN, SHORT, Listener, assignment, run_here
from tests.fakes.spies import spy
from worker import outputs
from worker.errors import UnsuitableModelError
from worker.models import causal

NEW = GPT2.generation.new_tokens if GPT2.generation else 0
FOUR = msgspec.structs.replace(SHORT, iterations=4, warm_up_iterations=2)


def generate(cache: Path, model: ModelSpec = GPT2, batch_size: int = 3, **options: Any) -> Result:
    """Four texts, after two that warm up."""
    return run_here(assignment(model, Workload.GENERATION, cache, measurement=FOUR, batch_size=batch_size, **options))


@pytest.mark.parametrize(("model", "precision"), [(GPT2, Precision.BF16), (QWEN, Precision.FP32)])
def test_every_token_has_its_time(tmp_path: Path, model: ModelSpec, precision: Precision) -> None:
    """First-token and inter-token times make up the text's. Tokens of the measured texts alone are counted."""
    listener = Listener()
    assign = assignment(model, Workload.GENERATION, tmp_path, batch_size=3, precision=precision, measurement=FOUR)
    result = run_here(assign, listener)
    assert listener.phases == [Phase.IMPORT, Phase.BUILD, Phase.WARM_UP, Phase.MEASURE]
    assert set(result.series) == {"iteration", "first_token", "inter_token"}
    first, inter = result.times_ms("first_token"), result.times_ms("inter_token")
    assert (len(first), len(inter)) == (4, 4 * (NEW - 1))
    assert min(first + inter) > 0
    for at, text_ms in enumerate(result.times_ms("iteration")):
        own = first[at] + sum(inter[at * (NEW - 1) : (at + 1) * (NEW - 1)])
        assert own <= text_ms * 1.001
    assert (result.items_per_iteration, result.generated_tokens) == (3, 3 * NEW * 4)
    assert (result.launch_bound, result.flops_per_iteration) == (None, None)


def test_texts_of_the_load_window_are_not_measured(tmp_path: Path) -> None:
    """Neither their times nor their tokens count; they are as long as the window needs."""
    how = msgspec.structs.replace(FOUR, load_s=0.3)
    result = run_here(assignment(GPT2, Workload.GENERATION, tmp_path, measurement=how, batch_size=3))
    assert result.load is not None
    assert result.load.iterations > 0
    assert result.load.end_ns - result.load.start_ns >= 300_000_000
    assert [len(result.times_ms(name)) for name in ("first_token", "inter_token")] == [4, 4 * (NEW - 1)]
    assert result.generated_tokens == 3 * NEW * 4
    for text_ms, first_ms in zip(result.times_ms("iteration"), result.times_ms("first_token"), strict=True):
        assert first_ms <= text_ms


def test_check_of_the_last_logits_is_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As time for counting, and it gets a tensor."""
    monkeypatch.setattr(outputs, "require_finite", lambda *_, **_options: time.sleep(0.1))
    checked = spy(monkeypatch, outputs, "require_finite", lambda _, logits, **_options: type(logits))
    assert generate(tmp_path).ledger.count_ms >= 100
    assert checked == [torch.Tensor]


READ_MS = 15.0


class Far(torch.Tensor):
    """Numbers on a device from which it takes a while to read: as on a GPU, asking for them is quick."""

    def tolist(self) -> list[Any]:
        time.sleep(READ_MS / 1e3)
        return super().tolist()


def test_token_time_ends_when_the_host_has_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of all tokens include their way to the host."""
    prefill, decode = causal.prefill, causal.decode

    def far_prefill(module: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, object]:
        logits, cache = prefill(module, tokens)
        return logits.as_subclass(Far), cache

    def far_decode(module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
        logits, cache = decode(module, tokens.as_subclass(torch.Tensor), cache)
        return logits.as_subclass(Far), cache

    monkeypatch.setattr(causal, "prefill", far_prefill)
    monkeypatch.setattr(causal, "decode", far_decode)
    result = generate(tmp_path)
    times_ms = result.times_ms("first_token") + result.times_ms("inter_token")
    assert len(times_ms) == 4 * NEW
    assert min(times_ms) >= READ_MS


def test_text_is_greedy_and_the_prompt_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads only the token that was likeliest before; a full pass over all of it agrees."""
    prompts = spy(monkeypatch, causal, "prefill", lambda _, module, tokens: (module, tokens))
    read = spy(monkeypatch, causal, "decode", lambda _, _module, tokens, _cache: tokens)
    generate(tmp_path, batch_size=2)
    module, prompt = prompts[-1]
    assert prompt.shape == (2, GPT2.generation.prompt_tokens if GPT2.generation else 0)
    text = torch.cat([prompt, *read[-(NEW - 1) :]], dim=1)
    with torch.inference_mode():
        likeliest = module(input_ids=text).logits.argmax(-1)
    assert torch.equal(text[:, prompt.shape[1] :], likeliest[:, prompt.shape[1] - 1 : -1])


def test_generation_needs_a_language_model_and_new_tokens(tmp_path: Path) -> None:
    """A single token has no inter-token time. An LSTM, and a cell without a number of tokens, are refused."""
    result = generate(tmp_path, new_tokens=1)
    assert result.times_ms("inter_token") == []
    assert len(result.times_ms("first_token")) == 4
    with pytest.raises(UnsuitableModelError, match="tiny-lstm"):
        generate(tmp_path, model=LSTM)
    with pytest.raises(ValueError, match="got None"):
        generate(tmp_path, new_tokens=None)


@pytest.mark.parametrize("spec", [GPT2, QWEN], ids=lambda spec: spec.name)
@torch.inference_mode()
def test_decoding_with_the_cache_agrees_with_a_full_pass(spec: ModelSpec) -> None:
    """Prompt, then token by token: the same logits as of one pass over the whole text. A second prompt has its own."""
    torch.manual_seed(1)
    module = causal.build(spec, torch.device("cpu"), None).eval()
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
    module = causal.build(GPT2, torch.device("cpu"), None).eval()
    tokens = torch.randint(60, (2, 10))
    labels = torch.cat([tokens[:, 1:], torch.full((2, 1), -100)], dim=1)
    logits = causal.forward(module, {"input_ids": tokens})
    expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    torch.testing.assert_close(causal.loss(module, {"input_ids": tokens, "labels": labels}), expected)
