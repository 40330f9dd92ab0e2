"""Missing libraries of models, the models that need them, and the consequence for a burn-in."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.config import libraries
from orchestrator.doctor import Level, software
from tests.fakes.configurations import shipped_catalogue

MODELS = {model.name: model for model in shipped_catalogue().models}


def test_missing_libraries_have_their_models(tmp_path: Path) -> None:
    """By library, in the order of the models."""
    asked = [MODELS[name] for name in ("gpt2", "lstm", "resnet50", "bert-base")]
    nowhere = [str(tmp_path)]
    assert libraries.missing(asked, nowhere) == {"transformers": ("gpt2", "bert-base"), "torchvision": ("resnet50",)}
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers/__init__.py").touch()
    assert libraries.missing(asked, nowhere) == {"torchvision": ("resnet50",)}
    assert libraries.missing(asked) == {}


def test_preloads_are_of_known_libraries() -> None:
    """No other library would be looked for."""
    modules = {module for model in MODELS.values() for module in model.preload}
    assert {module.partition(".")[0] for module in modules} <= {"torchvision", "worker"}
    assert {module for module in modules if module.startswith("worker.")} == {"worker.models.huggingface"}


@pytest.fixture
def without_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment into which only gpubench was installed."""
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "torchvision" else find_spec(name))


@pytest.mark.usefixtures("without_torchvision")
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_burn_in_that_would_end_unknown_is_refused(invoke: Callable[..., Result], dry: tuple[str, ...]) -> None:
    """Before it starts, with the model, the library and the remedy."""
    said = invoke("--burn-in", "10m", "--level", "full", "--gpu-ids", "cpu:0", *dry)
    assert said.exit_code == 2
    words = " ".join(said.output.split())
    assert re.search("UNKNOWN.*resnet50.*torchvision", words)
    assert libraries.HOW_TO_INSTALL_MODELS in words
    quick = invoke("--burn-in", "10m", "--level", "quick", "--gpu-ids", "cpu:0", "--dry-run")
    assert quick.exit_code == 0
    assert "not installed" not in quick.output


@pytest.mark.usefixtures("without_torchvision")
def test_another_run_warns_of_models_that_will_fail(invoke: Callable[..., Result]) -> None:
    """And measures the others."""
    shown = " ".join(invoke("--gpu-ids", "cpu:0", "-m", "resnet50,lstm,vit-base", "--dry-run").output.split())
    assert re.search("torchvision .*resnet50 and vit-base ", shown)
    assert "not installed" not in invoke("--gpu-ids", "cpu:0", "-m", "lstm", "--dry-run").output


def test_the_doctor_warns() -> None:
    """Models that need none of them can be measured."""
    [found] = software.judge_libraries({"torchvision": ("resnet50", "vit")})
    assert (found.level, found.subject) == (Level.WARNING, "Models")
    assert re.match("torchvision .*resnet50 and vit ", found.message)
    assert found.fix == libraries.HOW_TO_INSTALL_MODELS
