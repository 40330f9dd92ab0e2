"""Why a cell has no partner although the other side measured it: on another device or in the other mode. Pure."""

from collections.abc import Container, Mapping
from typing import Final

from msgspec.structs import replace

from orchestrator.compare import pairing
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import Side
from orchestrator.figures.keys import CellKey
from protocol.cell import Mode

_HOW: Final[Mapping[str, str]] = {
    Mode.SOLO: "measure with --solo",
    Mode.LOADED: "measure on several GPUs, without --solo",
}
BASELINE: Final = "the baseline"
OTHER: Final = "the other run"


def other_mode(key: CellKey, cells: Container[CellKey], side: str, *, wanted: str | None = None) -> str:
    """Describe the mode in which `side` has the cell, if only the mode differs; else "". wanted: mode to recommend."""
    for mode in Mode:
        if mode != key.mode and replace(key, mode=mode.value) in cells:
            how = f" ({_HOW[wanted or mode]})" if (wanted or mode) in _HOW else ""
            return f"{key.mode}; {side} has {mode}{how}"
    return ""


class Other:
    """The other run, searched for a cell on the same GPU model. is_first: `side` is the first run."""

    def __init__(self, side: Side, *, is_first: bool) -> None:
        self._side = BASELINE if side.is_baseline else OTHER
        self._is_first = is_first
        self._labels: dict[str, dict[CellKey, list[str]]] = {}
        for place in pairing.places(side).values():
            if place.cell.values:
                of_model = self._labels.setdefault(place.device.gpu_name, {})
                of_model.setdefault(place.cell.key, []).append(place.device.label)

    def why(self, place: Place) -> str:
        """Return why a cell has no partner, or "" if it was not measured at all."""
        known, key = self._labels.get(place.device.gpu_name, {}), place.cell.key
        if labels := known.get(key):
            return f"{self._side} has it on {', '.join(labels)}"
        return other_mode(key, known, self._side, wanted=None if self._is_first else key.mode)
