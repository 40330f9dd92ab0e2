"""Burn-ins that never ran, in folders with real files, written round by round as all GPUs did them.

burn_in_run = FakeBurnIn(tmp_path, gpus(8), "1h")
burn_in_run.work(rate=lambda gpu, hours: 0.9 if gpu == 3 else 1.0)
report = burn_in_run.ended()
"""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.figures.burn_in import BurnInReport, GpuBurnIn
from orchestrator.gpu.health.records import LOOK_NS, NOT_COUNTED, HealthRecord, NodeVitals, Vitals, Watch
from orchestrator.gpu.telemetry.frames import FrameFile
from orchestrator.gpu.telemetry.samples import SampleFile
from orchestrator.kinds.burn_in import levels, settings
from orchestrator.kinds.burn_in import planning as burn_in_plan
from orchestrator.store.journal_records import Quarantine, Suspension, TooHot
from protocol import codec
from protocol.cell import Cell, Device, DeviceKind, Workload
from protocol.failure import Category, Phase
from protocol.verification import MemoryShare, Verification
from tests.fakes.configurations import shipped_catalogue
from tests.fakes.health import WELL
from tests.fakes.runs import SECOND_NS, FakeRun, cpus, sample

START_S = {DeviceKind.CUDA: 5, DeviceKind.CPU: 2}
"""Between two launches on a device: less than the 3 s that a cell of ten minutes on a CPU device lasts."""
NOTHING: Mapping[str, str] = {}
NODE = dict.fromkeys(("aer_fatal", "aer_nonfatal", "aer_correctable", "memory_uncorrected", "memory_corrected"), 0)


def same(_gpu: int, _hours: float) -> float:
    return 1.0


