"""The presets of `quick` and `triage`: what to measure within how much time, as configs/presets.yaml has them.

    defaults ← preset ← file of --config ← command line

A preset is a configuration file with a limit: whoever says more on the command line gets it, within the same limit.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.settings import LayeredSettings, Settings

DEFAULT: Final = "standard"
TRIAGE: Final = "triage"


@dataclass(frozen=True)
class Preset:
    """limit_s: seconds from the start of the process to its end, reports included."""

    name: str
    limit_s: float
    said: LayeredSettings

    def on(self, configuration: Configuration) -> Configuration:
        """The configuration with this preset's limit."""
        return msgspec.structs.replace(configuration, preset=self.name, time_limit_s=self.limit_s)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit_s: float
    settings: Settings


def load(name: str, folder: Path | None = None) -> Preset:
    """The preset `name` of `folder`, which is the one that ships unless given. Raises ConfigError for a broken file."""
    document = yaml_file.read((folder or configs_folder()) / "presets.yaml")
    entry = document.convert_each(_Entry)[name]
    origins = {
        yaml_file.spell(path[2:]): document.where(path)
        for path in document.lines
        if path[:2] == (name, "settings") and len(path) > 2
    }
    return Preset(name, entry.limit_s, LayeredSettings(entry.settings, origins, frozenset(origins)))
