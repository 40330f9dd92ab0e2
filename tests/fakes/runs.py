"""Runs that never ran: folders with real files (run.yaml, journal, results, samples), written as a run writes them.

    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(1, 8))
    run.measured(run.cell("resnet50", batch_size=1))
    run.failed(run.cell("resnet50", batch_size=8), Category.OUT_OF_MEMORY)
    run.finish()
    report = run.report()

Time is made up and moves only when something happens.
"""

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from orchestrator import archive, catalogue, evidence, plan
from orchestrator.archive import Archive
from orchestrator.configuration import Isolation, StoredRun
from orchestrator.journal import Journal, write_durably
from orchestrator.merge import merge
from orchestrator.records import Dropped, End, Finished, Header, Left, Segment, Start, ZygoteStarted
from orchestrator.report.model import Report
from orchestrator.samples import SampleFile
from protocol import codec, floats
from protocol.cell import Cell, Device, DeviceKind, Mode, ModelSpec, Precision, Workload
from protocol.failure import Category, Failure, Phase
from protocol.messages import Sample
from protocol.paths import RunPaths
from protocol.result import Block, Environment, Ledger, Memory, Result, SteadyState, StopReason, WarmUp
from tests.fakes.configurations import configuration

MIB = 1024 * 1024
CREATED = 1_705_314_600.0
"""2024-01-15T10:30:00Z."""
BOOT = "11111111-2222-3333-4444-555555555555"
SECOND_NS = 1_000_000_000


def gpus(count: int, **changes: object) -> tuple[Device, ...]:
    """Identical GPUs, 0 to count - 1."""
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
    """CPU devices, cpu:0 to cpu:(count - 1)."""
    return tuple(
        Device(uuid=f"cpu:{number}", gpu_id=number, kind=DeviceKind.CPU, name="Some Processor", cpus=(number,))
        for number in range(count)
    )


