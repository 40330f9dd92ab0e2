"""The presets of `quick` and `triage`. They override the defaults; --config and the command line override them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.config import settings, yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.options import Option
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.settings import LayeredSettings

DEFAULT: Final = "standard"
TRIAGE: Final = "triage"


@dataclass(frozen=True)
class Preset:
    """Default settings of a command. on_cpus: override `settings` if all devices are CPU devices.

    limit_s: seconds from the start of the process to its end, reports included; None: no limit.
    """

    name: str
    limit_s: float | None
    settings: LayeredSettings
    on_cpus: LayeredSettings | None = None

    def settings_on(self, devices: str) -> LayeredSettings:
        """Return `settings`, overridden by `on_cpus` if all devices are CPU devices. devices: value of --gpu-ids."""
        if self.on_cpus is None or not all(word.strip().startswith("cpu:") for word in devices.split(",")):
            return self.settings
        return self.on_cpus.on_top_of(self.settings)

    def on(self, configuration: Configuration) -> Configuration:
        """Return a copy of the configuration with this preset's name and time limit. Its settings are not applied."""
        return msgspec.structs.replace(configuration, preset=self.name, time_limit_s=self.limit_s)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit_s: float
    settings: dict[str, Any]
    on_cpus: dict[str, Any] = {}


def load(name: str, options: tuple[Option, ...], folder: Path | None = None) -> Preset:
    """Load a preset from presets.yaml in `folder`, None for configs/. options: the keys that it may set.

    Raises ConfigError for a broken file, KeyError for an unknown preset.
    """
    document = yaml_file.read((folder or configs_folder()) / "presets.yaml")
    entry = document.convert_each(_Entry)[name]
    on_cpus = settings.from_part(document, (name, "on_cpus"), options) if entry.on_cpus else None
    return Preset(name, entry.limit_s, settings.from_part(document, (name, "settings"), options), on_cpus)
