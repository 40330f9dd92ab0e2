"""Environment variables that change measurements. `doctor` advises to unset them. A run stores and reports them."""

from collections.abc import Mapping
from typing import Final

_LONGEST: Final = 200

EFFECTS: Final = {
    "CUDA_LAUNCH_BLOCKING": "the host waits for every kernel, so GPU and host no longer overlap",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "a process stops at a CUDA error and waits for a debugger, up to its deadline",
    "CUDA_INJECTION64_PATH": "a profiler is loaded into every process and slows down each CUDA call",
    "NVIDIA_TF32_OVERRIDE": "it overrides the requested precision: 0 disables TF32 everywhere",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "fp32 matrix products use TF32: faster, with fewer digits",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "the driver allocates every tensor, which is much slower",
}
_EFFECTIVE_AT_ZERO: Final = frozenset({"NVIDIA_TF32_OVERRIDE"})


def set_in(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of each variable in EFFECTS that is set to a value with an effect.

    "" has no effect, and "0" has one only in NVIDIA_TF32_OVERRIDE. Values are cut to 200 characters. Bytes that are not
    UTF-8 become "?".
    """
    return tuple(
        (name, value[:_LONGEST].encode("utf-8", "replace").decode("utf-8"))
        for name in EFFECTS
        if (value := environment.get(name)) and (value != "0" or name in _EFFECTIVE_AT_ZERO)
    )


def describe(name: str, value: str) -> str:
    """Return "NAME=value: effect" for a variable in EFFECTS."""
    return f"{name}={value}: {EFFECTS[name]}"
