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
    """The models of the requirements (section 3.1), qwen and the probes, of every type; and three profiles."""
    shipped = catalogue.load()
    assert {model.name for model in shipped.models} == {
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
    measurement = standard.measurement(iterations=None, warm_up_iterations=7)
    assert (measurement.relative_half_width, measurement.warm_up_cap_s) == (0.01, 15)
    assert (measurement.min_s, measurement.max_s) == (2, 10)
    assert (measurement.iterations, measurement.warm_up_iterations) == (None, 7)


def test_an_unknown_model_is_answered_with_the_nearest_names() -> None:
    """The message says what there is, and how to see all of it."""
    with pytest.raises(ConfigError) as refused:
        catalogue.load().model("resnet5")
    assert str(refused.value).startswith("no model named 'resnet5'. Did you mean resnet50")
    assert str(refused.value).endswith(f"`torch-gpu-benchmark list-models` shows all {len(catalogue.load().models)}.")


def test_a_name_that_is_near_to_nothing_gets_no_guess() -> None:
    """A wrong guess is worse than none."""
    with pytest.raises(ConfigError) as refused:
        catalogue.load().model("zzz")
    assert "Did you mean" not in str(refused.value)


def test_a_broken_catalogue_names_file_line_and_key(tmp_path: Path) -> None:
    """Somebody who adds a model learns which line is wrong."""
    text = "models:" + MODEL.format(name="one") + MODEL.format(name="two").replace("memory_mb: 1", "memory_mb: much")
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"models\.yaml, line 20, models\[1\]\.memory_mb: expected a whole number"):
        catalogue.load(tmp_path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    """A model without its number of parameters cannot be used."""
    (tmp_path / "models.yaml").write_text("models:" + MODEL.format(name="one").replace("    parameters: 10\n", ""))
    with pytest.raises(ConfigError, match=r"models\[0\]: the key parameters is missing"):
        catalogue.load(tmp_path)


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    """The name is what people ask for."""
    (tmp_path / "models.yaml").write_text("models:" + MODEL.format(name="one") * 2)
    with pytest.raises(ConfigError, match="two models named one"):
        catalogue.load(tmp_path)


def test_a_type_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A model of it would be missing in every list by type."""
    (tmp_path / "models.yaml").write_text("models:" + MODEL.format(name="one").replace("other", "transformers"))
    with pytest.raises(ConfigError, match=r"models\.yaml, one: there is no type 'transformers'. Did you mean transfo"):
        catalogue.load(tmp_path)


def test_a_mistake_in_a_profile_is_named(tmp_path: Path) -> None:
    """A profile of one's own is checked like any other file."""
    (tmp_path / "models.yaml").write_text("models: []")
    (tmp_path / "profiles.yaml").write_text("quick:\n  launches: many\n")
    with pytest.raises(ConfigError, match=r"profiles\.yaml, line 2, quick\.launches: expected a whole number, got"):
        catalogue.load(tmp_path)
