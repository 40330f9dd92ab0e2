"""The burn-in levels of configs/burn_in.yaml: checks of a round, their inputs and length."""

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
"""The checks of every round at every level, if the devices support them. The verdict PASS needs all of them."""
LONGEST: Final = "full"
_SHORTEST_ROUND: Final = 0.5  # Share of even the shortest duration that a round gets. The rest is for starting


def requested(configuration: Configuration) -> BurnIn:
    """Return the settings of the burn-in. configuration: of a burn-in; another one fails an assertion."""
    assert configuration.burn_in is not None
    return configuration.burn_in


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The checks of a burn-in round at one level, such as "quick".

    truth, soak: precisions of the matrix products of these checks. links: precisions of the sums over devices. replay:
    kind of device → model → precision of its training steps. up_to_s: longest duration in seconds for which this level
    is the default; None for "full", the default of all longer ones.
    """

    truth: tuple[Precision, ...]
    soak: tuple[Precision, ...]
    links: tuple[Precision, ...]
    replay: dict[DeviceKind, dict[str, Precision]]
    up_to_s: float | None = None

    def cells(self, kind: DeviceKind, *, steps: bool) -> int:
        """Count the cells of a round on a device of this kind that has links. steps: whether --steps adds a cell."""
        return len(self.soak) + len(self.truth) + steps + len(self.replay[kind]) + len(self.links) + 1


class OnDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes and lengths of cells on one kind of device.

    side: rows of the square matrices. links_mib: MiB that each device sends to each other device. batch: batch size of
    training steps. share: length of a cell as a share of the duration of the burn-in, but at least least_s and at most
    most_s seconds.
    """

    side: int
    links_mib: int
    batch: int
    share: float
    least_s: float
    most_s: float


class HeatSoakRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GPU is warm if its highest temperature so far rose by at most rise_c °C over the last `windows` windows.

    It also counts as warm after most_s seconds or most_share (0 to 1) of the duration of the burn-in, whichever is
    shorter. A window is ten seconds.
    """

    rise_c: float
    windows: int
    most_s: float
    most_share: float

    def most_windows(self, requested_s: float) -> int:
        """Return after how many windows, rounded up, a GPU counts as warm in any case. requested_s: of the burn-in."""
        return math.ceil(min(self.most_s, self.most_share * requested_s) * 1e9 / WINDOW_NS)


class StepsRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of load and seconds of rest that alternate under --steps."""

    on_s: float
    off_s: float


class BurnInTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of configs/burn_in.yaml. levels: name → level.

    least_rounds: number of rounds that should fit into the duration after starting_s, the seconds for the start.
    """

    levels: dict[str, Level]
    devices: dict[DeviceKind, OnDevice]
    least_rounds: float
    starting_s: float
    heat_soak: HeatSoakRule
    steps: StepsRule

    def level_for(self, duration_s: float) -> str:
        """Return the name of the default level: the first in the file with up_to_s >= duration_s, else "full"."""
        fitting = [
            name for name, level in self.levels.items() if level.up_to_s is not None and duration_s <= level.up_to_s
        ]
        return fitting[0] if fitting else LONGEST

    def cell_s(self, duration_s: float, kind: DeviceKind, level: str, *, steps: bool = False) -> float:
        """Return the length of a cell in seconds: `share` of duration_s, but at least least_s and at most most_s.

        share, least_s, most_s: as configured for `kind`. duration_s: duration of the burn-in. Cells become shorter,
        even than least_s, so that a round lasts at most (duration_s - starting_s) / least_rounds, or half of duration_s
        if that is longer. steps: whether --steps adds a cell to each round.
        """
        bounds = self.devices[kind]
        wanted_s = min(max(duration_s * bounds.share, bounds.least_s), bounds.most_s)
        round_s = max((duration_s - self.starting_s) / self.least_rounds, duration_s * _SHORTEST_ROUND)
        return min(wanted_s, round_s / self.levels[level].cells(kind, steps=steps))


@functools.cache
def load(folder: Path | None = None) -> BurnInTable:
    """Read burn_in.yaml once per process. folder: None for gpubench's configs. Raises ConfigError if it is invalid."""
    return yaml_file.read((folder or configs_folder()) / "burn_in.yaml").convert(BurnInTable)
