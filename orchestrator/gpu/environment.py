"""Environment variables that change measurements: `doctor` advises to unset them, a run stores and reports them."""

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
    """Return name and value, safe to encode, of each variable that is set to something with an effect."""
    return tuple(
        (name, value[:_LONGEST].encode("utf-8", "replace").decode("utf-8"))
        for name in EFFECTS
        if (value := environment.get(name)) and (value != "0" or name in _EFFECTIVE_AT_ZERO)
    )


def words(name: str, value: str) -> str:
    """The variable and its effect, in one line."""
    return f"{name}={value}: {EFFECTS[name]}"
