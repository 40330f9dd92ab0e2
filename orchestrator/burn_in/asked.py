"""From the words of the command line to the configuration of a burn-in."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from orchestrator.burn_in import injections
from orchestrator.burn_in.levels import CHECKS, BurnInTable
from orchestrator.configuration.catalogue import Catalogue
from orchestrator.configuration.resolved import BurnIn, Configuration
from orchestrator.configuration.yaml_schema import did_you_mean, listed
from orchestrator.errors import ConfigError
from protocol.cell import Device

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)([smhd]))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
SHORTEST_S: Final = 30.0
LONGEST_S: Final = 14 * 86_400.0


def seconds(text: str) -> float:
    """The duration that `text` says: "8h", "30m", "90s", "1h30m". Raises ConfigError."""
    if _DURATION.fullmatch(text) is None:
        raise ConfigError(f"--burn-in {text}: expected a duration such as 10m, 8h, 1h30m or 90s")
    found = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if not SHORTEST_S <= found <= LONGEST_S:
        raise ConfigError(f"--burn-in {text}: expected {SHORTEST_S:g}s to {LONGEST_S / 86_400:g}d")
    return found


def configured(
    configuration: Configuration, duration: str, level: str | None, catalogue: Catalogue, table: BurnInTable
) -> Configuration:
    """The configuration of a burn-in that lasts `duration`. Raises ConfigError."""
    duration_s = seconds(duration)
    name = level or table.level_for(duration_s)
    if name not in table.levels:
        near = did_you_mean(name, table.levels)
        raise ConfigError(f"--level: there is no level '{name}'.{near} There is {listed(table.levels, 'and')}.")
    return msgspec.structs.replace(
        configuration,
        models=tuple(catalogue.model(model) for model in dict.fromkeys(chain(*table.levels[name].replay.values()))),
        workloads=CHECKS,
        precisions=tuple(dict.fromkeys((*table.levels[name].soak, *table.levels[name].truth))),
        launches=1,
        time_limit_s=duration_s,
        burn_in=BurnIn(
            duration_s=duration_s,
            level=name,
            cell_s={kind: table.cell_s(duration_s, kind) for kind in table.devices},
        ),
    )


def with_injections(configuration: Configuration, texts: Sequence[str], devices: Sequence[Device]) -> Configuration:
    """The same with the faults of --inject, which taint it. Raises ConfigError."""
    if not texts:
        return configuration
    if configuration.burn_in is None:
        raise ConfigError("--inject: faults are brought about in a burn-in alone; add --burn-in, or see `selftest`")
    parsed = tuple(injections.parse(text, devices) for text in texts)
    burn_in = msgspec.structs.replace(configuration.burn_in, injections=parsed)
    return msgspec.structs.replace(configuration, burn_in=burn_in, tainted=True)
