"""Whether the hardware was sound, as types: a verdict for each GPU and for the machine, with all that led to it."""

from orchestrator.figures.parts import Part
from orchestrator.gpu.health.judges import Action, State
from orchestrator.gpu.health.verdict import HealthVerdict


class SignalReport(Part, frozen=True, kw_only=True):
    """One thing that was looked at. start, end, rise: as counted by the driver; null where it was not read.

    required: PASS is not given without it. action: what to do; empty where nothing is to be done.
    """

    name: str
    title: str
    state: State
    required: bool
    start: int | None
    end: int | None
    rise: int | None
    message: str
    action: Action

    @property
    def words(self) -> str:
        """What it says and what to do, for people."""
        what = f"{self.title}: {self.message}" if self.message else self.title
        return f"{what} ({self.action})" if self.action is not Action.NOTHING else what


class XidReport(Part, frozen=True, kw_only=True):
    """An error that the driver reported by its number. at: ISO 8601, UTC."""

    at: str
    xid: int
    meaning: str


class DeviceHealth(Part, frozen=True, kw_only=True):
    """One GPU. applicable, readable: how many signals it can have, and how many of them could be read.

    lacking: required ones that could not. looks: how often it was looked at, over watched_seconds. note: why the
    readings are incomplete, or why there are none. earlier: what earlier runs have said against it; empty for nothing.
    """

    gpu_uuid: str
    gpu_id: int
    verdict: HealthVerdict
    action: Action
    note: str
    applicable: int
    readable: int
    lacking: tuple[str, ...]
    looks: int
    watched_seconds: float
    xids: tuple[XidReport, ...]
    signals: tuple[SignalReport, ...]
    earlier: str = ""


class NodeHealth(Part, frozen=True, kw_only=True):
    """The machine: reboots, its own error counters, differences between identical GPUs. See DeviceHealth."""

    verdict: HealthVerdict
    action: Action
    applicable: int
    readable: int
    signals: tuple[SignalReport, ...]


class HealthReport(Part, frozen=True, kw_only=True):
    """All of it. level: of configs/health.yaml, which says what PASS requires. verdict: the gravest of all."""

    level: str
    verdict: HealthVerdict
    gpus: tuple[DeviceHealth, ...]
    node: NodeHealth
