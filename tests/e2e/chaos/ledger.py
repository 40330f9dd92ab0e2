"""What was done to a run, written down by those who did it. The checker holds the run's own story against it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Hit:
    """One fault from outside, on both clocks. life: PID of the orchestrator. launch, device: of a worker."""

    kind: str
    at_ns: int
    wall: float
    life: int
    launch: int | None = None
    device: str | None = None


@dataclass(frozen=True)
class Life:
    """One process of the orchestrator. code: as subprocess gives it. descriptors: moments, and how many it held."""

    pid: int
    began_ns: int
    ended_ns: int
    code: int
    log: Path
    descriptors: tuple[tuple[int, int], ...] = ()


@dataclass
class Ledger:
    """One storm. cells: planned, by id. planted: model → what it does to itself, once; planted_on: on which device.

    sprung: models that did, and when, in monotonic nanoseconds. findings: what was seen meanwhile.
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
