"""Load the models and profiles in configs/ as typed objects. Only the orchestrator reads configs/."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.yaml_schema import did_you_mean, require_known
from orchestrator.errors import ConfigError
from protocol.cell import ModelSpec
from protocol.messages import Measurement

MODEL_TYPES: Final = ("transformer", "cnn", "generative", "other", "probe")  # of `list-models --type`


class Profile(Measurement, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings for the length and accuracy of a measurement. launches: fresh processes for each cell.

    adds_launches: whether launches are added while a GPU is SUSPECT (state/added_launches.py).
    """

    launches: int
    adds_launches: bool

    def measurement(self, **given: float | None) -> Measurement:
        """Return the settings that a worker gets. given: fields that replace those of the profile, even by None."""
        return Measurement(**{name: getattr(self, name) for name in Measurement.__struct_fields__} | given)


class _Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[ModelSpec, ...]


@dataclass(frozen=True)
class Catalogue:
    """Usable models in the order of their file, and profiles by name. wrong: unusable model of the user → its error."""

    models: tuple[ModelSpec, ...]
    profiles: dict[str, Profile]
    wrong: Mapping[str, ConfigError] = field(default_factory=dict)  # errors of the user's models, by name

    @property
    def probes(self) -> tuple[ModelSpec, ...]:
        """Entries of `models` that measure a device instead of a model."""
        return tuple(filter(is_probe, self.models))

    def model(self, name: str) -> ModelSpec:
        """Return the model `name`. Raises ConfigError for an unusable model, or an unknown one (with similar names)."""
        if name in self.wrong:
            raise self.wrong[name]
        for model in self.models:
            if model.name == name:
                return model
        near = did_you_mean(name, [model.name for model in self.models])
        shows = f"`gpubench-orchestrate list-models` shows all {len(self.models)}."
        raise ConfigError(f"no model named '{name}'.{near} {shows}")


def load(folder: Path | None = None) -> Catalogue:
    """Load models.yaml and profiles.yaml of `folder`; None: configs/. ConfigError if one is missing or has mistakes."""
    folder = configs_folder() if folder is None else folder
    models = yaml_file.read(folder / "models.yaml").convert(_Models).models
    names = [model.name for model in models]
    for model in models:
        if names.count(model.name) > 1:
            raise ConfigError(f"{folder / 'models.yaml'}: there are two models named {model.name}")
        require_known(model.type, f"{folder / 'models.yaml'}, {model.name}", MODEL_TYPES, "type")
    return Catalogue(models, yaml_file.read(folder / "profiles.yaml").convert_each(Profile))


@functools.cache
def configs_folder() -> Path:
    """Return the path of configs/ in the installed package or the source tree. Raises ConfigError if it is missing."""
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "configs", here.parent / "configs"):
        if (folder / "models.yaml").is_file():
            return folder
    raise ConfigError(f"configs/ is neither in {here} nor in {here.parent}. Install gpubench again")


def is_probe(spec: ModelSpec) -> bool:
    """Whether `spec` is a probe, which measures the device itself, not a model."""
    return spec.family == "probe"
