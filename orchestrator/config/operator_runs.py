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
"""Seconds of each block (iterations timed together) with --fast, instead of those of the profile."""


def preset(name: str, options: tuple[Option, ...], precisions: Sequence[str] = ()) -> Preset:
    """Return the preset of the command `name`: one launch per cell, and no time limit.

    options: of this command. precisions: those to measure, () for the configured ones.
    """
    values: dict[str, object] = {"benchmark.launches": 1}
    if precisions:
        values["benchmark.precision"] = list(precisions)
    return Preset(name, None, from_options(values, dict.fromkeys(values, name), options))


def entry(operator: OperatorSpec, name: str, code: OwnModel | None = None) -> ModelSpec:
    """Return the catalogue entry `name` of an operator. code: replaces its eager function, None for PyTorch's."""
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
    """Return a copy of the configuration that measures only `entries`, with no load windows and no added launches.

    study: name of a study, "" for none. fast: whether a block of iterations lasts 0.01 s (FAST_S). If not, it lasts as
    configured.
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
