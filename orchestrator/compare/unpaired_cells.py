"""Why a cell (model and configuration) has no partner in the other run: it is on another device or in another mode."""

from collections.abc import Container, Mapping
from typing import Final

from msgspec.structs import replace

from orchestrator.compare import pairing
from orchestrator.compare.cell_facts import Place
from orchestrator.compare.run_figures import Side
from orchestrator.config.yaml_schema import listed
from orchestrator.figures.keys import CellKey
from protocol.cell import Mode

_HOW: Final[Mapping[str, str]] = {
    Mode.SOLO: "measure with --solo",
    Mode.LOADED: "measure on several GPUs, without --solo",
}
BASELINE: Final = "the baseline"
THIS_RUN: Final = "this run"


def other_mode(key: CellKey, cells: Container[CellKey], own: str, side: str, *, wanted: str | None = None) -> str:
    """Return "solo in A, loaded in B (advice)" if run B has A's cell `key` in the other mode, else "".

    own, side: names of A and B. cells: keys of B. wanted: mode in which the advice tells to measure; None: that of B.
    """
    for mode in Mode:
        if mode != key.mode and replace(key, mode=mode.value) in cells:
            how = f" ({_HOW[wanted or mode]})" if (wanted or mode) in _HOW else ""
            return f"{key.mode} in {own}, {mode} in {side}{how}"
    return ""


class Other:
    """Explains why cells of the run `own` have no partner in the run `side`. is_first: whether `side` is the first run.

    If `side` measured a cell in the other mode, the text advises to measure again in the mode of the first run.
    """

    def __init__(self, side: Side, own: Side, *, is_first: bool) -> None:
        self._side, self._own = (BASELINE if one.is_baseline else one.name for one in (side, own))
        self._is_first = is_first
        self._labels: dict[str, dict[CellKey, list[str]]] = {}
        for place in pairing.places(side).values():
            if place.cell.values:
                of_model = self._labels.setdefault(place.device.gpu_name, {})
                of_model.setdefault(place.cell.key, []).append(place.device.label)

    def why(self, place: Place) -> str:
        """Return why a cell of the run `own` has no partner in `side`; "" if neither the device nor the mode is why.

        place: the cell, on its device. Examples: "B measured the same cell only on GPU 1", "the mode is solo in A,
        loaded in B".
        """
        known, key = self._labels.get(place.device.gpu_name, {}), place.cell.key
        if labels := known.get(key):
            return f"{self._side} measured the same cell only on {listed(labels, 'and')}"
        mode = other_mode(key, known, self._own, self._side, wanted=None if self._is_first else key.mode)
        return f"the mode is {mode}" if mode else ""
