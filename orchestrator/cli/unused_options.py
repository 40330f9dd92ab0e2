"""Warnings about options without effect on this run, for --dry-run and the start of a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from orchestrator.cli.decorators import OPTIONS, RunParams
from orchestrator.config.catalogue import is_probe
from orchestrator.config.options import Need, Option
from orchestrator.config.run_configuration import Configuration, Plan
from orchestrator.config.settings import LayeredSettings
from orchestrator.config.workloads import WORKLOADS
from orchestrator.config.yaml_schema import listed
from orchestrator.kinds.burn_in import options as burn_in
from orchestrator.plan import changing_shapes
from orchestrator.plan.probes import PROBES
from orchestrator.plan.shapes import counts_in, sees_images
from protocol.cell import AUTO, Device, DeviceKind, ModelSpec, Precision, SizeUnit, Workload


@dataclass(frozen=True)
class _Run:
    configuration: Configuration
    plan: Plan
    devices: Sequence[Device]
    models: tuple[ModelSpec, ...]  # without probes
    measured: frozenset[Workload]  # workloads of its cells
    gpus: tuple[Device, ...]  # GPUs and slices


def _measures(workload: Workload) -> Callable[[_Run], bool]:
    return lambda run: workload in run.measured


def _has_iterations(run: _Run) -> bool:
    return run.measured != {Workload.LOAD}


def _depends_on_precision(run: _Run) -> bool:
    return bool(run.models) or any(PROBES[probe.name].each_precision for probe in run.configuration.models)


def _compiles_inference(run: _Run) -> bool:
    return any(changing_shapes.can_meet(cell, run.configuration) for cell in run.plan.cells)


def _has_steps(run: _Run) -> bool:
    burn_in_settings = run.configuration.burn_in
    return burn_in_settings is not None and bool(burn_in_settings.steps)


HAS: Final[Mapping[StrEnum, Callable[[_Run], bool]]] = {
    Need.TOKENS: lambda run: any(counts_in(model, SizeUnit.TOKENS) for model in run.models),
    Need.PIXELS: lambda run: any(counts_in(model, SizeUnit.PIXELS) for model in run.models),
    Need.IMAGES: lambda run: any(sees_images(model) for model in run.models),
    Need.MODELS: lambda run: bool(run.models),
    Need.PRECISIONS: _depends_on_precision,
    Need.OWN_MODEL: lambda run: any(model.own is not None for model in run.models),
    Need.LOADING: _measures(Workload.LOAD),
    Need.INFERENCE: _measures(Workload.INFERENCE),
    Need.TRAINING: _measures(Workload.TRAINING),
    Need.GENERATION: _measures(Workload.GENERATION),
    Need.ITERATIONS: _has_iterations,
    Need.WARM_UP: _has_iterations,
    Need.COMPUTING: lambda run: any(WORKLOADS[workload].compiles for workload in run.measured),
    Need.COMPILING: lambda run: any(cell.compiles for cell in run.plan.cells),
    Need.COMPILED_INFERENCE: _compiles_inference,
    Need.SHAPES: lambda run: run.configuration.shapes is not None,
    Need.FIXED_BATCH: lambda run: any(cell.batch_size != AUTO for cell in run.plan.cells),
    Need.SEVERAL_DEVICES: lambda run: len(run.devices) > 1,
    Need.GPUS: lambda run: bool(run.gpus),
    Need.READ_GPUS: lambda run: bool(run.gpus),
    Need.MONITORING: lambda run: bool(run.gpus) and run.configuration.monitor,
    Need.WHOLE_GPUS: lambda run: any(gpu.slice_of is None for gpu in run.gpus),
    Need.HISTORY: lambda run: run.configuration.history,
    burn_in.BurnInNeed.STEPS: _has_steps,
}

NO_BATCH: Final = "neither probes nor loading have a batch size"  # of -b, which sets the batch sizes of all phases


def warnings(
    settings: LayeredSettings, params: RunParams, configuration: Configuration, plan: Plan, devices: Sequence[Device]
) -> Iterator[str]:
    """Yield "OPTION changes nothing: WHY" for each such option that a file or the command line sets.

    Yields another sentence if CPU devices measure tf32, which is the same as fp32 there.
    """
    run = _Run(
        configuration=configuration,
        plan=plan,
        devices=devices,
        models=tuple(model for model in configuration.models if not is_probe(model)),
        measured=frozenset(cell.workload for cell in plan.cells),
        gpus=tuple(device for device in devices if device.kind is DeviceKind.CUDA),
    )
    reasons: dict[str, list[str]] = {}
    for option in OPTIONS:
        if option.key and settings.chosen(option.key):
            reasons.setdefault(settings.origin(option.key), []).append(_why_unused(option, run))
        elif not option.key and params.get(option.name):
            reasons.setdefault(option.spelling, []).append(_why_unused(option, run))
    for origin, why in reasons.items():
        if all(why):
            yield f"{origin} changes nothing: {why[0] if len(set(why)) == 1 else NO_BATCH}"
    yield from _unused_gpus(settings)
    yield from _tf32(settings, run)


def _why_unused(option: Option, run: _Run) -> str:
    is_burn_in = run.configuration.burn_in is not None
    if is_burn_in and option.key in burn_in.DECIDED:
        return burn_in.OWN_CELLS
    if option.needs is None or HAS[option.needs](run):
        return ""
    return burn_in.REASONS.get(option.needs, option.needs.value) if is_burn_in else option.needs.value


def _unused_gpus(settings: LayeredSettings) -> Iterator[str]:
    if not (settings.chosen("gpu.multi_gpu") and settings.chosen("gpu.ids")):
        return
    # Ids win over --multi-gpu if both come from the command line, or both from a file.
    all_gpus, ids = settings.origin("gpu.multi_gpu"), settings.origin("gpu.ids")
    if all_gpus != ids and all_gpus.startswith("-") == ids.startswith("-"):
        yield f"{all_gpus} changes nothing: {ids} names the devices"


def _tf32(settings: LayeredSettings, run: _Run) -> Iterator[str]:
    where = {cell.devices[0] for cell in run.plan.cells if cell.precision is Precision.TF32}
    cpus = [device.label for device in run.devices if device.uuid in where and device.kind is DeviceKind.CPU]
    if cpus:
        is_burn_in = run.configuration.burn_in is not None
        origin = burn_in.CONFIG_FILE if is_burn_in else settings.origin("benchmark.precision")
        yield f"{origin}: tf32 is the same as fp32 on {listed(cpus, 'and')}, which cannot round to TF32"
