"""The levels of the burn-in, as configs/burn_in.yaml has them: which checks, on what, and how long each lasts."""

import functools
import math
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.config.run_configuration import BurnIn, Configuration
from orchestrator.stats.windows import WINDOW_NS
from protocol.cell import DeviceKind, Precision, Workload

CHECKS: Final = (Workload.SOAK, Workload.TRUTH, Workload.MEMORY, Workload.REPLAY, Workload.LINKS)
"""What every level does in each round, where the devices have it, and without which there is no PASS."""
LONGEST: Final = "full"
_SHORTEST_ROUND: Final = 0.5
"""Of a duration, however short: the rest is for starting, which takes as long in a short one."""


def requested(configuration: Configuration) -> BurnIn:
    """Return what the configuration of a burn-in asks for."""
    assert configuration.burn_in is not None
    return configuration.burn_in


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a round does. replay: by kind of device, model → precision. up_to_s: see configs/burn_in.yaml.

    links: of what is added up over all devices.
    """

    truth: tuple[Precision, ...]
    soak: tuple[Precision, ...]
    links: tuple[Precision, ...]
    replay: dict[DeviceKind, dict[str, Precision]]
    up_to_s: float | None = None

    def cells(self, kind: DeviceKind, *, steps: bool) -> int:
        """How many cells a round has at most on a device of this kind; one of them is the test of memory."""
        return len(self.soak) + len(self.truth) + steps + len(self.replay[kind]) + len(self.links) + 1


class OnDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """On one kind of device. side: of matrices; batch: of training steps; links_mib: that a device sends another.

    share: of the duration that one cell lasts; least_s, most_s: its bounds, in seconds.
    """

    side: int
    links_mib: int
    batch: int
    share: float
    least_s: float
    most_s: float


class HeatSoakRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a GPU has warmed up; see configs/burn_in.yaml."""

    rise_c: float
    windows: int
    most_s: float
    most_share: float

    def most_windows(self, asked_s: float) -> int:
        """Windows after which a GPU is judged though it is still warming up, in a burn-in of `asked_s`."""
        return math.ceil(min(self.most_s, self.most_share * asked_s) * 1e9 / WINDOW_NS)


class StepsRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a device works and rests under --steps."""

    on_s: float
    off_s: float


class BurnInTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. least_rounds: that have room in what is left of a duration after `starting_s` seconds."""

    levels: dict[str, Level]
    devices: dict[DeviceKind, OnDevice]
    least_rounds: float
    starting_s: float
    heat_soak: HeatSoakRule
    steps: StepsRule

    def level_for(self, duration_s: float) -> str:
        """The level that a duration means where no other is asked for."""
        fitting = [
            name for name, level in self.levels.items() if level.up_to_s is not None and duration_s <= level.up_to_s
        ]
        return fitting[0] if fitting else LONGEST

    def cell_s(self, duration_s: float, kind: DeviceKind, level: str, *, steps: bool = False) -> float:
        """How long one cell lasts in a burn-in of `duration_s`: never so long that a whole round has no time."""
        bounds = self.devices[kind]
        wanted_s = min(max(duration_s * bounds.share, bounds.least_s), bounds.most_s)
        round_s = max((duration_s - self.starting_s) / self.least_rounds, duration_s * _SHORTEST_ROUND)
        return min(wanted_s, round_s / self.levels[level].cells(kind, steps=steps))


@functools.cache
def load(folder: Path | None = None) -> BurnInTable:
    """The table that ships, or that of `folder`. Raises ConfigError for a broken file."""
    return yaml_file.read((folder or configs_folder()) / "burn_in.yaml").convert(BurnInTable)
