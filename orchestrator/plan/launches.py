"""Default number of launches of each cell: how often a fresh process measures it. Pure.

It is the number that fits into FITTING_S by the plan's estimate: at most MOST, but at least the number of the profile.
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.config.run_configuration import Configuration
from orchestrator.plan import estimate, planner
from protocol.cell import Device

FITTING_S: Final = 300.0
MOST: Final = 5


def fitted(configuration: Configuration, devices: Sequence[Device]) -> Configuration:
    """Return `configuration` with as many launches of each cell as fit into FITTING_S seconds.

    Their number is at most MOST, but never below configuration.launches. Raises ConfigError if nothing can be measured.
    """
    least = configuration.launches

    def total_s(launches: int) -> float:
        trial = replace(configuration, launches=launches)
        return estimate.total_s(planner.make(trial, devices), trial, devices)

    once_s = total_s(1)
    again_s = total_s(2) - once_s  # a scan for the batch size is not repeated
    fitting = 1 if again_s <= 0 else 1 + math.floor((FITTING_S - once_s) / again_s)
    return replace(configuration, launches=max(least, min(MOST, fitting)))


def reason(configuration: Configuration) -> str:
    """Return a sentence on the number of launches that `fitted` chose: "3 launches of each cell: as many as fit …"."""
    number = "One launch" if configuration.launches == 1 else f"{configuration.launches} launches"
    bounds = f"as many as fit into {FITTING_S / 60:g} min, at least those of the profile, at most {MOST}"
    return f"{number} of each cell: {bounds}."
