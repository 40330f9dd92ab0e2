"""The levels of the burn-in, as configs/burn_in.yaml has them: which checks, on what, and how long each lasts."""

import functools
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.configuration import yaml_file
from orchestrator.configuration.catalogue import configs_folder
from protocol.cell import DeviceKind, Precision, Workload

CHECKS: Final = (Workload.SOAK, Workload.TRUTH, Workload.MEMORY, Workload.REPLAY)
"""What every level does in each round, and without which there is no PASS."""
LONGEST: Final = "full"


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a round does. replay: by kind of device, model → precision. up_to_s: see configs/burn_in.yaml."""

    truth: tuple[Precision, ...]
    soak: tuple[Precision, ...]
    replay: dict[DeviceKind, dict[str, Precision]]
    up_to_s: float | None = None


class OnDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """On one kind of device. side: of matrices; batch: of training steps; seconds of one cell, at least and at most."""

    side: int
    batch: int
    least_s: float
    most_s: float


class BurnInTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    levels: dict[str, Level]
    devices: dict[DeviceKind, OnDevice]
    cell_share: float

    def level_for(self, duration_s: float) -> str:
        """The level that a duration means where no other is asked for."""
        fitting = [
            name for name, level in self.levels.items() if level.up_to_s is not None and duration_s <= level.up_to_s
        ]
        return fitting[0] if fitting else LONGEST

    def cell_s(self, duration_s: float, kind: DeviceKind) -> float:
        """How long one cell lasts in a burn-in of `duration_s`."""
        bounds = self.devices[kind]
        return min(max(duration_s * self.cell_share, bounds.least_s), bounds.most_s)


@functools.cache
def load(folder: Path | None = None) -> BurnInTable:
    """The table that ships, or that of `folder`. Raises ConfigError for a broken file."""
    return yaml_file.read((folder or configs_folder()) / "burn_in.yaml").convert(BurnInTable)
