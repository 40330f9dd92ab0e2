"""Runs that never ran: folders with real files, written as a run writes them, in time that a test makes up.

run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1, 8))
run.measured(run.cell("resnet50", batch_size=1))
run.failed(run.cell("resnet50", batch_size=8), Category.OUT_OF_MEMORY)
report = run.ended()
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from orchestrator.analysis import evidence
from orchestrator.analysis.report_builder import merge
from orchestrator.config.run_configuration import Configuration, Isolation, Plan, StoredRun
from orchestrator.figures.report import Report
from orchestrator.gpu.telemetry.samples import SampleFile
from orchestrator.kinds import registry
from orchestrator.plan import batch_scan, planner
from orchestrator.state import archive
from orchestrator.state.archive import Archive
from orchestrator.store import journal, run_files
from orchestrator.store.journal import Journal, write_durably
from orchestrator.store.journal_records import (
    Added,
    Dropped,
    End,
    Finished,
    Header,
    Left,
    Quarantine,
    Segment,
    Start,
    TelemetryEnded,
    ZygoteStarted,
)
from protocol import codec
from protocol.cell import AUTO, Cell, Device, DeviceKind, Mode, ModelSpec, Precision, Workload
from protocol.failure import Category, Failure, Phase
from protocol.messages import Sample
from protocol.paths import RunPaths
from tests.fakes.configurations import configuration, shipped_catalogue
from tests.fakes.health import Span, sound
from tests.fakes.results import MIB, result

CREATED = 1_705_314_600.0
"""2024-01-15T10:30:00Z."""
BOOT = "11111111-2222-3333-4444-555555555555"
SECOND_NS = 1_000_000_000
RECORD_NS = 25_000_000
"""From the last entry of a worker's ledger to the END of its launch."""


def gpus(count: int, **changes: object) -> tuple[Device, ...]:
    return tuple(
        msgspec.structs.replace(
            Device(
                uuid=f"GPU-{number:08x}-1111-2222-3333-444455556666",
                gpu_id=number,
                kind=DeviceKind.CUDA,
                name="NVIDIA H200",
                memory_total_bytes=143_771 * MIB,
                driver_version="580.95.05",
                cuda_driver_version="13.0",
                compute_capability="9.0",
                architecture="Hopper",
                serial=f"165{number:010d}",
                pci_address=f"00000000:{0x18 + number:02X}:00.0",
                part_number="692-2G520-0280-000",
                vbios_version="96.00.CE.00.02",
                power_limit_w=700.0,
                pcie_generation=5,
                pcie_width=16,
            ),
            **changes,
        )
        for number in range(count)
    )


def cpus(count: int) -> tuple[Device, ...]:
    return tuple(
        Device(uuid=f"cpu:{number}", gpu_id=number, kind=DeviceKind.CPU, name="Some Processor", cpus=(number,))
        for number in range(count)
    )


def sample(at_ns: int, power_w: float = 690.0, **changes: int | None) -> Sample:
    values = {
        "gpu_percent": 98,
        "memory_percent": 40,
        "memory_used_bytes": 1_000 * MIB,
        "power_mw": round(power_w * 1000),
        "energy_mj": round(at_ns / 1e9 * power_w * 1000),
        "memory_clock_mhz": 3_201,
        "thermal_violation_ns": 0,
        "power_violation_ns": 0,
    }
    return Sample(at_ns=at_ns, **values | changes)


def shipped(*names: str) -> tuple[ModelSpec, ...]:
    models = shipped_catalogue().models
    return tuple(next(model for model in models if model.name == name) for name in names)