class FakeBurnIn(FakeRun):
    """A burn-in of some devices. hours: how long it has lasted. start_s: between two launches."""

    def __init__(
        self, folder: Path, devices: tuple[Device, ...], duration: str = "1h", start_s: int | None = None
    ) -> None:
        self._duration, self._start_s = duration, START_S[devices[0].kind] if start_s is None else start_s
        super().__init__(folder, devices=devices, models=(), probes=shipped_catalogue().probes)
        self._begun_ns = self.now_ns
        self._watch()

    def asked(self, configuration: Configuration) -> Configuration:
        return settings.configured(configuration, self._duration, None, shipped_catalogue(), levels.load())

    def planned(self, configuration: Configuration, devices: tuple[Device, ...]) -> Plan:
        """Rounds, without the launches for which there is no time and which a run would drop."""
        made = burn_in_plan.make(configuration, devices, levels.load())
        fitting = round(
            configuration.burn_in.duration_s / (configuration.burn_in.cell_s[devices[0].kind] + self._start_s)
        )
        order = {uuid: slots[:fitting] for uuid, slots in made.order.items()}
        return msgspec.structs.replace(made, order=order)

    @property
    def hours(self) -> float:
        return (self.now_ns - self._begun_ns) / 3.6e12

    def work(
        self,
        *,
        rate: Callable[[int, float], float] = same,
        rate_in: Callable[[Cell, int, float], float] | None = None,
        first: int = 0,
        last: int | None = None,
        verified: Mapping[tuple[int, Workload, int], Verification] | None = None,
    ) -> None:
        """The launches of the plan on all devices beside each other, from number `first` to before `last`.

        rate: by device and hours, as a share of what it should be; rate_in: of it in a cell. verified: not well, by
        device, workload and round.
        """
        stored = self.stored
        cells = {cell.id: cell for cell in stored.plan.cells}
        cell_s = round(stored.configuration.burn_in.cell_s[stored.devices[0].kind])
        at = {device.uuid: place for place, device in enumerate(stored.devices)}
        slots = zip(*(stored.plan.order[device.uuid] for device in stored.devices), strict=True)
        for queue in itertools.islice(slots, first, last):
            begin_ns = self.now_ns + self._start_s * SECOND_NS
            for place, (cell_id, number) in enumerate(queue):
                self._at(begin_ns)
                cell = cells[cell_id]
                if stored.devices[place].uuid != cell.devices[0]:
                    continue  # the first of several devices speaks for all
                found = {
                    uuid: (verified or {}).get((at[uuid], cell.workload, number), sound(cell)) for uuid in cell.devices
                }
                share = rate(place, self.hours) if rate_in is None else rate_in(cell, place, self.hours)
                self._launch(cell, number, cell_s, share, found)
            self._at(begin_ns + cell_s * SECOND_NS)

    def _at(self, at_ns: int) -> None:
        """Both clocks, also back: what is written one after the other happens at the same time."""
        self._wall_s += (at_ns - self.now_ns) / 1e9
        self.now_ns = at_ns

    def _launch(self, cell: Cell, number: int, cell_s: int, rate: float, verified: Mapping[str, Verification]) -> None:
        """Blocks of a second, of ten iterations each; a slow device does the same in more time.

        verified: UUID → verification by its launch; mismatches are seen in its first second.
        """
        seen = {uuid: _seen(one, self.now_ns + SECOND_NS) for uuid, one in verified.items()}
        self.measured(
            cell,
            number=number,
            forward_ms=100 / rate,
            blocks=round(cell_s * rate),
            iterations=10,
            flops_per_iteration=1e12 if cell.workload is not Workload.MEMORY else None,
            verification=seen[cell.devices[0]],
            others={uuid: seen[uuid] for uuid in cell.devices[1:]},
        )

    def climate(
        self,
        device: int,
        *,
        temperature: Callable[[float], float | None] = lambda _hours: 61.0,
        clock: Callable[[float], float] = lambda _hours: 1500.0,
        reasons: int = 4,
    ) -> None:
        """Samples of a device, one a second, of the whole burn-in; temperature and clock at so many hours."""
        uuid = self.stored.devices[device].uuid
        self.paths.telemetry.mkdir(exist_ok=True)
        file = SampleFile(self.paths.samples(uuid), self.boot_id)
        samples = []
        for moment in range(self._begun_ns, self.now_ns + SECOND_NS, SECOND_NS):
            hours = (moment - self._begun_ns) / 3.6e12
            degrees = temperature(hours)
            readings = {"temperature_c": None if degrees is None else round(degrees), "reasons": reasons}
            samples.append(sample(moment, sm_clock_mhz=round(clock(hours)), memory_used_bytes=1 << 30, **readings))
        file.append(samples)
        file.close()

    def well(
        self,
        values: Mapping[str, int] = WELL,
        refusals: Mapping[str, str] = NOTHING,
        node: Mapping[str, int] = NODE,
    ) -> None:
        """Every GPU was looked at in the whole burn-in, and nothing was wrong with its health or the machine's.

        refusals: of values of the GPUs. node: counters of the machine; the others do not exist.
        """
        absent = {name: NOT_COUNTED for name in NODE if name not in node}
        for moment in range(self._begun_ns, self.now_ns + LOOK_NS, LOOK_NS):
            for device in self.stored.devices:
                self._health(Vitals(at_ns=moment, uuid=device.uuid, values={**values}, refusals={**refusals}))
            self._health(NodeVitals(at_ns=moment, values={**node}, refusals=absent))

    def first(self, workload: Workload, device: str | None = None) -> Cell:
        cells = self.stored.plan.cells
        return next(cell for cell in cells if cell.workload is workload and device in (None, cell.devices[0]))

    def one(self, cell: Cell, number: int = 0, *, blocks: int = 3, **changes: object) -> int:
        """A healthy launch of a cell, of so many seconds, beside the plan. Returns the launch."""
        healthy = {"verification": sound(cell), "forward_ms": 100.0, "iterations": 10}
        return self.measured(cell, number=number, blocks=blocks, **{**healthy, **changes})

    def play(self, script: str) -> None:
        """Steps such as "work 0-10, pause 55, work 10-": launches of the plan by number, seconds of something else.

        pause, halt: nothing happens, the orchestrator is suspended; stall, cut, fail: a soak of the first device is
        stopped, ended with the run, misses its deadline; other: the second device works; drop: the links have no time.
        """
        for step in script.split(", "):
            what, _, how = step.partition(" ")
            if what == "work":
                first, _, last = how.partition("-")
                self.work(first=int(first), last=int(last) if last else None)
            else:
                self._step(what, float(how or 0))

    def _step(self, what: str, seconds: float) -> None:
        cell, ended = soak(self), {"number": 9, "phase": Phase.MEASURE, "lasted_s": seconds}
        if what in {"pause", "halt"}:
            self.now_ns += round(seconds * SECOND_NS)
        if what == "halt":
            self._journal.append(Suspension(at_ns=self.now_ns, seconds=seconds))
        elif what == "stall":
            self.one(cell, 9, suspended_s=seconds)
        elif what in {"cut", "fail"}:
            self.failed(cell, Category.STOPPED if what == "cut" else Category.DEADLINE, **ended)
        elif what == "other":
            self.one(soak(self, "cpu:1"), 9, blocks=round(seconds))
        elif what == "drop":
            self.dropped(self.first(Workload.LINKS), "no time was left", number=7)
        elif what == "segment":
            self.segment()
        else:
            assert what == "pause", what

    def chapter(self) -> BurnInReport:
        return self.report().burn_in

    def finished(self) -> BurnInReport:
        self.finish()
        return self.chapter()

    def watched(self, **climate: Callable[[float], float | None]) -> BurnInReport:
        for place in range(len(self.stored.devices)):
            self.climate(place, **climate)  # type: ignore[arg-type]  # each of its own type
        self.well()
        return self.finished()

    def too_hot(self, device: int, reason: str) -> None:
        uuid = self.stored.devices[device].uuid
        self._journal.append(TooHot(device=uuid, at_ns=self.now_ns, reason=reason))
        self._journal.append(Quarantine(device=uuid, at_ns=self.now_ns, reason=reason))

    def _watch(self) -> None:
        self.paths.telemetry.mkdir(exist_ok=True)
        self._file = FrameFile(self.paths.health)
        self._health(Watch(at_ns=self.now_ns, boot_id=self.boot_id, kernel_log=True))

    def _health(self, record: HealthRecord) -> None:
        self._file.append(codec.encode(record))