def shipped(*names: str) -> tuple[ModelSpec, ...]:
    """Models of configs/models.yaml."""
    models = catalogue.load().models
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
    ) -> None:
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
            mode=Mode.LOADED,
        )
        measurement = msgspec.structs.replace(
            asked.measurement, iterations=iterations, warm_up_iterations=warm_up_iterations
        )
        asked = msgspec.structs.replace(asked, measurement=measurement)
        self.stored = StoredRun(
            tool_version="0.1.0",
            run_id="20240115-103000-abcd",
            command=("gpubench-orchestrate", "--gpu-ids", "all"),
            configuration=asked,
            devices=devices,
            plan=plan.make(asked, devices),
            telemetry_note=telemetry_note,
        )
        archive.store(self.stored, self.paths)
        self._journal = Journal(self.paths.journal)
        self._journal.append(
            Header(
                run_id=self.stored.run_id,
                plan_hash=self.stored.plan.hash,
                tool_version=self.stored.tool_version,
                created=CREATED,
                hostname=hostname,
                devices=tuple(device.uuid for device in devices),
            )
        )
        self._launches = 0
        self._attempts: dict[str, int] = {}
        self._wall_s = CREATED
        self.boot_id = BOOT
        self.now_ns = 1_000 * SECOND_NS
        self.segment(now_ns=self.now_ns)
        if isolation is Isolation.FORK:
            self._journal.append(ZygoteStarted(start_ms=12_000.0, failed={}))

    # ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def cell(
        self,
        model: str = "resnet50",
        workload: Workload = Workload.INFERENCE,
        *,
        batch_size: int = 1,
        device: int = 0,
        precision: Precision = Precision.FP32,
    ) -> Cell:
        """The planned cell of that description."""
        wanted = (model, workload, batch_size, precision, (self.stored.devices[device].uuid,))
        return next(
            cell
            for cell in self.stored.plan.cells
            if (cell.model, cell.workload, cell.batch_size, cell.precision, cell.devices) == wanted
        )

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────────

    def segment(self, *, boot_id: str | None = None, now_ns: int | None = None) -> None:
        """A process takes the run over, a second later; with another boot, monotonic time begins anew."""
        self._pass(SECOND_NS)
        self.boot_id = boot_id or self.boot_id
        self.now_ns = self.now_ns if now_ns is None else now_ns
        self._journal.append(
            Segment(
                boot_id=self.boot_id,
                driver_version=self.stored.devices[0].driver_version,
                tool_version=self.stored.tool_version,
                pid=4711,
                wall=self._wall_s,
                monotonic_ns=self.now_ns,
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
        self._pass(outcome.blocks[-1].end_ns - self.now_ns)
        self._journal.append(
            End(launch=start.launch, at_ns=self.now_ns, result_sha256=hashlib.sha256(data).hexdigest())
        )
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
        **details: object,
    ) -> int:
        """An attempt without a result; `details` are fields of Failure. Returns the launch."""
        start = self._start(cell, batch_size or cell.batch_size, number)
        self._pass(SECOND_NS // 2)
        failure = Failure(category=category, message=message, phase=phase, **details)  # type: ignore[arg-type]  # Failure's own
        self._journal.append(End(launch=start.launch, at_ns=self.now_ns, failure=failure))
        self._journal.append(Left(launch=start.launch, exit_code=0, signal=None, teardown_ms=60.0))
        return start.launch

    def dropped(self, cell: Cell, reason: str, *, number: int = 0) -> None:
        """There was no time for a planned launch."""
        self._journal.append(Dropped(cell=cell.id, round=number, at_ns=self.now_ns, reason=reason))

    def interrupted(self, cell: Cell, *, batch_size: int | None = None, number: int = 0) -> int:
        """An attempt whose end nobody wrote. Returns the launch."""
        return self._start(cell, batch_size or cell.batch_size, number).launch

    def everything(self, forward_ms: float = 10.0) -> None:
        """A result for every planned launch, each device a little slower than the one before."""
        cells = {cell.id: cell for cell in self.stored.plan.cells}
        for place, queue in enumerate(self.stored.plan.order.values()):
            for cell_id, number in queue:
                self.measured(cells[cell_id], number=number, forward_ms=forward_ms * (1 + place / 100))

    def samples(
        self, device: int = 0, *, until_ns: int | None = None, power_w: float = 690.0, reasons: int = 4
    ) -> None:
        """NVML samples of a device at 10 Hz, from the beginning of this boot's segment until now."""
        uuid = self.stored.devices[device].uuid
        self.paths.telemetry.mkdir(exist_ok=True)
        file = SampleFile(self.paths.samples(uuid), self.boot_id)
        moments = range(1_000 * SECOND_NS, (until_ns or self.now_ns) + SECOND_NS, SECOND_NS // 10)
        file.append(
            [
                Sample(
                    at_ns=moment,
                    gpu_percent=98,
                    memory_percent=40,
                    memory_used_bytes=1_000 * MIB,
                    power_mw=round(power_w * 1000),
                    energy_mj=round(moment / 1e9 * power_w * 1000),
                    temperature_c=61,
                    sm_clock_mhz=1_500,
                    memory_clock_mhz=3_201,
                    reasons=reasons,
                    thermal_violation_ns=0,
                    power_violation_ns=0,
                )
                for moment in moments
            ]
        )
        file.close()

    def finish(self, *, interrupted: bool = False, reason: str = "") -> None:
        """The run is over."""
        self._journal.append(Finished(at_ns=self.now_ns, interrupted=interrupted, reason=reason))
        self._journal.close()

    # ── reading it back ───────────────────────────────────────────────────────────────────────────────────────────────

    def archive(self) -> Archive:
        """The run as it lies on disk."""
        return archive.load(self.paths)

    def report(self) -> Report:
        """The merged report of what lies on disk."""
        loaded = self.archive()
        return merge(loaded, evidence.gather(loaded))

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


PARTS = {
    Workload.TRAINING: ("forward", "backward", "optimizer"),
    Workload.LOAD: ("instantiate", "weights"),
    Workload.GENERATION: ("whole",),
    Workload.PROBE: ("copy", "triad"),
}
WEIGHTS = {
    **{"forward": 1.0, "backward": 2.0, "optimizer": 0.25, "instantiate": 3.0, "weights": 5.0},
    **{"whole": 20.0, "copy": 2.0, "triad": 3.0},
}
"""Series of each workload, and how long each takes in forward passes."""


def result(
    cell: Cell,
    *,
    begin_ns: int = 0,
    forward_ms: float = 10.0,
    blocks: int = 10,
    iterations: int = 40,
    noise: float = 0.002,
    steady_state: SteadyState = SteadyState.REACHED,
    loss: float | None = None,
    **changes: object,
) -> Result:
    """What a worker would send: `blocks` of `iterations` iterations around `forward_ms`, always the same ones."""
    chance = random.Random(f"{cell.model} {cell.workload} {cell.batch_size} {cell.devices}")
    series: dict[str, list[float]] = {}
    for name in PARTS.get(cell.workload, ("forward",)):
        mean = forward_ms * WEIGHTS[name]
        series[name] = [chance.gauss(mean, noise * mean) for _ in range(blocks * iterations)]
    series["iteration"] = [sum(times) for times in zip(*series.values(), strict=True)]
    tokens = None
    if cell.workload is Workload.GENERATION and cell.new_tokens is not None:
        tokens = blocks * iterations * cell.batch_size * cell.new_tokens
        series |= _tokens(series["iteration"], cell.new_tokens)
    if cell.workload is Workload.INFERENCE:
        series["latency"] = [1.5 * time_ms for time_ms in series["iteration"][:5]]
    on_gpu = not cell.devices[0].startswith("cpu:")
    made = Result(
        cell=cell,
        parameters=25_557_032,
        items_per_iteration=cell.batch_size,
        ledger=Ledger(
            start_ms=40.0,
            import_ms=5.0,
            context_ms=240.0,
            build_ms=120.0,
            load_ms=0.0,
            warm_up_ms=900.0,
            measure_ms=sum(series["iteration"]),
        ),
        warm_up=WarmUp(steady_state=steady_state, iterations=20, first_iteration_ms=300.0, second_iteration_ms=12.0),
        stop_reason=StopReason.TARGET,
        blocks=_blocks(series["iteration"], begin_ns, iterations),
        series={name: floats.pack(times) for name, times in series.items()},
        launch_bound=False if on_gpu else None,
        generated_tokens=tokens,
        memory=Memory(
            model_bytes=98 * MIB,
            cold_allocated_bytes=900 * MIB if on_gpu else None,
            cold_reserved_bytes=1_000 * MIB if on_gpu else None,
            warm_allocated_bytes=850 * MIB if on_gpu else None,
            warm_reserved_bytes=1_000 * MIB if on_gpu else None,
            resident_bytes=700 * MIB,
        ),
        loss=2.5 if cell.workload is Workload.TRAINING else loss,
        environment=Environment(
            python="3.11.2",
            torch="2.15.0",
            cuda="13.0" if on_gpu else None,
            torchvision="0.30.0",
            threads=1,
            collector_enabled=False,
            isolation="fork",
        ),
    )
    return msgspec.structs.replace(made, **changes)


def _tokens(texts_ms: Sequence[float], new_tokens: int) -> dict[str, list[float]]:
    """The first token takes a quarter of each text, the others share what is left."""
    between = [text_ms * 0.75 / (new_tokens - 1) for text_ms in texts_ms for _ in range(new_tokens - 1)]
    return {"first_token": [text_ms / 4 for text_ms in texts_ms], "inter_token": between}


def _blocks(times_ms: Sequence[float], begin_ns: int, iterations: int) -> tuple[Block, ...]:
    blocks: list[Block] = []
    now_ns = begin_ns
    for first in range(0, len(times_ms), iterations):
        taken_ns = round(sum(times_ms[first : first + iterations]) * 1e6)
        blocks.append(
            Block(start_ns=now_ns, enqueued_ns=now_ns + taken_ns // 2, end_ns=now_ns + taken_ns, iterations=iterations)
        )
        now_ns += taken_ns
    return tuple(blocks)
