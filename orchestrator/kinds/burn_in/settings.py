"""Turn the settings of a burn-in (options.py) into its configuration."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from orchestrator.config.catalogue import Catalogue
from orchestrator.config.run_configuration import BurnIn, Configuration
from orchestrator.config.settings import LayeredSettings
from orchestrator.config.yaml_schema import require_known
from orchestrator.errors import ConfigError
from orchestrator.kinds.burn_in import injections
from orchestrator.kinds.burn_in.levels import CHECKS, BurnInTable
from orchestrator.kinds.burn_in.planning import LINKS
from orchestrator.stats.stragglers import LEAST_GPUS
from protocol.cell import Device, DeviceKind, Mode, ModelSpec
from protocol.messages import LoadSteps, Measurement

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)([smhd]))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_LINKS: Final = ModelSpec(
    name=LINKS,
    title="Links between devices",
    type="probe",
    family="probe",
    inputs=(),
    parameters=0,
    inference_gflops=0,
    memory_mb=0,
)
"""Placeholder for the model of a check of links."""
_MEASUREMENT: Final = Measurement(
    relative_half_width=0.0, block_s=0.25, warm_up_cap_s=0.0, min_s=0.0, max_s=0.0, warm_up_iterations=1
)
"""Measurement of checks: the full length of their cell. kind.py sets its seconds as min_s and max_s.

