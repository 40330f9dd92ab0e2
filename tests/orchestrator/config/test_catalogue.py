"""The catalogue: what ships can be read, and what is wrong with it is named."""

from pathlib import Path

import pytest

from orchestrator.config import catalogue
from orchestrator.errors import ConfigError

MODEL = """
  - name: {name}
    title: A model
    type: other
    family: lstm
    inputs:
      - {{name: tokens, shape: [batch, size], dtype: int64, high: 10}}
    parameters: 10
    inference_gflops: 1
    memory_mb: 1
"""


def test_what_ships_is_complete() -> None:
    """At least the models of the requirements (section 3.1), qwen and the probes, of every type; and the profiles."""
    shipped = catalogue.load()
    assert {model.name for model in shipped.models} >= {
        *("bert-base", "bert-large", "gpt2", "gpt2-medium", "vit-base", "vit-large", "qwen2.5-0.5b"),
        *("resnet50", "resnet101", "resnext101", "efficientnet-b0", "efficientnet-b7"),
        *("unet", "stylegan2", "stylegan2-critic", "vae", "autoencoder", "lstm"),
        *("gemm", "hbm", "h2d", "d2h"),
    }
    assert set(shipped.profiles) == {"quick", "triage", "standard", "rigorous"}
    assert {model.type for model in shipped.models} == set(catalogue.MODEL_TYPES)


def test_profiles_are_those_of_the_method() -> None:
    """docs/method.md gives the bounds; numbers of iterations are adaptive unless asked for."""
    standard = catalogue.load().profiles["standard"]
    assert standard.launches == 3
    measurement = standard.measurement(warm_up_iterations=7)
    assert (measurement.relative_half_width, measurement.warm_up_cap_s) == (0.01, 15)
    assert (measurement.min_s, measurement.max_s) == (2, 10)
    assert (measurement.iterations, measurement.warm_up_iterations) == (None, 7)


@pytest.mark.parametrize(("name", "guess"), [("resnet5", "resnet50"), ("zzz", "")])
def test_an_unknown_model_is_answered_with_the_nearest_names(name: str, guess: str) -> None:
    """And with how to see all of them; a wrong guess is worse than none."""
    with pytest.raises(ConfigError, match=f"'{name}'.*list-models` .* {len(catalogue.load().models)}") as refused:
        catalogue.load().model(name)
    assert ("Did you mean" in str(refused.value), guess in str(refused.value)) == (guess != "", True)


ONE, TWO = MODEL.format(name="one"), MODEL.format(name="two")


@pytest.mark.parametrize(
    ("models", "carried"),
    [
        (ONE + TWO.replace("memory_mb: 1", "memory_mb: much"), r"models\.yaml, line 20, models\[1\]\.memory_mb: "),
        (ONE.replace("    parameters: 10\n", ""), r"models\.yaml.*models\[0\]: .*parameters"),
        (ONE * 2, "two .*named one"),
        (ONE.replace("other", "transformers"), r"models\.yaml, one: .*'transformers'. .*transformer"),
    ],
    ids=["a value", "a missing key", "a name", "a type"],
)
def test_a_broken_catalogue_names_file_line_and_key(tmp_path: Path, models: str, carried: str) -> None:
    """Somebody who adds a model learns which line is wrong."""
    (tmp_path / "models.yaml").write_text(f"models:{models}")
    with pytest.raises(ConfigError, match=carried):
        catalogue.load(tmp_path)


def test_a_mistake_in_a_profile_is_named(tmp_path: Path) -> None:
    """A profile of one's own is checked like any other file."""
    (tmp_path / "models.yaml").write_text("models: []")
    (tmp_path / "profiles.yaml").write_text("quick:\n  launches: many\n")
    with pytest.raises(ConfigError, match=r"profiles\.yaml, line 2, quick\.launches: "):
        catalogue.load(tmp_path)


@pytest.mark.parametrize("profiles", ["- quick\n", "quick\n", ""], ids=["a list", "a word", "nothing"])
def test_profiles_without_names_are_refused(tmp_path: Path, profiles: str) -> None:
    """A file of profiles maps their names to their settings, and another file is named as the mistake."""
    (tmp_path / "models.yaml").write_text("models: []")
    (tmp_path / "profiles.yaml").write_text(profiles)
    with pytest.raises(ConfigError, match=r"profiles\.yaml: "):
        catalogue.load(tmp_path)
