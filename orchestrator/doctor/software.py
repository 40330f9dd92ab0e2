"""torch, its CUDA compared with the driver, and the libraries of models."""

from collections.abc import Iterator
from typing import Final

from orchestrator import HOW_TO_INSTALL
from orchestrator.config import libraries
from orchestrator.config.libraries import Torch
from orchestrator.doctor import Finding, Level, said

_DRIVERS: Final = {11: "450", 12: "525", 13: "580"}
"""First driver of each CUDA (NVIDIA's table of minor version compatibility)."""


def judge(torch: Torch | None, driver_cuda: str | None) -> Iterator[Finding]:
    """Judge torch. driver_cuda: the newest CUDA that the driver serves, None without one. Pure."""
    if torch is None:
        yield Finding(Level.BROKEN, "torch", "torch is not installed", fix=HOW_TO_INSTALL)
        return
    if torch.cuda is None:
        words = f"torch {torch.version} was made without CUDA: it cannot use a GPU"
        fix = "install a build with CUDA; `make` takes the one for this driver"
        yield Finding(Level.BROKEN if driver_cuda else Level.WARNING, "torch", words, fix)
        return
    wanted, served = _major(torch.cuda), _major(driver_cuda or torch.cuda)
    words = f"torch {torch.version} for CUDA {torch.cuda}"
    if served >= wanted:
        yield Finding(Level.OK, "torch", words)
        return
    newer = f"update the driver to {_DRIVERS[wanted]} or newer" if wanted in _DRIVERS else "update the driver"
    words = f"{words}, and the driver serves CUDA {driver_cuda} at most: it is too old"
    fix = f"{newer}, or install a torch for CUDA {served} (constraints-cu12.txt has the versions for CUDA 12)"
    yield Finding(Level.BROKEN, "torch", words, fix)


def judge_libraries(lacking: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Report missing libraries, by the models that need them. Pure."""
    for sentence in libraries.sentences(lacking):
        yield said(Level.WARNING, "Models", sentence)


def _major(version: str) -> int:
    return int(version.partition(".")[0])
