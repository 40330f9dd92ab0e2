"""Outputs that are no numbers are no result: in inference and in generation, whatever the time was."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
import torch

from protocol.cell import Workload
from protocol.failure import Category, Phase
from protocol.own import OwnModel
from tests.fakes.assignments import GPT2, LSTM, SHORT, assignment, run_here
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
def test_infinity_is_a_matter_of_whose_model_it_is(number: float) -> None:
    """Both ends of the scale are looked at."""
    masked = {"logits": torch.tensor([[0.0, number]])}
    outputs.require_finite(masked, infinite=True)
    with pytest.raises(NotFiniteError, match=r"output 1 of the model, of shape \(1, 2\) in float32, holds -?inf"):
        outputs.require_finite(masked, infinite=False)


@pytest.mark.parametrize(
    "sound",
    [
        None,
        "text",
        Answer,
        torch.ones(0),
        torch.arange(5),
        torch.tensor([True, False]),
        torch.eye(3).to_sparse(),
        torch.fft.fft(NUMBERS).conj(),
        torch.ones(4).to(torch.float8_e4m3fn),
        (NUMBERS, {"tokens": torch.zeros(2, dtype=torch.int32)}),
    ],
    ids=lambda sound: str(getattr(sound, "dtype", type(sound).__name__)),
)
def test_what_holds_no_bad_number_passes(sound: object) -> None:
    """Whole numbers, nothing at all, and what cannot be looked at."""
    outputs.require_finite(sound, infinite=False)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_passes(layout: torch.layout) -> None:
    """It has no least and no largest number that torch would tell."""
    outputs.require_finite(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout), infinite=False)


def test_outputs_are_found_in_any_nesting() -> None:
    """Each once, in order; everything else is passed over."""
    tensors = [torch.ones(size) for size in (1, 2, 3, 4)]
    nested = {"a": tensors[0], "b": (tensors[1], [Answer(tensors[2], (tensors[3],)), None, "text"]), "c": 7}
    assert [tensor.numel() for tensor in outputs.tensors(nested)] == [1, 2, 3, 4]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_inference_with_outputs_that_are_no_numbers_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    """It has the category of a loss that is not finite, so that another device is asked; nothing of it is measured."""
    honest = lstm.forward
    monkeypatch.setattr(lstm, "forward", lambda module, batch: honest(module, batch) + number)
    with pytest.raises(NotFiniteError) as raised:
        run_here(assignment(LSTM, Workload.INFERENCE, tmp_path))
    assert exception_categories.failure(raised.value, Phase.MEASURE).category is Category.NOT_FINITE


def test_the_look_at_the_outputs_is_no_part_of_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, after the last measured pass."""
    passes, looked = [], []
    honest, require = lstm.forward, outputs.require_finite
    monkeypatch.setattr(lstm, "forward", lambda module, batch: passes.append(None) or honest(module, batch))
    monkeypatch.setattr(outputs, "require_finite", lambda *a, **k: looked.append(len(passes)) or require(*a, **k))
    fixed = msgspec.structs.replace(SHORT, iterations=7, warm_up_iterations=3)
    run_here(assignment(LSTM, Workload.INFERENCE, tmp_path, measurement=fixed))
    assert looked == [3 + 7 + 1]


@pytest.mark.parametrize(("number", "passes"), [("-inf", True), ("inf", True), ("nan", False)])
def test_own_model_may_mask_with_infinity(tmp_path: Path, number: str, passes: bool) -> None:
    """Its author alone knows whether that is meant; NaN never is."""
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        f"        return self.layer(x).masked_fill(torch.eye(4).bool()[: len(x)], float('{number}'))\n"
        "    def get_example_inputs(self, batch_size):\n"
        "        return torch.randn(batch_size, 4)\n"
    )
    own = OwnModel(target=f"{tmp_path / 'net.py'}:Net")
    spec = msgspec.structs.replace(LSTM, name="net", family="own", config={}, inputs=(), sizes=None, own=own)
    assign = assignment(spec, Workload.INFERENCE, tmp_path)
    if passes:
        assert run_here(assign).items_per_iteration == 2
    else:
        with pytest.raises(NotFiniteError):
            run_here(assign)


@pytest.mark.parametrize("place", ["prefill", "decode"])
def test_text_that_ends_in_nan_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """What was read of a prompt is in the cache, and so in the last logits."""
    honest = getattr(causal, place)

    def broken(*arguments: object) -> tuple[torch.Tensor, object]:
        logits, cache = honest(*arguments)
        return logits + math.nan, cache

    monkeypatch.setattr(causal, place, broken)
    assign = assignment(GPT2, Workload.GENERATION, tmp_path)
    tokens = 1 if place == "prefill" else 3
    assign = msgspec.structs.replace(assign, cell=msgspec.structs.replace(assign.cell, new_tokens=tokens))
    with pytest.raises(NotFiniteError, match="holds nan"):
        run_here(assign)
