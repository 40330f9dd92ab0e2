"""Generation: tiny language models that really write, on the CPU."""

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
from worker import outputs
from worker.errors import UnsuitableModelError
from worker.models import causal

NEW = GPT2.generation.new_tokens if GPT2.generation else 0
FOUR = msgspec.structs.replace(SHORT, iterations=4, warm_up_iterations=2)


def generate(cache: Path, model: ModelSpec = GPT2, batch_size: int = 3, **options: object) -> Result:
    """Four texts, after two that warm up."""
    assign = assignment(model, Workload.GENERATION, cache, batch_size=batch_size, **{"measurement": FOUR, **options})
    return run_here(assign)


@pytest.mark.parametrize("model", [GPT2, QWEN], ids=lambda spec: spec.name)
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_every_token_has_its_time(tmp_path: Path, model: ModelSpec, precision: Precision) -> None:
    """The first token's time and those between the others make up the text's, for the measured texts alone."""
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
    assert result.items_per_iteration == 3
    assert result.launch_bound is None
    assert result.flops_per_iteration is None


def test_the_look_at_the_last_logits_has_its_entry_in_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And there is something to look at."""
    seen: list[object] = []

    def slow(logits: object, **_: object) -> None:
        seen.append(logits)
        time.sleep(0.1)

    monkeypatch.setattr(outputs, "require_finite", slow)
    assert generate(tmp_path).ledger.count_ms >= 100
    assert [type(logits) for logits in seen] == [torch.Tensor]


def test_tokens_are_counted_on_the_host(tmp_path: Path) -> None:
    """All sequences of all measured texts, and none of the warm-up's."""
    assert generate(tmp_path, batch_size=3).generated_tokens == 3 * NEW * 4


READ_MS = 15.0


class Far(torch.Tensor):
    """Numbers on a device from which it takes a while to read: as on a GPU, asking for them is quick."""

    def tolist(self) -> list[Any]:
        """Read them."""
        time.sleep(READ_MS / 1e3)
        return super().tolist()


def test_token_is_there_when_the_host_has_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when it was asked for: the time to the first token has its way to the host in it, and so have all others."""
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


def test_single_token_has_nothing_between_tokens(tmp_path: Path) -> None:
    """Only the time to the first one."""
    assign = assignment(GPT2, Workload.GENERATION, tmp_path, measurement=FOUR)
    one = msgspec.structs.replace(assign, cell=msgspec.structs.replace(assign.cell, new_tokens=1))
    result = run_here(one)
    assert result.times_ms("inter_token") == []
    assert len(result.times_ms("first_token")) == 4


def test_text_is_the_greedy_one_and_the_prompt_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads the token that was likeliest before, and one only; a full pass over all of it agrees."""
    prompts: list[torch.Tensor] = []
    read: list[torch.Tensor] = []
    modules: list[torch.nn.Module] = []
    prefill, decode = causal.prefill, causal.decode

    def watched_prefill(module: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, object]:
        prompts.append(tokens)
        modules.append(module)
        return prefill(module, tokens)

    def watched_decode(module: torch.nn.Module, tokens: torch.Tensor, cache: object) -> tuple[torch.Tensor, object]:
        read.append(tokens)
        return decode(module, tokens, cache)

    monkeypatch.setattr(causal, "prefill", watched_prefill)
    monkeypatch.setattr(causal, "decode", watched_decode)
    generate(tmp_path, batch_size=2)
    prompt = prompts[-1]
    assert prompt.shape == (2, GPT2.generation.prompt_tokens if GPT2.generation else 0)
    text = torch.cat([prompt, *read[-(NEW - 1) :]], dim=1)
    with torch.inference_mode():
        likeliest = modules[-1](input_ids=text).logits.argmax(-1)
    assert torch.equal(text[:, prompt.shape[1] :], likeliest[:, prompt.shape[1] - 1 : -1])


def test_model_that_does_not_write_is_refused(tmp_path: Path) -> None:
    """With a reason, before anything is built."""
    with pytest.raises(UnsuitableModelError, match="'tiny-lstm' does not write text"):
        generate(tmp_path, model=LSTM)


def test_no_new_tokens_are_no_generation(tmp_path: Path) -> None:
    """A cell that does not say how much to write is a mistake of the plan's, named with the cell."""
    assign = assignment(GPT2, Workload.GENERATION, tmp_path)
    none = msgspec.structs.replace(assign, cell=msgspec.structs.replace(assign.cell, new_tokens=None))
    with pytest.raises(ValueError, match="at least one new token, got None"):
        run_here(none)
