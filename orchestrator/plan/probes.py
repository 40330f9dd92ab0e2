"""Probes: measurements of a device itself, without a model. Pure.

A GPU that measures models (not only loads them) also gets two probes as references: gemm in each precision, and hbm.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from orchestrator.config.catalogue import is_probe
from orchestrator.config.run_configuration import Configuration, Exclusion
from orchestrator.config.workloads import WORKLOADS
from orchestrator.stats.sibling_reasons import Work
from protocol.cell import Device, DeviceKind, ModelSpec, Precision


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Facts about a probe that configs/models.yaml does not contain.

    work: resource that limits the probe. figure: name of its main figure. each_precision: measured in each requested
    precision, else only in fp32. reference: figures of models are compared with its figure. gpu_only: why it means
    nothing on a CPU device; "" if it can run there.
    """

    work: Work
    figure: str
    each_precision: bool
    reference: bool
    gpu_only: str


_TRANSFER: Final = Probe(
    work=Work.TRANSFER,
    figure="transfer_gb_per_sec",
    each_precision=False,
    reference=False,
    gpu_only="a CPU device computes in the host's own memory, so that nothing is transferred to it",
)
PROBES: Final[dict[str, Probe]] = {
    "gemm": Probe(work=Work.COMPUTE, figure="sustained_tflops", each_precision=True, reference=True, gpu_only=""),
    "hbm": Probe(work=Work.MEMORY, figure="copy_gb_per_sec", each_precision=False, reference=True, gpu_only=""),
    "h2d": _TRANSFER,
    "d2h": _TRANSFER,
}


def on(configuration: Configuration, device: Device) -> Iterator[tuple[ModelSpec, Precision]]:
    """Yield (probe, precision) for each measurement by a probe on `device`. Requested probes come before references."""
    for spec in (*_requested(configuration), *_added(configuration, device)):
        probe = PROBES[spec.name]
        if _applicable(probe, device):
            for precision in configuration.precisions if probe.each_precision else (Precision.FP32,):
                yield spec, precision


def exclusions(configuration: Configuration, device: Device) -> Iterator[Exclusion]:
    """Yield an exclusion, with the reason, for each requested probe that does not apply to `device`."""
    for spec in _requested(configuration):
        probe = PROBES[spec.name]
        if not _applicable(probe, device):
            yield Exclusion(device=device.uuid, model=spec.name, why=f"not applicable: {probe.gpu_only}")


def _requested(configuration: Configuration) -> list[ModelSpec]:
    return [spec for spec in configuration.models if is_probe(spec)]


def _added(configuration: Configuration, device: Device) -> list[ModelSpec]:
    models = any(not is_probe(spec) for spec in configuration.models)
    needed = any(WORKLOADS[workload].needs_references for workload in configuration.workloads)
    if device.kind is not DeviceKind.CUDA or not models or not needed:
        return []
    requested = {spec.name for spec in configuration.models}
    return [spec for spec in configuration.probes if PROBES[spec.name].reference and spec.name not in requested]


def _applicable(probe: Probe, device: Device) -> bool:
    return device.kind is DeviceKind.CUDA or not probe.gpu_only
