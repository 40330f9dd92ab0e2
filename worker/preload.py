"""Modules to import before a launch builds its model, so that later phases import nothing.

An optimizer, for example, imports torch._dynamo and 900 modules (1.2 s). The zygote (the process from which launches
are forked) imports them once for all launches.
"""

import importlib
import sys
import traceback
from typing import Final

COMMON: Final = (
    "encodings.ascii",
    "numpy.ctypeslib",
    "torch",
    "torch._dynamo",
    "torch.utils._device",
    "torch.utils.flop_counter",
    "safetensors.torch",
    "worker.exception_categories",
    "worker.models.registry",
    "worker.workloads.generation",
    "worker.workloads.inference",
    "worker.workloads.load",
    "worker.workloads.training",
)


def modules(model: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modules to preload: `model` (those of the cell's model), and COMMON if torch is imported by now."""
    return (*model, *COMMON) if "torch" in sys.modules else model


def import_all(named: tuple[str, ...]) -> dict[str, str]:
    """Import the modules `named`, then COMMON if torch is imported by then.

    Returns failed module → error, such as "ImportError: no module"; {} if none failed. Prints the tracebacks.
    """
    failed = _import_each(named)
    return failed | _import_each(modules(()))


def _import_each(named: tuple[str, ...]) -> dict[str, str]:
    failed = {}
    for module in named:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken package may raise anything, or ask to leave
            traceback.print_exc()
            failed[module] = f"{type(error).__name__}: {error}"
    return failed
