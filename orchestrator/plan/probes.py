"""Which probes a device gets: the cells that measure the device itself and no model. Pure, for the plan.

A probe that was asked for, by name or by `all`, is measured where it is applicable; elsewhere it is left out, and that
is said. A GPU on which models are measured gets gemm, in each precision of the run, and hbm whether they were asked for
or not: without them no figure of a model could be held against its GPU.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from orchestrator.config.catalogue import is_probe
from orchestrator.config.run_configuration import Configuration, LeftOut
from protocol.cell import Device, DeviceKind, ModelSpec, Precision, Workload


@dataclass(frozen=True)
class Rule:
    """How a probe is planned.

    each_precision: measured in every precision of the run; else once, in fp32, for it moves bytes and multiplies
    nothing. reference: what the figures of models are held against. gpu_only: why it means nothing on a CPU device,
    empty where it means something.
    """

    each_precision: bool = False
    reference: bool = False
    gpu_only: str = ""


_NO_WAY: Final = "a CPU device computes in the host's own memory, so that nothing is transferred to it"

RULES: Final = {
    "gemm": Rule(each_precision=True, reference=True),
    "hbm": Rule(reference=True),
    "h2d": Rule(gpu_only=_NO_WAY),
    "d2h": Rule(gpu_only=_NO_WAY),
}
_ONCE: Final = (Precision.FP32,)
_HELD_AGAINST: Final = frozenset({Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION})


def on(configuration: Configuration, device: Device) -> Iterator[tuple[ModelSpec, Precision]]:
    """The probes that `device` runs, each in its precisions, in the order in which they are described."""
    for spec in (*_asked(configuration), *_added(configuration, device)):
        rule = RULES[spec.name]
        if _applicable(rule, device):
            for precision in configuration.precisions if rule.each_precision else _ONCE:
                yield spec, precision


def left_out(configuration: Configuration, device: Device) -> Iterator[LeftOut]:
    """The probes that were asked for and are not applicable to `device`."""
    for spec in _asked(configuration):
        rule = RULES[spec.name]
        if not _applicable(rule, device):
            yield LeftOut(device=device.uuid, model=spec.name, why=f"not applicable: {rule.gpu_only}")


def _asked(configuration: Configuration) -> list[ModelSpec]:
    return [spec for spec in configuration.models if is_probe(spec)]


def _added(configuration: Configuration, device: Device) -> list[ModelSpec]:
    """References that nobody asked for. A run of probes or of loading alone has nothing to hold against them."""
    models = any(not is_probe(spec) for spec in configuration.models)
    if device.kind is not DeviceKind.CUDA or not models or not _HELD_AGAINST & set(configuration.workloads):
        return []
    asked = {spec.name for spec in configuration.models}
    return [spec for spec in configuration.probes if RULES[spec.name].reference and spec.name not in asked]


def _applicable(rule: Rule, device: Device) -> bool:
    return device.kind is DeviceKind.CUDA or not rule.gpu_only
