"""The typed margins of configs/margins.yaml: tolerated slowdowns of a GPU or a run."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.stats.stragglers import Bound


class Margin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tolerated slowdown, or (in Spread) a standard deviation. source: where the number comes from."""

    percent: Annotated[float, msgspec.Meta(gt=0, lt=100)]  # of the reference's rate
    source: str  # origin of the figure

    @property
    def share(self) -> float:
        """The margin as a share, 0 to 1."""
        return self.percent / 100


class _SiblingMargins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    power: Margin
    clock: Margin
    bandwidth: Margin


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Standard deviations of rates, in percent of the mean. device: of cells limited by the device.

    host: of all other cells: limited by the host, limited by something unknown, on a CPU device, or not steady with too
    few launches to show their own spread. Margins.runs has two such pairs: `launch` for the rates of launches in one
    run, `session` for the mean rates of sessions.
    """

    device: Margin
    host: Margin  # bound by the host, not steady, or on a CPU device

    def of(self, *, host: bool) -> float:
        """Return the standard deviation as a share of the mean. host: return `host` instead of `device`."""
        return (self.host if host else self.device).share


class _RunMargins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cell: Margin
    end_to_end: Margin  # of loading and generation, which depend on the host
    launch: Spread  # between launches, where a run has fewer than three
    session: Spread  # between two sessions: another boot, day or driver state


class Margins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of configs/margins.yaml: tolerated slowdowns.

    siblings, baseline: of a GPU below the median of its siblings, or below a baseline. drift: of a GPU over a burn-in,
    compared with its siblings. drift_alone: of its own rates over a burn-in. runs: between two runs.
    """

    siblings: _SiblingMargins
    baseline: Margin  # of a GPU against the baseline of its board
    drift: Margin  # of a GPU against its siblings
    drift_alone: Margin  # of a GPU against its own earlier rates
    runs: _RunMargins

    @property
    def shares(self) -> Mapping[Bound, float]:
        """What limits a cell (power, clock or bandwidth) → its `of_siblings` margin as a share, 0 to 1."""
        return {bound: margin.share for bound, margin in self.of_siblings.items()}

    @property
    def of_siblings(self) -> Mapping[Bound, Margin]:
        """What limits a cell (power, clock or bandwidth) → tolerated slowdown of a GPU below its siblings' median."""
        margins = self.siblings
        return {Bound.POWER: margins.power, Bound.CLOCK: margins.clock, Bound.BANDWIDTH: margins.bandwidth}


@functools.cache
def load(folder: Path | None = None) -> Margins:
    """Load margins.yaml of `folder`, None for configs/. Raises ConfigError if it is broken or missing."""
    return yaml_file.read((folder or configs_folder()) / "margins.yaml").convert(Margins)
