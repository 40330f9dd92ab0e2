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


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long and how accurately a cell is measured. load_window and fields with _s are in seconds."""

    relative_half_width: float
    block_s: float
    warm_up_cap_s: float
    min_s: float
    max_s: float
    give_up: bool  # as in protocol.messages.Measurement
    load_window: float  # as load_s there
    launches: int  # fresh processes for each cell
    adds_launches: bool  # as in run_configuration.Configuration

    def measurement(
        self, *, iterations: int | None, warm_up_iterations: int | None, load_window: float | None = None
    ) -> Measurement:
        """Return the settings of a worker. If iterations is None, the worker decides; if load_window, the profile."""
        return Measurement(
            relative_half_width=self.relative_half_width,
            block_s=self.block_s,
            warm_up_cap_s=self.warm_up_cap_s,
            min_s=self.min_s,
            max_s=self.max_s,
            give_up=self.give_up,
            load_s=self.load_window if load_window is None else load_window,
            iterations=iterations,
            warm_up_iterations=warm_up_iterations,
        )


class _Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[ModelSpec, ...]


@dataclass(frozen=True)
class Catalogue:
    """Models in the order of their file, and profiles by name. wrong: name of an unusable model → its error."""

    models: tuple[ModelSpec, ...]
    profiles: dict[str, Profile]
    wrong: Mapping[str, ConfigError] = field(default_factory=dict)  # errors of the user's models, by name

    @property
    def probes(self) -> tuple[ModelSpec, ...]:
        """The entries of `models` that measure a device instead of a model."""
        return tuple(filter(is_probe, self.models))

    def model(self, name: str) -> ModelSpec:
        """Return the model `name`. Raises ConfigError, which says why the model is unusable, or gives similar names."""
        if name in self.wrong:
            raise self.wrong[name]
        for model in self.models:
            if model.name == name:
                return model
        near = did_you_mean(name, [model.name for model in self.models])
        shows = f"`gpubench-orchestrate list-models` shows all {len(self.models)}."
        raise ConfigError(f"no model named '{name}'.{near} {shows}")


def load(folder: Path | None = None) -> Catalogue:
    """Load the models and profiles in `folder`, by default those that ship. Raises ConfigError for a broken file."""
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
    """Find configs/ by path, because importlib.resources fails in editable installs. Raises ConfigError."""
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "configs", here.parent / "configs"):
        if (folder / "models.yaml").is_file():
            return folder
    raise ConfigError(f"configs/ is neither in {here} nor in {here.parent}. Install gpubench again")


def is_probe(spec: ModelSpec) -> bool:
    """Whether `spec` is a probe, which measures the device itself, not a model."""
    return spec.family == "probe"
