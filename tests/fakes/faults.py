"""Runs of made-up cells on CPU devices: models that do nothing, or one wrong thing, without importing torch."""

from pathlib import Path

from orchestrator import TOOL_VERSION
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.run_configuration import Configuration, Isolation, StoredRun
from orchestrator.plan import planner
from orchestrator.store import run_files
from protocol.cell import Device, DeviceKind, Mode, ModelSpec, Precision, Scalar, Workload
from protocol.messages import Deadlines, Measurement
from protocol.paths import RunPaths

DEADLINES = Deadlines(start=20, import_=20, build=20, warm_up=20, measure=20, finish=20)
MEASUREMENT = Measurement(relative_half_width=0.02, block_s=0.01, warm_up_cap_s=0.1, min_s=0.01, max_s=0.1)


def model(name: str, **config: Scalar) -> ModelSpec:
    """A model of the fault workload. config: `do`, `above`, `on`, `once`, `seconds`, see worker/workloads/fault.py."""
    return ModelSpec(
        name=name,
        title=name,
        type="other",
        family="",
        config=config,
        inputs=(),
        parameters=1,
        inference_gflops=0.0,
        memory_mb=1,
    )


def cpu(number: int) -> Device:
    """A CPU device that leaves its workers on whatever cores they have."""
    return Device(uuid=f"cpu:{number}", gpu_id=number, kind=DeviceKind.CPU, name="a processor")


def prepare(
    folder: Path,
    *models: ModelSpec,
    devices: int = 1,
    machines: tuple[Device, ...] = (),
    batch_sizes: tuple[int, ...] = (1,),
    launches: int = 1,
    isolation: Isolation = Isolation.FORK,
    deadlines: Deadlines = DEADLINES,
    modes: tuple[Mode, ...] = (Mode.LOADED,),
    time_limit_s: float | None = None,
    allow_busy: bool = False,
    required_signals: tuple[str, ...] = (),
    formats: tuple[ReportFormat, ...] = (ReportFormat.JSON, ReportFormat.CSV, ReportFormat.TXT),
) -> StoredRun:
    """Write a run ready for `gpubench-orchestrate resume`, on `machines`, or else on so many CPU `devices`."""
    folder.mkdir(parents=True)
    configuration = Configuration(
        models=models,
        workloads=(Workload.FAULT,),
        precisions=(Precision.FP32,),
        batch_sizes=batch_sizes,
        training_batch_sizes=batch_sizes,
        profile="quick",
        measurement=MEASUREMENT,
        launches=launches,
        seed=1,
        modes=modes,
        isolation=isolation,
        gpu_ids=",".join(f"cpu:{number}" for number in range(devices)),
        allow_busy=allow_busy,
        monitor=True,
        monitor_interval_ms=100,
        required_signals=required_signals,
        deadlines=deadlines,
        cache_folder=str(folder / "cache"),
        runs_folder=str(folder.parent),
        output_path=str(folder / "out" / "report.json"),
        formats=formats,
        time_limit_s=time_limit_s,
    )
    machines = machines or tuple(cpu(number) for number in range(devices))
    stored = StoredRun(
        tool_version=TOOL_VERSION,
        run_id=folder.name,
        command=("a", "test"),
        configuration=configuration,
        devices=machines,
        plan=planner.make(configuration, machines),
    )
    run_files.store(stored, RunPaths(folder))
    return stored
