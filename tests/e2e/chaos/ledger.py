"""What was done to a run, written down by those who did it. The checker holds the run's own story against it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Hit:
    """One fault from outside. at_ns, wall: when, on both clocks. life: PID of the orchestrator.

    launch, device: of a worker, which is one of several where the cell has more devices.
    """

    kind: str
    at_ns: int
    wall: float
    life: int
    launch: int | None = None
    device: str | None = None


@dataclass(frozen=True)
class Life:
    """One process of the orchestrator, from its start to its end. code: as subprocess gives it. log: what it said.

    descriptors: how many it held, again and again, each with the moment.
    """

    pid: int
    began_ns: int
    ended_ns: int
    code: int
    log: Path
    descriptors: tuple[tuple[int, int], ...] = ()


@dataclass
class Ledger:
    """One storm.

    cells: every planned cell, as a map, by its id. planted: model → what it is to do to itself, once; planted_on: model
    of a cell on several devices → on which of them. sprung: those that did, and when, in monotonic nanoseconds.
    findings: what was seen while it was carried out.
    """

    seed: int
    folder: Path
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    planted: dict[str, str] = field(default_factory=dict)
    planted_on: dict[str, str] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    sprung: dict[str, int | None] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @property
    def published(self) -> Path:
        """Where the run was asked to leave its report, as by `-o`; the other formats lie beside it."""
        return self.folder / "out" / "report.json"

    @property
    def faults(self) -> int:
        return len(self.hits) + len(self.sprung)
