"""NaN in the outputs is a failure, in inference and in generation."""

import math
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
import torch

from protocol.cell import Workload
from protocol.failure import Category, Phase
from tests.fakes.assignments import GPT2, LSTM, SHORT, assignment, run_here
from tests.fakes.own import LINEAR, Code
from tests.fakes.spies import spy
from worker import exception_categories, outputs
from worker.errors import NotFiniteError
from worker.models import causal, lstm

NUMBERS = torch.ones(2, 3)
BAD = torch.tensor([1.0, math.nan])


@dataclass
class Answer:
    """As libraries return it that know no dictionaries of their own."""

    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...] = ()


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "nested",
    [
        BAD,
        (NUMBERS, [BAD]),
        {"a": NUMBERS, "b": {"c": BAD}},
        OrderedDict(a=BAD),
        MappingProxyType({"a": (NUMBERS, BAD)}),
        Pair(NUMBERS, BAD),
        Answer(NUMBERS, (BAD,)),
        [Answer(BAD)],
        torch.complex(NUMBERS, NUMBERS * math.nan),
        torch.complex(NUMBERS, NUMBERS * math.nan).conj(),
        BAD.half(),
        BAD.bfloat16(),
    ],
    ids=lambda nested: type(nested).__name__,
)
def test_nan_is_found_in_any_nesting_and_type(nested: object) -> None:
    """Also where infinity is allowed."""
    for infinite in (True, False):
        with pytest.raises(NotFiniteError, match="holds nan"):
            outputs.require_finite(nested, infinite=infinite)


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_infinity_is_allowed_by_argument(number: float) -> None:
    """Both ends of the scale are checked."""
    masked = {"logits": torch.tensor([[0.0, number]])}
    outputs.require_finite(masked, infinite=True)
    with pytest.raises(NotFiniteError, match=r"output 1 .*\(1, 2\) in float32, .*-?inf"):
        outputs.require_finite(masked, infinite=False)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: "text",
        lambda: Answer,
        lambda: torch.ones(0),
        lambda: torch.arange(5),
        lambda: torch.tensor([True, False]),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.fft.fft(NUMBERS).conj(),
        lambda: torch.ones(4).to(torch.float8_e4m3fn),
        lambda: (NUMBERS, {"tokens": torch.zeros(2, dtype=torch.int32)}),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    ],
)
def test_outputs_without_a_bad_number_pass(make: Callable[[], object]) -> None:
    """Whole numbers, nothing at all, and tensors whose least and largest number torch cannot find."""
    outputs.require_finite(make(), infinite=False)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_inference_with_bad_outputs_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    """With the category of a loss that is not finite, so that another device is tried."""
    honest = lstm.forward
    monkeypatch.setattr(lstm, "forward", lambda module, batch: honest(module, batch) + number)
    with pytest.raises(NotFiniteError) as raised:
        run_here(assignment(LSTM, Workload.INFERENCE, tmp_path))
    assert exception_categories.failure(raised.value, Phase.MEASURE).category is Category.NOT_FINITE


def test_all_outputs_are_checked_outside_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any nesting, in order; once, after the last measured pass."""
    tensors = [torch.ones(size) for size in (1, 2, 3, 4)]
    nested = {"a": tensors[0], "b": (tensors[1], [Answer(tensors[2], (tensors[3],)), None, "text"]), "c": 7}
    assert [tensor.numel() for tensor in outputs.tensors(nested)] == [1, 2, 3, 4]
    passes = spy(monkeypatch, lstm, "forward", lambda *_: None)
    checked = spy(monkeypatch, outputs, "require_finite", lambda *_, **_options: len(passes))
    fixed = msgspec.structs.replace(SHORT, iterations=7, warm_up_iterations=3)
    run_here(assignment(LSTM, Workload.INFERENCE, tmp_path, measurement=fixed))
    assert checked == [3 + 7 + 1]


@pytest.mark.parametrize(("number", "passes"), [("-inf", True), ("inf", True), ("nan", False)])
def test_own_model_may_mask_with_infinity(write: Code, tmp_path: Path, number: str, passes: bool) -> None:
    """Only its author knows whether that is meant; NaN never is."""
    masked = f"return self.layer(x).masked_fill(torch.eye(2).bool()[: len(x)], float('{number}'))"
    assign = assignment(write(LINEAR.replace("return self.layer(x)", masked)), Workload.INFERENCE, tmp_path)
    if passes:
        assert run_here(assign).items_per_iteration == 2
    else:
        with pytest.raises(NotFiniteError):
            run_here(assign)


@pytest.mark.parametrize(("place", "tokens"), [("prefill", 1), ("decode", 3)])
def test_text_that_ends_in_nan_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, tokens: int) -> None:
    """NaN from the prompt stays in the cache, and so reaches the last logits."""
    honest = getattr(causal, place)

    def broken(*arguments: object) -> tuple[torch.Tensor, object]:
        logits, cache = honest(*arguments)
        return logits + math.nan, cache

    monkeypatch.setattr(causal, place, broken)
    with pytest.raises(NotFiniteError, match="nan"):
        run_here(assignment(GPT2, Workload.GENERATION, tmp_path, new_tokens=tokens))
