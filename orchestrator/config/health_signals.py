"""Table of a GPU's health signals, and of the boards that have them.

A signal is not applicable if the board lacks it, or the driver calls it unsupported on every GPU of its kind
(gpu/health/verdict.py). Any other signal that cannot be read blocks PASS if it is required (configs/health.yaml).
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_GENERATIONS: Final = (
    *("Kepler", "Maxwell", "Pascal", "Volta", "Turing"),
    *("Ampere", "Ada", "Hopper", "Blackwell", "Rubin"),
)
"""NVML's names of GPU architectures, oldest first. An architecture that is not listed counts as newer."""
_CONSUMER: Final = ("GeForce", "TITAN")


class BoardClass(enum.StrEnum):
    """Class of a board: for consumers, for professional use (workstation, data centre), or a MIG slice of a GPU."""

    CONSUMER = "consumer"
    PROFESSIONAL = "professional"
    SLICE = "slice"


@dataclass(frozen=True)
class Board:
    """Facts about a GPU board that decide which health signals apply to it.

    architecture: None if unknown. nvlinks: number of links that configs/health.yaml gives for this kind of board; 0 if
    it gives none, or if NVML sees no other GPU and `bridged` is False. bridged: in the run, an NVLink of this board, or
    of one of its kind, was up.
    """

    name: str
    architecture: str | None
    kind: BoardClass
    nvlinks: int = 0
    bridged: bool = False

    def since(self, architecture: str) -> bool:
        """Whether the board is of this architecture or a newer one. True if its architecture is unknown."""
        if self.architecture not in _GENERATIONS:
            return True
        return _GENERATIONS.index(self.architecture) >= _GENERATIONS.index(architecture)

    @property
    def professional(self) -> bool:
        """Whether the board is made for a data centre or a workstation."""
        return self.kind is BoardClass.PROFESSIONAL


def board_class(name: str, uuid: str) -> BoardClass:
    """Return the class of a board. name: as NVML gives it. uuid: shows whether the board is a slice."""
    if uuid.startswith("MIG-"):
        return BoardClass.SLICE
    return BoardClass.CONSUMER if any(word in name for word in _CONSUMER) else BoardClass.PROFESSIONAL


@dataclass(frozen=True)
class Signal:
    """A health signal. applies: whether a board has it.

    reads: names of the NVML values that show it, the most important first; () if it is found by other means.
    """

    name: str
    title: str
    reads: tuple[str, ...]  # values of reader.py behind it, the most important first
    applies: Callable[[Board], bool]


def _always(_board: Board) -> bool:
    return True


def _professional(board: Board) -> bool:
    return board.professional


def _remaps(board: Board) -> bool:
    return board.professional and board.since("Ampere")


def _retires(board: Board) -> bool:
    return board.professional and not board.since("Ampere")


def _linked(board: Board) -> bool:
    return board.nvlinks > 0 or board.bridged


def _switched(board: Board) -> bool:
    return board.nvlinks > 0 and board.since("Hopper")


SIGNALS: Final = (
    Signal("gpu", "the GPU answers", (), _always),
    Signal("xid", "driver errors", (), _always),
    Signal("launches", "hardware errors in launches", (), _always),
    Signal("recovery_action", "recovery action requested by the driver", ("recovery_action",), _remaps),
    Signal("ecc_uncorrected", "memory errors, uncorrected", ("ecc_uncorrected",), _professional),
    Signal("ecc_corrected", "memory errors, corrected", ("ecc_corrected",), _professional),
    Signal("sram", "SRAM errors beyond the driver's threshold", ("sram_threshold",), _remaps),
    Signal("rows_failed", "memory rows that could not be remapped", ("rows_failed",), _remaps),
    Signal("rows_pending", "memory rows waiting to be remapped", ("rows_pending",), _remaps),
    Signal("retired_pages", "memory pages retired", ("retired_pages",), _retires),
    Signal("slowdown", "clocks reduced by heat or power brake", (), _always),
    Signal("power_limit", "power limit", ("power_limit_mw", "power_default_mw"), _always),
    Signal("thermal_violation", "thermal violation time of the driver", ("thermal_violation_ns",), _always),
    Signal("gpu_temperature", "temperature of the GPU", ("gpu_margin_c",), _always),
    Signal("memory_temperature", "temperature of the memory", ("memory_margin_c",), _professional),
    Signal("pcie_replays", "PCIe replays", ("pcie_replays", "pcie_generation", "pcie_width"), _always),
    Signal("pcie_generation", "PCIe generation under load", ("pcie_generation", "pcie_generation_max"), _always),
    Signal("pcie_width", "PCIe width", ("pcie_width", "pcie_width_max"), _always),
    Signal("nvlinks", "NVLinks up", ("nvlinks_up",), _linked),
    Signal("nvlink_errors", "NVLink errors (CRC, replay, recovery)", ("nvlink_errors",), _linked),
    Signal("fabric", "NVSwitch fabric", ("fabric_state", "fabric_status"), _switched),
)
"""All health signals, in the order of the report."""

FAMILIES: Final = {
    "ecc": ("ecc_uncorrected", "ecc_corrected"),
    "rows": ("rows_failed", "rows_pending"),
    "temperature": ("gpu_temperature", "memory_temperature"),
    "pcie": ("pcie_replays", "pcie_generation", "pcie_width"),
    "nvlink": ("nvlinks", "nvlink_errors"),
}
"""Name of a group of signals → names of these signals."""


def names() -> tuple[str, ...]:
    """Return the names of all signals, then those of the groups of signals, such as "pcie"."""
    return (*(signal.name for signal in SIGNALS), *FAMILIES)


def signals_of_word(word: str) -> tuple[str, ...]:
    """Return the names of the signals of a group such as "pcie"; for any other word, known or not, only this word."""
    return FAMILIES.get(word, (word,))
