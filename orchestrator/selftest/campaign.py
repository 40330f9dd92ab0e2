"""Plan the run of a self-test: one cell for each fault and device.

Each cell has a model of its own, so that the engine neither compares devices nor skips the cells of other faults.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from orchestrator import TOOL_VERSION
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.run_configuration import Configuration, Isolation, Plan, StoredRun
from orchestrator.selftest.faults import DEADLINES, Fault
from protocol.cell import Cell, Device, Mode, ModelSpec, Precision, Workload
from protocol.messages import Measurement

_MEASUREMENT = Measurement(relative_half_width=0.02, block_s=0.01, warm_up_cap_s=0.0, min_s=0.0, max_s=0.0)


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """One fault on one device, with the cell that injects it."""

    fault: Fault
    device: Device
    cell: Cell


def prepare(
    faults: Sequence[Fault], devices: Sequence[Device], folder: Path, moments: Path, command: tuple[str, ...]
) -> tuple[StoredRun, tuple[Injection, ...]]:
    """Return the run that injects each fault into each device that it suits, and the injections.

    Writes nothing. folder: of the run, whose id is the folder's name. moments: file to which workers write when they
    injected faults. command: command line to record.
    """
    injections = tuple(
        injection for place, device in enumerate(devices) for injection in _on(device, _turned(faults, place))
    )
    order = {
        device.uuid: tuple((injection.cell.id, 0) for injection in injections if injection.device == device)
        for device in devices
    }
    stored = StoredRun(
        tool_version=TOOL_VERSION,
        run_id=folder.name,
        command=command,
        configuration=_configuration(tuple(_model(injection, moments) for injection in injections), devices, folder),
        devices=tuple(devices),
        plan=Plan(cells=tuple(injection.cell for injection in injections), order=order),
    )
    return stored, injections


def _turned(faults: Sequence[Fault], place: int) -> Sequence[Fault]:
    """Rotate the faults by a device's index (`place`), so that not all devices inject endless output at once."""
    start = place % len(faults)
    return (*faults[start:], *faults[:start])


def _on(device: Device, faults: Sequence[Fault]) -> Iterator[Injection]:
    for fault in faults:
        if device.kind in fault.kinds:
            cell = Cell(
                devices=(device.uuid,),
                model=f"{fault.name} @ {device.label}",
                workload=Workload.FAULT,
                precision=Precision.FP32,
                batch_size=fault.batch_size,
            )
            yield Injection(fault=fault, device=device, cell=cell)


def _model(injection: Injection, moments: Path) -> ModelSpec:
    fault = injection.fault
    return ModelSpec(
        name=injection.cell.model,
        title=fault.name,
        type="other",
        family="",
        config={"do": fault.do, "told": str(moments), **fault.config},
        inputs=(),
        parameters=1,
        inference_gflops=0.0,
        memory_mb=1,
        preload=fault.preload,
    )


def _configuration(models: tuple[ModelSpec, ...], devices: Sequence[Device], folder: Path) -> Configuration:
    return Configuration(
        models=models,
        workloads=(Workload.FAULT,),
        precisions=(Precision.FP32,),
        batch_sizes=(1,),
        training_batch_sizes=(1,),
        profile="quick",
        measurement=_MEASUREMENT,
        launches=1,
        seed=1,
        modes=(Mode.LOADED,),
        isolation=Isolation.FORK,
        gpu_ids=",".join(device.uuid for device in devices),
        allow_busy=False,
        monitor=True,
        monitor_interval_ms=100,
        deadlines=DEADLINES,
        cache_folder=str(folder / "cache"),
        runs_folder=str(folder.parent),
        output_path=str(folder / "published.json"),
        formats=(ReportFormat.JSON,),
        tainted=True,
    )
