"""Environment variables that change measurements, and their effects.

The doctor advises to unset them; a run reports them at start and stores them with its session. A report contains no
other variable.
"""

from collections.abc import Mapping
from typing import Final

_LONGEST: Final = 200

EFFECTS: Final = {
    "CUDA_LAUNCH_BLOCKING": "every kernel is waited for, so that work on the GPU no longer overlaps with the host's",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "a process stops at a CUDA error and waits for a debugger, up to its deadline",
    "CUDA_INJECTION64_PATH": "a profiler is loaded into every process, and slows down each call of CUDA",
    "NVIDIA_TF32_OVERRIDE": "it overrules the precision that was asked for: 0 forbids TF32 everywhere",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "products in fp32 are computed in TF32: faster, with fewer digits",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "the driver is asked for every tensor, which is much slower",
}
"""Variable → what it does to the figures."""
_EFFECTIVE_AT_ZERO: Final = frozenset({"NVIDIA_TF32_OVERRIDE"})


def set_in(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables of the table that are set to something that has an effect, with their values, safe to encode."""
    return tuple(
        (name, environment[name][:_LONGEST].encode("utf-8", "replace").decode("utf-8"))
        for name in EFFECTS
        if _has_effect(name, environment.get(name, ""))
    )


def words(name: str, value: str) -> str:
    """One line for people."""
    return f"{name}={value}: {EFFECTS[name]}"


def _has_effect(name: str, value: str) -> bool:
    return bool(value) and (value != "0" or name in _EFFECTIVE_AT_ZERO)
