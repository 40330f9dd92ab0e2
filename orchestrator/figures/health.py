"""Report types of hardware health: verdicts on each GPU and the machine, and their evidence."""

from orchestrator.figures.parts import Part
from orchestrator.gpu.health.judges import Action, State
from orchestrator.gpu.health.verdict import HealthVerdict


class SignalReport(Part, frozen=True, kw_only=True):
    """One health signal, such as a count of memory errors. required: whether the verdict PASS needs the signal.

    start, end, rise: first reading in the run, last reading, and increase. Null if it was not read. If the signal is
    judged by several values, they are those of the first one in its definition.
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
    def text(self) -> str:
        """Title, message and advised action as one text: "title: message (action)". Empty parts are omitted."""
        what = f"{self.title}: {self.message}" if self.message else self.title
        return what if self.action is Action.NOTHING or self.action in self.message else f"{what} ({self.action})"


class XidReport(Part, frozen=True, kw_only=True):
    """XID error reported by the driver. at: ISO 8601, UTC."""

    at: str
    xid: int
    meaning: str


class DeviceHealth(Part, frozen=True, kw_only=True):
    """Health of one GPU. A CPU device is NOT APPLICABLE.

    applicable: number of signals that the GPU has. readable: number of those that could be read. lacking: required
    signals that were not read all the time. looks: number of readings over watched_seconds. note: why there is no
    verdict or readings are missing. earlier: the newest FAIL (else WARN) that earlier runs found, as text.
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
    """Health of the machine: reboots, its error counters, differences between identical GPUs. See DeviceHealth."""

    verdict: HealthVerdict
    action: Action
    applicable: int
    readable: int
    signals: tuple[SignalReport, ...]


class HealthReport(Part, frozen=True, kw_only=True):
    """Health of all GPUs and of the machine. verdict: the gravest of their verdicts.

    level: name of a level in configs/health.yaml, which lists the requirements of PASS. --require adds to them.
    """

    level: str
    verdict: HealthVerdict
    gpus: tuple[DeviceHealth, ...]
    node: NodeHealth
