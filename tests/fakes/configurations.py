"""Configurations and devices for tests, made as the command line makes them."""

import copy
import functools
from pathlib import Path

import msgspec

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue, settings
from orchestrator.config import resolution as config
from orchestrator.config.catalogue import Catalogue
from orchestrator.config.run_configuration import Configuration
from orchestrator.config.settings import NOTHING, LayeredSettings
from protocol.cell import Device, DeviceKind

DEFAULTS = catalogue.configs_folder() / "default.yaml"


_read = functools.cache(catalogue.load)


def shipped_catalogue() -> Catalogue:
    """Return a copy of the shipped catalogue. It is parsed only once in a process, because parsing is slow."""
    return copy.deepcopy(_read())


def resolved(file: Path | None = None, command_line: LayeredSettings = NOTHING) -> Configuration:
    """What the defaults, a file and options resolve to."""
    said = config.gather(OPTIONS, DEFAULTS, file, command_line)
    return config.resolve(said, shipped_catalogue(), config.Places(current=Path("/current"), cache=Path("/cache")))


def options(**values: object) -> LayeredSettings:
    flat: dict[str, object] = {}
    for key, value in values.items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return settings.from_options(flat, dict.fromkeys(flat, "an option"), OPTIONS)


def configuration(**changes: object) -> Configuration:
    return msgspec.structs.replace(resolved(), **changes)


def cpu(number: int, cores: tuple[int, ...] = (0,)) -> Device:
    return Device(uuid=f"cpu:{number}", gpu_id=number, kind=DeviceKind.CPU, name="a processor", cpus=cores)


def gpu(number: int) -> Device:
    return Device(uuid=f"GPU-{number:08x}", gpu_id=number, kind=DeviceKind.CUDA, name="a GPU")
