"""The margins of configs/margins.yaml, typed: the tolerated slowdown of a GPU or of a run."""

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.errors import ConfigError
from orchestrator.stats.siblings import Bound


class Margin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tolerated slowdown."""

    percent: float  # of the reference's rate
    source: str  # origin of the figure

    @property
    def share(self) -> float:
        """The margin as a share, 0 to 1."""
        return self.percent / 100


class _SiblingMargins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    power: Margin
    clock: Margin
    bandwidth: Margin


class _RunMargins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Between two runs."""

    cell: Margin
    end_to_end: Margin  # of loading and generation, which depend on the host


class Margins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    siblings: _SiblingMargins
    drift: Margin  # of a GPU against its siblings
    drift_alone: Margin  # of a GPU against its own earlier rates
    runs: _RunMargins

    @property
    def shares(self) -> Mapping[Bound, float]:
        """Margins between siblings as shares, for siblings.judge."""
        return {bound: margin.share for bound, margin in self.of_siblings.items()}

    @property
    def of_siblings(self) -> Mapping[Bound, Margin]:
        """Margins between siblings, by bound."""
        margins = self.siblings
        return {Bound.POWER: margins.power, Bound.CLOCK: margins.clock, Bound.BANDWIDTH: margins.bandwidth}


@functools.cache
def load(folder: Path | None = None) -> Margins:
    """Load the margins of `folder`, by default those that ship. Raises ConfigError for a broken file."""
    document = yaml_file.read((folder or configs_folder()) / "margins.yaml")
    margins = document.convert(Margins)
    places: dict[tuple[str, ...], Margin] = {
        **{("siblings", bound): one for bound, one in margins.of_siblings.items()},
        **{("runs", "cell"): margins.runs.cell, ("runs", "end_to_end"): margins.runs.end_to_end},
        **{("drift",): margins.drift, ("drift_alone",): margins.drift_alone},
    }
    for path, margin in places.items():
        if not 0 < margin.percent < 100:
            where = document.where((*path, "percent"))
            raise ConfigError(f"{where}: expected more than 0 and less than 100, got {margin.percent:g}")
    return margins
