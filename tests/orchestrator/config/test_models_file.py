"""A file of the user's own models: what it means, and every mistake that a person can make in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import models_file
from protocol.cell import InputSpec, ModelSpec
from tests.fakes.commands import ROOT

Read = Callable[[str], tuple[ModelSpec, ...]]
ENTRY = "models:\n  - name: a\n    class: transformers.BertModel\n"
SHAPED = ENTRY + "    input_shape: {input_ids: [1, 8]}\n"


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads mine.yaml in the current folder."""
    monkeypatch.chdir(tmp_path)

    def call(text: str) -> tuple[ModelSpec, ...]:
        Path("mine.yaml").write_text(text, encoding="utf-8")
        return models_file.read(Path("mine.yaml"), (), allowed=True)[0]

    return call


def inputs(shape: str, read: Read) -> tuple[InputSpec, ...]:
    """What an input_shape means."""
    (model,) = read(f"{ENTRY}    input_shape: {shape}")
    return model.inputs


def test_the_file_of_the_requirements_is_understood(read: Read) -> None:
    """The example of the requirements document, word for word."""
    bert, resnet = read(
        """
# models_config.yaml
models:
  - name: bert_base
    type: transformer
    class: transformers.BertModel
    config:
      vocab_size: 30522
      hidden_size: 768
      num_hidden_layers: 12
      num_attention_heads: 12
    input_shape:
      input_ids: [32, 128]  # [batch_size, seq_len]

  - name: resnet50
    type: cnn
    class: torchvision.models.resnet50
    input_shape: [32, 3, 224, 224]  # [batch_size, channels, height, width]
"""
    )
    assert (bert.name, bert.type, bert.family, bert.title) == ("bert_base", "transformer", "own", "bert_base")
    assert bert.own is not None
    assert (bert.own.target, bert.own.by_name) == ("transformers.BertModel", True)
    assert json.loads(bert.own.config)["hidden_size"] == 768
    assert bert.inputs == (InputSpec(name="input_ids", shape=("batch", 128), dtype="int64"),)
    assert resnet.own is not None
    assert (resnet.type, resnet.own.by_name) == ("cnn", False)
    assert resnet.inputs == (InputSpec(name="0", shape=("batch", 3, 224, 224)),)


def test_the_example_of_the_docs_is_read() -> None:
    """Paths in it are seen from its own folder."""
    models, _ = models_file.read(ROOT / "docs" / "examples" / "own_models.yaml", (), allowed=True)
    assert [model.name for model in models] == ["bert_small", "resnet18", "towers"]
    assert models[-1].own is not None
    assert models[-1].own.target == f"{ROOT}/docs/examples/own_model.py:TwoTowers"


def test_only_libraries_that_gpubench_knows_are_imported_ahead(read: Read) -> None:
    """The zygote never imports code of the user's, nor packages that might start threads or touch CUDA."""
    Path("net.py").write_text("class Net: pass\n", encoding="utf-8")
    (known,) = read(SHAPED)
    (own,) = read("models: [{name: a, class: 'net.py:Net'}]")
    (other,) = read("models: [{name: a, class: torch.nn.Linear, args: [2, 2], input_shape: [1, 2]}]")
    assert (known.preload, own.preload, other.preload) == (("worker.models.huggingface",), (), ())


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("[32, 3, 8, 8]", [InputSpec(name="0", shape=("batch", 3, 8, 8))]),
        ("[batch, 3]", [InputSpec(name="0", shape=("batch", 3))]),
        ("[128, batch, 5]", [InputSpec(name="0", shape=(128, "batch", 5))]),
        ("[[1, 3], [1, 4]]", [InputSpec(name="0", shape=("batch", 3)), InputSpec(name="1", shape=("batch", 4))]),
        ("{x: [1, 3]}", [InputSpec(name="x", shape=("batch", 3))]),
        ("{shape: [1], dtype: int32, high: 9}", [InputSpec(name="0", shape=("batch",), dtype="int32", high=9)]),
        ("[{shape: [1], low: -1, high: 1}]", [InputSpec(name="0", shape=("batch",), low=-1, high=1)]),
        (
            "{x: {shape: [1, 3], dtype: int64, low: 5, high: 7}}",
            [InputSpec(name="x", shape=("batch", 3), dtype="int64", low=5, high=7)],
        ),
        ("{keep: {shape: [1], dtype: bool}}", [InputSpec(name="keep", shape=("batch",), dtype="bool")]),
        (
            "{attention_mask: [1, 3]}",
            [InputSpec(name="attention_mask", shape=("batch", 3), dtype="int64", low=1, high=2)],
        ),
        (
            "{token_type_ids: [1, 3]}",
            [InputSpec(name="token_type_ids", shape=("batch", 3), dtype="int64", low=0, high=1)],
        ),
    ],
)
def test_inputs_can_be_described_in_several_ways(read: Read, shape: str, expected: list[InputSpec]) -> None:
    """By position or by name, with lengths alone or with a type and a range."""
    assert list(inputs(shape, read)) == expected


def test_arguments_are_as_free_as_pythons(read: Read) -> None:
    """Lists, mappings, numbers, words and null, by position and by name."""
    (model,) = read(SHAPED + "    args: [1, [2, x]]\n    config: {a: {b: [1.5, null, true]}, eps: 1.0e-12}\n")
    assert model.own is not None
    assert json.loads(model.own.arguments) == [1, [2, "x"]]
    assert json.loads(model.own.config) == {"a": {"b": [1.5, None, True]}, "eps": 1e-12}


def test_a_whole_file_of_arguments_can_be_sent(read: Read) -> None:
    """What is read is plain values, whatever somebody writes."""
    (model,) = read(SHAPED + "    config: {day: 2026-01-01, big: 99999999999999999999}\n")
    assert model.own is not None
    loaded: dict[str, Any] = json.loads(model.own.config)
    assert loaded == {"day": "2026-01-01", "big": 99999999999999999999}
