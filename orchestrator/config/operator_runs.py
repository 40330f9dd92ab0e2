"""Preset, catalogue entries and measurement settings that all runs of operators share."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.config.options import Option
from orchestrator.config.presets import Preset
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.settings import from_options
from protocol.cell import ModelSpec, OperatorSpec, Workload
from protocol.own import OwnModel

FAST_S: Final = 0.01
"""Seconds of each block (iterations timed together) with --fast. Otherwise the profile decides."""


def preset(name: str, options: tuple[Option, ...], precisions: Sequence[str] = ()) -> Preset:
    """Return a preset `name` with one launch per cell. precisions: replace the default precisions if not empty."""
    values: dict[str, object] = {"benchmark.launches": 1}
    if precisions:
        values["benchmark.precision"] = list(precisions)
    return Preset(name, None, from_options(values, dict.fromkeys(values, name), options))


def entry(operator: OperatorSpec, name: str, code: OwnModel | None = None) -> ModelSpec:
    """Return the catalogue entry `name` of an operator. code: replaces the operator's eager function."""
    return ModelSpec(
        name=name,
        title=name,
        type="operator",
        family="operator",
        inputs=(),
        parameters=0,
        inference_gflops=0.0,
        memory_mb=0,
        own=code,
        operator=operator,
    )


def configured(
    configuration: Configuration, entries: Sequence[ModelSpec], *, study: str = "", fast: bool
) -> Configuration:
    """Return the configuration, changed to measure `entries`.

    study: name of a study, "" for none. fast: whether blocks take FAST_S seconds.
    """
    measurement = replace(configuration.measurement, load_s=0.0)
    if fast:
        measurement = replace(measurement, block_s=FAST_S)
    return replace(
        configuration,
        models=tuple(entries),
        workloads=(Workload.OPERATOR,),
        study=study,
        measurement=measurement,
        adds_launches=False,
    )
