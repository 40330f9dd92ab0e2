"""The margins of configs/margins.yaml, typed: by how much a GPU, or a run, may be slower before anybody is told."""

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orchestrator.config import yaml_file
from orchestrator.config.catalogue import configs_folder
from orchestrator.errors import ConfigError
from orchestrator.stats.siblings import Bound


class Margin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """percent: of the reference's rate. source: where the figure comes from."""

    percent: float
    source: str

    @property
    def share(self) -> float:
        """The margin as a share, 0 to 1."""
        return self.percent / 100


class SiblingMargins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Between identical GPUs, by bound."""

    power: Margin
    clock: Margin
    bandwidth: Margin


class RunMargins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Between two runs. end_to_end: of what goes through the host, loading and generation."""

    cell: Margin
    end_to_end: Margin


class Margins(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. runs: between two of them.

    drift: of a GPU over a run, against its siblings; drift_alone: by its own rates, with what the room does to them.
    """

    siblings: SiblingMargins
    drift: Margin
    drift_alone: Margin
    runs: RunMargins

    @property
    def shares(self) -> Mapping[Bound, float]:
        """The margins between siblings as shares, as siblings.judge takes them."""
        return {bound: margin.share for bound, margin in self.of_siblings.items()}

    @property
    def of_siblings(self) -> Mapping[Bound, Margin]:
        """The margins between siblings, by bound."""
        margins = self.siblings
        return {Bound.POWER: margins.power, Bound.CLOCK: margins.clock, Bound.BANDWIDTH: margins.bandwidth}


def load(folder: Path | None = None) -> Margins:
    """The margins of `folder`, which is the one that ships unless given. Raises ConfigError for a broken file."""
    return _load(folder or configs_folder())


@functools.cache
def _load(folder: Path) -> Margins:
    document = yaml_file.read(folder / "margins.yaml")
    margins = document.convert(Margins)
    places: dict[tuple[str, ...], Margin] = {("siblings", bound): one for bound, one in margins.of_siblings.items()}
    places |= {("runs", "cell"): margins.runs.cell, ("runs", "end_to_end"): margins.runs.end_to_end}
    places |= {("drift",): margins.drift, ("drift_alone",): margins.drift_alone}
    for path, margin in places.items():
        if not 0 < margin.percent < 100:
            where = document.where((*path, "percent"))
            raise ConfigError(f"{where}: expected more than 0 and less than 100, got {margin.percent:g}")
    return margins
