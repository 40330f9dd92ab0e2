"""The limits of configs/health.yaml: when a value becomes a warning or a failure, and what the verdict PASS needs."""

import functools
from pathlib import Path

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.health_signals import SIGNALS
from orchestrator.config.yaml_schema import did_you_mean
from orchestrator.errors import ConfigError


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of health values (configs/health.yaml). Shares are 0 to 1.

    FAIL at or above: retired_pages (their total number), slowdown_fail_share (of any ten minutes). WARN above:
    ecc_corrected (memory errors in the run), slowdown_warn_share and thermal_violation_share (of the run),
    pcie_replays_per_lane_minute (one limit for each PCIe generation, from 1). WARN at or below: temperature_near_c (°C
    left to the board's own limit).
    """

    ecc_corrected: int
    retired_pages: int
    slowdown_fail_share: float
    slowdown_warn_share: float
    thermal_violation_share: float
    temperature_near_c: int
    pcie_replays_per_lane_minute: tuple[float, ...]


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the verdict PASS needs in a kind of run. required: names of the health signals that must have been read."""

    required: tuple[str, ...]


class HealthRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of configs/health.yaml.

    nvlinks: board (NVML's name) → number of links. levels: kind of run ("benchmark" or "burn-in") → what PASS needs.
    """

    limits: Limits
    nvlinks: dict[str, int]
    levels: dict[str, Level]


def load(folder: Path | None = None) -> HealthRules:
    """Load the rules from health.yaml in `folder` (None: configs/). Raises ConfigError if it is missing or invalid."""
    return _load(folder or configs_folder())


@functools.cache
def _load(folder: Path) -> HealthRules:
    document = yaml_file.read(folder / "health.yaml")
    rules = document.convert(HealthRules)
    names = [signal.name for signal in SIGNALS]
    for name, level in rules.levels.items():
        for place, required in enumerate(level.required):
            if required not in names:
                where = document.where(("levels", name, "required", place))
                raise ConfigError(f"{where}: no signal named {required!r}.{did_you_mean(required, names)}")
    return rules