def sound(cell: Cell) -> Verification:
    """What a launch of a cell verifies where nothing is wrong."""
    compared = cell.workload in {Workload.SOAK, Workload.REPLAY}
    return Verification(
        key=("NVIDIA H200", "132", "sm_90"),
        digests=(f"{cell.seed % (1 << 64):016x}",) if compared else (),
        method=f"every output of {cell.workload}, by a digest",
        checks=1000,
        operations=1e15,
        verified_bytes=1 << 40 if cell.workload is Workload.MEMORY else 0,
        share=MemoryShare(covered=92, taken=92, whole=100) if cell.workload is Workload.MEMORY else None,
    )


def _seen(verified: Verification, at_ns: int) -> Verification:
    kept = tuple(msgspec.structs.replace(one, at_ns=at_ns) for one in verified.kept)
    return msgspec.structs.replace(verified, kept=kept)


def ten_minutes(folder: Path) -> FakeBurnIn:
    """Ten minutes of two CPU devices, of which nothing was done yet: cells of 3 s, and 2 s between them."""
    return FakeBurnIn(folder, cpus(2), "10m")


def soak(burn_in_run: FakeBurnIn, device: str = "cpu:0") -> Cell:
    return burn_in_run.first(Workload.SOAK, device)


def of_the_first(burn_in_run: FakeBurnIn) -> GpuBurnIn:
    """The report on the first device."""
    return burn_in_run.chapter().gpus[0]


def reasons(gpu: GpuBurnIn) -> str:
    """Every reason for the verdict on a device, with the verdict that it asks for, in lines."""
    return "\n".join(f"{one.verdict}: {one.text}" for one in gpu.reasons)
