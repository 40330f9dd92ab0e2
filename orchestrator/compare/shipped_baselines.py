"""The baselines that ship with gpubench, in configs/baselines."""

import functools
from collections.abc import Collection
from pathlib import Path

from orchestrator.compare.run_figures import Side
from orchestrator.compare.strict_json import contents, decode
from orchestrator.config.catalogue import configs_folder


def files() -> dict[str, Path]:
    """Return name ("h200-141gb") → file of each shipped baseline."""
    return {path.stem: path for path in sorted((configs_folder() / "baselines").glob("*.json"))}


def of_boards(names: Collection[str]) -> tuple[Side, ...]:
    """Return the shipped baselines of GPU models with an NVML name in `names`. Raises ConfigError for a broken file."""
    return tuple(side for side in _all() if any(device.gpu_name in names for device in side.devices)) if names else ()


@functools.cache
def _all() -> tuple[Side, ...]:
    return tuple(decode(contents(path), Side, name) for name, path in files().items())
