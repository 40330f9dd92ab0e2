"""Summarise the health records of a run for each GPU, as a Course: first and last values, rises, extremes. Pure.

A counter below its earlier value was reset, so its whole value is new.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.gpu.health.records import Deafened, HealthRecord, NodeVitals, Vitals, Watch
from protocol.messages import XidSeen

EVENTS, KERNEL_LOG = SOURCES = ("NVML's events", "the kernel's log")
"""Names of the two sources of the driver's errors (Xid). One readable source is enough."""
BUSY_PERCENT: Final = 50  # utilisation from which a reading counts as under load


@dataclass
class Course:
    """How the health values of one GPU, or of the machine, changed over a run.

    looks: number of readings. first, last, lowest, highest: name of a value → that reading of it. rise: name → total
    increase of a counter, also across its resets. busy_lowest: name → lowest reading while the GPU's utilisation was
    BUSY_PERCENT or more. spent_s: name → longest time in which all readings of the value were 0 or less; this shows a
    temperature margin that is used up. _spent_now_s: name → such time that lasts to the newest reading; 0 if that is
    above 0. refusals: name → why the value is missing in the newest reading. broken: NVML's first report that the GPU
    is unusable. damaged: its first report that the InfoROM is damaged. unheard: source of Xids (the driver's error
    numbers) → why it could not be read at some time. deaf: why no source could be read at some time. Texts are "" if
    all was well. watched_s: seconds between the readings, without pauses between telemetry processes.
    """

    looks: int = 0
    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    rise: dict[str, int] = field(default_factory=dict)
    lowest: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    spent_s: dict[str, float] = field(default_factory=dict)
    busy_lowest: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    broken: str = ""
    damaged: str = ""
    unheard: dict[str, str] = field(default_factory=dict)
    deaf: str = ""
    watched_s: float = 0.0
    _spent_now_s: dict[str, float] = field(default_factory=dict)

    @property
    def uncorrected(self) -> int:
        """Number of uncorrected memory errors from the first to the last reading; 0 also if they were never read."""
        return max(self.rise.get("ecc_uncorrected", 0), self.rise.get("ecc_uncorrected_lifetime", 0))

    def take(self, values: Mapping[str, int], refusals: Mapping[str, str], seconds: float) -> None:
        """Add a reading. values: name → value. refusals: name of a missing value → why it is missing.

        seconds: time since the previous reading by the same telemetry process; 0 for its first.
        """
        busy = values.get("gpu_percent", 0) >= BUSY_PERCENT
        for name, value in values.items():
            self._take(name, value, seconds, busy=busy)
        self.looks += 1
        self.watched_s += seconds
        self.refusals = dict(refusals)

    def _take(self, name: str, value: int, seconds: float, *, busy: bool) -> None:
        before = self.last.get(name)
        if before is None:
            self.first[name] = self.lowest[name] = self.highest[name] = value
            self.rise[name] = 0
        else:
            self.rise[name] += value - before if value >= before else value
            self.lowest[name] = min(self.lowest[name], value)
            self.highest[name] = max(self.highest[name], value)
            spent_s = self._spent_now_s.get(name, 0.0) + seconds if max(before, value) <= 0 else 0.0
            self._spent_now_s[name] = spent_s
            self.spent_s[name] = max(self.spent_s.get(name, 0.0), spent_s)
        if busy:
            self.busy_lowest[name] = min(self.busy_lowest.get(name, value), value)
        self.last[name] = value


class Heard(NamedTuple):
    """An Xid (the driver's error number) of a GPU. at_ns: monotonic time in the boot `boot_id`."""

    xid: int
    boot_id: str
    at_ns: int


class Look(NamedTuple):
    """Time of a reading of a GPU's health values: monotonic ns, in the boot `boot_id`."""

    boot_id: str
    at_ns: int


@dataclass(frozen=True)
class Courses:
    """Health of a run. All mappings are by UUID, all tuples ordered by time.

    gpus: changes of each GPU's values. node: changes of the machine's values. looks: times of readings, of the machine
    under the UUID "".
    """

    gpus: Mapping[str, Course] = field(default_factory=dict)
    node: Course = field(default_factory=Course)
    xids: Mapping[str, tuple[Heard, ...]] = field(default_factory=dict)
    looks: Mapping[str, tuple[Look, ...]] = field(default_factory=dict)


def follow(records: Iterable[HealthRecord]) -> Courses:
    """Summarise the health records of all telemetry processes of a run, given in the order written."""
    gpus: dict[str, Course] = {}
    node = Course()
    xids: dict[str, tuple[Heard, ...]] = {}
    looks: dict[str, list[Look]] = {}
    before: dict[str, int] = {}
    boot, hearing = "", _Hearing()
    for record in records:
        match record:
            case Watch():
                boot, before = record.boot_id, {}
                hearing = _Hearing(record.deaf, record.unlogged, record.kernel_log)
                hearing.mark(gpus)
            case Deafened():
                hearing = hearing.less(record)
                hearing.mark(gpus)
            case XidSeen():
                xids[record.uuid] = (*xids.get(record.uuid, ()), Heard(record.xid, boot, record.at_ns))
            case Vitals():
                course = gpus.setdefault(record.uuid, Course())
                course.broken = course.broken or record.broken
                course.damaged = course.damaged or record.damaged
                if not hearing.kernel_log:
                    course.unheard[KERNEL_LOG] = "no permission to read"
                course.take(record.values, record.refusals, _seconds(before, record.uuid, record.at_ns))
                looks.setdefault(record.uuid, []).append(Look(boot, record.at_ns))
            case NodeVitals():
                node.take(record.values, record.refusals, _seconds(before, "", record.at_ns))
                looks.setdefault("", []).append(Look(boot, record.at_ns))
    return Courses(gpus=gpus, node=node, xids=xids, looks={uuid: tuple(its) for uuid, its in looks.items()})


class _Hearing(NamedTuple):
    """Sources of Xids that a telemetry process can read. kernel_log: the kernel's log is read.

    deaf: UUID → why NVML reports no Xids of this GPU. unlogged: UUID → why the kernel's log may lack its Xids.
    """

    deaf: Mapping[str, str] = {}
    unlogged: Mapping[str, str] = {}
    kernel_log: bool = False

    def less(self, record: Deafened) -> "_Hearing":
        return _Hearing(
            {**self.deaf, **record.deaf}, {**self.unlogged, **record.unlogged}, self.kernel_log and record.kernel_log
        )

    def mark(self, gpus: dict[str, Course]) -> None:
        """Note in `gpus` (UUID → Course) which sources of Xids cannot be read. A note is never removed."""
        for uuid, why in self.unlogged.items():
            gpus.setdefault(uuid, Course()).unheard[KERNEL_LOG] = why
        for uuid, why in self.deaf.items():
            course = gpus.setdefault(uuid, Course())
            course.unheard[EVENTS] = why
            if not self.kernel_log or uuid in self.unlogged:
                course.deaf = why


def _seconds(before: dict[str, int], uuid: str, at_ns: int) -> float:
    passed = (at_ns - before.get(uuid, at_ns)) / 1e9
    before[uuid] = at_ns
    return passed
