"""Examine torch, its CUDA compared with the driver, and the libraries of models."""

from collections.abc import Iterator
from typing import Final

from orchestrator import HOW_TO_INSTALL
from orchestrator.config import libraries
from orchestrator.config.libraries import Torch
from orchestrator.doctor import Finding, Level, finding_of
from protocol import toolchain
from protocol.cell import DeviceKind

_DRIVERS: Final = {11: "450", 12: "525", 13: "580"}
"""Major version of CUDA → first driver that supports it. From NVIDIA's minor version compatibility."""

_DEVICES: Final = {DeviceKind.CPU: "CPU devices", DeviceKind.CUDA: "GPUs"}


def judge(torch: Torch | None, driver_cuda: str | None) -> Iterator[Finding]:
    """Yield one finding on torch (None: not installed). driver_cuda: newest CUDA of the driver; None: no driver."""
    if torch is None:
        yield Finding(Level.BROKEN, "torch", "torch is not installed", fix=HOW_TO_INSTALL)
        return
    if torch.cuda is None:
        message = f"torch {torch.version} was built without CUDA, so it cannot use a GPU"
        fix = "Install a build with CUDA. `make` selects the one for this driver"
        yield Finding(Level.BROKEN if driver_cuda else Level.WARNING, "torch", message, fix)
        return
    wanted, served = _major(torch.cuda), _major(driver_cuda or torch.cuda)
    message = f"torch {torch.version} for CUDA {torch.cuda}"
    if served >= wanted:
        yield Finding(Level.OK, "torch", message)
        return
    newer = f"Update the driver to {_DRIVERS[wanted]} or newer" if wanted in _DRIVERS else "Update the driver"
    message = f"{message}, but the driver is too old: it supports CUDA up to {driver_cuda}"
    fix = f"{newer}, or install a torch for CUDA {served} (constraints-cu12.txt has the versions for CUDA 12)"
    yield Finding(Level.BROKEN, "torch", message, fix)


def judge_libraries(lacking: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Yield a finding for each missing library. lacking: its name → the models that need it. Pure."""
    for sentence in libraries.describe_missing(lacking):
        yield finding_of(Level.WARNING, "Models", sentence)


def judge_toolchain(kind: DeviceKind) -> Finding:
    """Return the finding on whether --compile can generate code for this kind of device."""
    if lacking := toolchain.missing(kind):
        return finding_of(Level.WARNING, "Compiler", f"--compile measures nothing, because {lacking}")
    return Finding(Level.OK, "Compiler", f"--compile can generate code for {_DEVICES[kind]}")


def _major(version: str) -> int:
    return int(version.partition(".")[0])