A GPU waits for the host between blocks of 0.25 s. A window of 10 s, the unit in which rates are judged, has 40 blocks.
"""
SHORTEST_S: Final = 30.0
LONGEST_S: Final = 14 * 86_400.0
DURATION: Final = "burn_in.duration"
LEVEL: Final = "burn_in.level"
INJECT: Final = "burn_in.inject"
MAX_TEMPERATURE: Final = "burn_in.max_temperature"
STEPS: Final = "burn_in.steps"
IN_PHASE: Final = "burn_in.in_phase"


def seconds(text: str, origin: str = "--burn-in") -> float:
    """Return the seconds of a duration such as "8h", "30m", "90s" or "1h30m".

    origin: option or file, for messages. Raises ConfigError for another text or a time outside SHORTEST_S to LONGEST_S.
    """
    span = f"from {SHORTEST_S:g}s to {LONGEST_S / 86_400:g}d"
    if _DURATION.fullmatch(text) is None:
        meant = "".join(text.lower().split())
        if _DURATION.fullmatch(meant) is not None:
            raise ConfigError(f"{origin} {text}: write durations in lower case without spaces. Did you mean {meant}?")
        raise ConfigError(
            f"{origin} {text}: expected a duration with units (s, m, h or d), {span}, such as 10m, 8h or 1h30m"
        )
    found = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if not SHORTEST_S <= found <= LONGEST_S:
        raise ConfigError(f"{origin} {text}: expected a duration {span}")
    return found


def written(duration_s: float) -> str:
    """Format seconds, rounded to whole ones, so that `seconds` can parse the text: "8h", "1h30m", "2m30s"."""
    minutes, rest_s = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return "".join(f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (rest_s, "s")) if number)


def of_settings(
    settings: LayeredSettings, configuration: Configuration, catalogue: Catalogue, table: BurnInTable
) -> Configuration:
    """Return the configuration of a burn-in if the settings request one, else `configuration` itself.

    What depends on the devices is added by `on_devices`. Raises ConfigError for an invalid setting, or for a setting of
    burn-ins if no burn-in is requested.
    """
    duration = settings.find(DURATION, str)
    if duration is None:
        for key in (LEVEL, INJECT, MAX_TEMPERATURE, STEPS, IN_PHASE):
            if settings.values.get(key):
                raise ConfigError(
                    f"{settings.origin(key)}: only a burn-in has this setting. Add --burn-in with a duration "
                    f"({DURATION} in a file), or remove the setting."
                )
        return configuration
    refuse_mistakes(settings, table)
    origin = settings.origin(DURATION)
    made = configured(configuration, duration, settings.find(LEVEL, str), catalogue, table, origin=origin)
    celsius = settings.find(MAX_TEMPERATURE, int)
    return made if celsius is None else with_temperature_stop(made, celsius)


def on_devices(
    settings: LayeredSettings, configuration: Configuration, devices: Sequence[Device], table: BurnInTable
) -> Configuration:
    """Return the configuration with the settings that depend on the devices: injected faults and load steps.

    Without these settings, it is `configuration` itself. Raises ConfigError for an invalid fault.
    """
    if settings.values.get(INJECT):
        faults = [word for word, _ in settings.items(INJECT)]
        configuration = with_injections(configuration, faults, devices, settings.origin(INJECT))
    if settings.find(STEPS, bool):
        in_phase = bool(settings.find(IN_PHASE, bool))
        configuration = with_steps(configuration, devices, table, in_phase=in_phase)
    return configuration


def refuse_mistakes(settings: LayeredSettings, table: BurnInTable) -> None:
    """Raise ConfigError if the settings have an invalid duration or level."""
    if (duration := settings.find(DURATION, str)) is not None:
        seconds(duration, settings.origin(DURATION))
    if (level := settings.find(LEVEL, str)) is not None:
        require_known(level, settings.origin(LEVEL), table.levels, "level")


def configured(
    configuration: Configuration,
    duration: str,
    level: str | None,
    catalogue: Catalogue,
    table: BurnInTable,
    *,
    origin: str = "--burn-in",
) -> Configuration:
    """Return `configuration` changed into that of a burn-in. duration: "8h". level: name in `table`, or None.

    If None, the duration decides the level. origin: option or file that has the duration, for messages. Raises
    ConfigError for an invalid duration, or if `configuration` measures solo.
    """
    duration_s = seconds(duration, origin)
    name = level or table.level_for(duration_s)
    if Mode.SOLO in configuration.modes:
        raise ConfigError(
            f"{origin}: a burn-in loads all devices at once, so --solo (benchmark.mode) cannot be used. Remove it. "
            "--gpu-ids selects devices."
        )
    return msgspec.structs.replace(
        configuration,
        models=(*map(catalogue.model, dict.fromkeys(chain(*table.levels[name].replay.values()))), _LINKS),
        workloads=CHECKS,
        precisions=tuple(dict.fromkeys((*table.levels[name].soak, *table.levels[name].truth))),
        launches=1,
        measurement=_MEASUREMENT,
        time_limit_s=duration_s,
        burn_in=BurnIn(
            duration_s=duration_s,
            level=name,
            cell_s={kind: table.cell_s(duration_s, kind, name) for kind in table.devices},
        ),
    )


def with_steps(
    configuration: Configuration, devices: Sequence[Device], table: BurnInTable, *, in_phase: bool
) -> Configuration:
    """Return the configuration with --steps: in one more cell a round, each device alternates between work and rest.

    So that rounds need not become longer, all cells may become shorter. in_phase: all devices rest at the same time.
    Otherwise the beginnings of their rests are evenly spread.
    """
    burn_in = configuration.burn_in
    assert burn_in is not None
    rule = table.steps
    apart_s = 0.0 if in_phase else (rule.on_s + rule.off_s) / len(devices)
    steps = {
        device.uuid: LoadSteps(on_s=rule.on_s, off_s=rule.off_s, offset_s=place * apart_s)
        for place, device in enumerate(devices)
    }
    cell_s = {kind: table.cell_s(burn_in.duration_s, kind, burn_in.level, steps=True) for kind in table.devices}
    return msgspec.structs.replace(configuration, burn_in=msgspec.structs.replace(burn_in, cell_s=cell_s, steps=steps))


def with_temperature_stop(configuration: Configuration, celsius: int) -> Configuration:
    """Return the configuration of a burn-in with a temperature limit, in addition to each GPU's own limit.

    A GPU that is at `celsius` °C or above for ten seconds in a row is stopped, and fails.
    """
    assert configuration.burn_in is not None
    burn_in = msgspec.structs.replace(configuration.burn_in, max_temperature_c=celsius)
    return msgspec.structs.replace(configuration, burn_in=burn_in)


def with_injections(
    configuration: Configuration, texts: Sequence[str], devices: Sequence[Device], origin: str = "--inject"
) -> Configuration:
    """Return the configuration with injected faults, and `tainted` set, even without any. texts: one for each fault.

    "flip:0:2" flips a bit on device 0 in round 2. origin: option or file, for messages. Raises ConfigError for a fault
    that is invalid, or that no check on these devices can find. `planning.make` refuses a round that is not planned.
    """
    assert configuration.burn_in is not None
    parsed = tuple(injections.parse(text, devices, origin) for text in texts)
    names = {device.uuid: device.name for device in devices}
    cpus = {device.uuid: device.label for device in devices if device.kind is DeviceKind.CPU}
    for one in parsed:
        if one.device in cpus and one.hot_c is not None:
            raise ConfigError(f"{origin} hot: {cpus[one.device]} has no temperature readings. Choose a GPU")
        if one.device in cpus and one.slow_percent:
            raise ConfigError(f"{origin} slow: the rates of {cpus[one.device]} are not judged. Choose a GPU")
        alike = sum(device.name == names[one.device] for device in devices)
        if one.slow_percent and alike < LEAST_GPUS:
            raise ConfigError(
                f"{origin} slow: finding a slow GPU takes at least {LEAST_GPUS - 1} sibling GPUs, and this run has "
                f"{alike - 1}. Add GPUs, or choose another fault"
            )
    for device in devices:
        injections.require_one_of_each(parsed, device, origin)
    burn_in = msgspec.structs.replace(configuration.burn_in, injections=parsed)
    return msgspec.structs.replace(configuration, burn_in=burn_in, tainted=True)