class FakeRun:
    """A run in a folder, written by the test attempt by attempt."""

    def __init__(
        self,
        folder: Path,
        *,
        devices: Sequence[Device] = (),
        models: Sequence[ModelSpec] | None = None,
        probes: Sequence[ModelSpec] = (),
        batch_sizes: tuple[int, ...] = (1, 8),
        workloads: tuple[Workload, ...] = (Workload.INFERENCE,),
        precisions: tuple[Precision, ...] = (Precision.FP32,),
        launches: int = 1,
        isolation: Isolation = Isolation.FORK,
        telemetry_note: str = "",
        hostname: str = "node-01",
        iterations: int | None = None,
        warm_up_iterations: int | None = None,
        input_sizes: tuple[int, ...] = (),
        watched: bool = True,
        modes: tuple[Mode, ...] = (Mode.LOADED,),
        run_id: str = "20240115-103000-abcd",
    ) -> None:
        """watched: telemetry looks at the GPUs all the time and finds them well, or what the test writes."""
        self.paths = RunPaths(folder)
        folder.mkdir(parents=True, exist_ok=True)
        devices = tuple(devices) or gpus(1)
        asked = configuration(
            models=tuple(models) if models is not None else shipped("resnet50"),
            probes=tuple(probes),
            workloads=workloads,
            precisions=precisions,
            batch_sizes=batch_sizes,
            training_batch_sizes=batch_sizes,
            input_sizes=input_sizes,
            launches=launches,
            isolation=isolation,
            modes=modes,
            output_path=str(folder.with_name(f"{folder.name}.out") / "benchmark_report.json"),
        )
        measurement = msgspec.structs.replace(
            asked.measurement, iterations=iterations, warm_up_iterations=warm_up_iterations
        )
        asked = self.asked(msgspec.structs.replace(asked, measurement=measurement))
        self.stored = StoredRun(
            tool_version="0.1.0",
            run_id=run_id,
            command=("gpubench-orchestrate", "--gpu-ids", "all"),
            configuration=asked,
            devices=devices,
            plan=self.planned(asked, devices),
            telemetry_note=telemetry_note,
        )
        run_files.store(self.stored, self.paths)
        self._journal = Journal(self.paths.journal)
        self._journal.append(
            Header(
                run_id=self.stored.run_id,
                plan_hash=self.stored.plan.hash,
                config_hash=run_files.config_hash(self.paths),
                tool_version=self.stored.tool_version,
                created=CREATED,
                hostname=hostname,
                devices=tuple(device.uuid for device in devices),
            )
        )
        self._watched = watched and not telemetry_note
        self._spans: list[Span] = []
        self._launches = 0
        self._attempts: dict[str, int] = {}
        self._wall_s = CREATED
        self.boot_id = BOOT
        self.now_ns = 1_000 * SECOND_NS
        self.segment(now_ns=self.now_ns)
        if isolation is Isolation.FORK:
            self._journal.append(ZygoteStarted(start_ms=12_000.0, failed={}))

    def store(self, stored: StoredRun) -> None:
        """Make it another run: with another run.yaml and plan.json, to which its journal belongs."""
        self.stored = stored
        run_files.store(stored, self.paths)
        header, *rest = journal.read(self.paths.journal)
        assert isinstance(header, Header)
        finished = isinstance(rest[-1], Finished)
        if not finished:
            self._journal.close()
        self.paths.journal.unlink()
        self._journal = Journal(self.paths.journal)
        changed = {"plan_hash": stored.plan.hash, "config_hash": run_files.config_hash(self.paths)}
        for record in (msgspec.structs.replace(header, run_id=stored.run_id, **changed), *rest):
            self._journal.append(record)
        if finished:
            self._journal.close()

    def asked(self, configuration: Configuration) -> Configuration:
        return configuration

    def planned(self, configuration: Configuration, devices: tuple[Device, ...]) -> Plan:
        return planner.make(configuration, devices)

    def cell(
        self,
        model: str = "resnet50",
        workload: Workload = Workload.INFERENCE,
        *,
        batch_size: int = 1,
        device: int = 0,
        precision: Precision = Precision.FP32,
    ) -> Cell:
        wanted = (model, workload, batch_size, precision, (self.stored.devices[device].uuid,))
        return next(
            cell
            for cell in self.stored.plan.cells
            if (cell.model, cell.workload, cell.batch_size, cell.precision, cell.devices) == wanted
        )

    def segment(
        self,
        *,
        boot_id: str | None = None,
        now_ns: int | None = None,
        settings: tuple[tuple[str, str], ...] = (),
        driver_version: str | None = None,
    ) -> None:
        """A process takes the run over, a second later; with another boot, monotonic time begins anew."""
        self._pass(SECOND_NS)
        self.boot_id = boot_id or self.boot_id
        self.now_ns = self.now_ns if now_ns is None else now_ns
        self._spans.append(Span(self.boot_id, self.now_ns, self.now_ns))
        self._journal.append(
            Segment(
                boot_id=self.boot_id,
                driver_version=driver_version or self.stored.devices[0].driver_version,
                tool_version=self.stored.tool_version,
                pid=4711,
                wall=self._wall_s,
                monotonic_ns=self.now_ns,
                settings=settings,
            )
        )

    def measured(self, cell: Cell, *, batch_size: int | None = None, number: int = 0, **changes: object) -> int:
        """An attempt with a result; `changes` are those of `result`. number: the round. Returns the launch."""
        start = self._start(cell, batch_size or cell.batch_size, number)
        outcome = result(
            msgspec.structs.replace(cell, batch_size=start.batch_size),
            begin_ns=self.now_ns,
            **changes,  # type: ignore[arg-type]  # fields of Result, each of its own type
        )
        data = codec.encode(outcome)
        path = self.paths.launch(cell.id, start.attempt).result
        path.parent.mkdir(parents=True)
        write_durably(path, data)
        told_ns = round(sum(msgspec.structs.astuple(outcome.ledger)) * 1e6)
        self._pass(max(outcome.worked[-1].end_ns, start.at_ns + told_ns + RECORD_NS) - self.now_ns)
        figures = batch_scan.figures(outcome) if cell.batch_size == AUTO else None
        digest = hashlib.sha256(data).hexdigest()
        self._journal.append(End(launch=start.launch, at_ns=self.now_ns, result_sha256=digest, figures=figures))
        self._journal.append(Left(launch=start.launch, exit_code=0, signal=None, teardown_ms=60.0))
        return start.launch

    def failed(
        self,
        cell: Cell,
        category: Category = Category.EXCEPTION,
        *,
        batch_size: int | None = None,
        number: int = 0,
        phase: Phase = Phase.WARM_UP,
        message: str = "it went wrong",
        lasted_s: float = 0.5,
        **details: object,
    ) -> int:
        """An attempt without a result; `details` are fields of Failure. Returns the launch."""
        start = self._start(cell, batch_size or cell.batch_size, number)
        self._pass(round(lasted_s * SECOND_NS))
        failure = Failure(category=category, message=message, phase=phase, **details)  # type: ignore[arg-type]  # Failure's own
        self._journal.append(End(launch=start.launch, at_ns=self.now_ns, failure=failure))
        self._journal.append(Left(launch=start.launch, exit_code=0, signal=None, teardown_ms=60.0))
        return start.launch

    def added(self, *slots: tuple[str, int], suspect: int = 0) -> None:
        """Launches were added, because that GPU was SUSPECT."""
        suspects = (self.stored.devices[suspect].uuid,)
        self._journal.append(Added(slots=slots, suspects=suspects, at_ns=self.now_ns))

    def dropped(self, cell: Cell, reason: str, *, number: int = 0) -> None:
        self._journal.append(Dropped(cell=cell.id, round=number, at_ns=self.now_ns, reason=reason))

    def quarantined(self, reason: str, device: int = 0) -> None:
        uuid = self.stored.devices[device].uuid
        self._journal.append(Quarantine(device=uuid, at_ns=self.now_ns, reason=reason))

    def telemetry_ended(self) -> None:
        self._journal.append(TelemetryEnded(at_ns=self.now_ns))

    def interrupted(self, cell: Cell, *, batch_size: int | None = None, number: int = 0) -> int:
        """An attempt whose end nobody wrote. Returns the launch."""
        return self._start(cell, batch_size or cell.batch_size, number).launch

    def recovered(self, launch: int) -> None:
        """The end of an interrupted launch, as the next session writes it."""
        failure = Failure(category=Category.INTERRUPTED, message="interrupted", phase=Phase.MEASURE)
        self._journal.append(End(launch=launch, at_ns=self.now_ns, failure=failure))

    def everything(
        self, forward_ms: float = 10.0, *, factor: Callable[[int, Cell, int], float] | None = None, **changes: object
    ) -> None:
        """A result for every planned launch. factor: of its time, by device, cell and round; else 1 % a device."""
        cells = {cell.id: cell for cell in self.stored.plan.cells}
        for place, queue in enumerate(self.stored.plan.order.values()):
            for cell_id, number in queue:
                cell = cells[cell_id]
                share = 1 + place / 100 if factor is None else factor(place, cell, number)
                self.measured(cell, number=number, forward_ms=forward_ms * share, **changes)

    def samples(
        self,
        device: int = 0,
        *,
        until_ns: int | None = None,
        power_w: float = 690.0,
        reasons: int = 4,
        sm_clock_mhz: int = 1_500,
        temperature_c: int = 61,
    ) -> None:
        """NVML samples of a device at 10 Hz, from the beginning of this boot's segment until now."""
        uuid = self.stored.devices[device].uuid
        self.paths.telemetry.mkdir(exist_ok=True)
        file = SampleFile(self.paths.samples(uuid), self.boot_id)
        moments = range(1_000 * SECOND_NS, (until_ns or self.now_ns) + SECOND_NS, SECOND_NS // 10)
        changes = {"temperature_c": temperature_c, "sm_clock_mhz": sm_clock_mhz, "reasons": reasons}
        file.append([sample(moment, power_w, **changes) for moment in moments])
        file.close()

    def finish(self, *, interrupted: bool = False, reason: str = "", broken: bool = False) -> None:
        if self._watched and not self.paths.health.exists():
            sound(self.paths, [device.uuid for device in self.stored.devices if device.uuid[:3] == "GPU"], self._spans)
        self._journal.append(Finished(at_ns=self.now_ns, interrupted=interrupted, reason=reason, broken=broken))
        self._journal.close()

    def archive(self) -> Archive:
        return archive.load(self.paths)

    def report(self) -> Report:
        loaded = self.archive()
        return merge(loaded, evidence.gather(loaded), registry.of(loaded.stored.configuration).report)

    def ended(self) -> Report:
        self.finish()
        return self.report()

    def _start(self, cell: Cell, batch_size: int, number: int) -> Start:
        self._pass(SECOND_NS // 10)
        attempt = self._attempts.get(cell.id, 0) + 1
        start = Start(
            launch=self._launches,
            cell=cell.id,
            round=number,
            attempt=attempt,
            batch_size=batch_size,
            device=cell.devices[0],
            at_ns=self.now_ns,
        )
        self._journal.append(start)
        self._attempts[cell.id] = attempt
        self._launches += 1
        return start

    def _pass(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds
        self._wall_s += nanoseconds / 1e9
        if self._spans:
            self._spans[-1].end_ns = self.now_ns
