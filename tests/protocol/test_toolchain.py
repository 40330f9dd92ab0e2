"""What torch.compile lacks on a machine."""

import importlib.util
import shutil

import pytest

from protocol import toolchain
from protocol.cell import DeviceKind

CPU, GPU = DeviceKind.CPU, DeviceKind.CUDA


@pytest.mark.parametrize(
    ("kind", "environment", "installed", "lacking"),
    [
        (CPU, {}, {"g++"}, ""),
        (CPU, {"CXX": "ccache clang++"}, {"ccache"}, ""),
        (CPU, {}, {"gcc", "clang++", "triton"}, "g++"),  # torch looks for clang++ only where CXX names it
        (CPU, {"CXX": "none"}, {"g++"}, "CXX=none"),
        (CPU, {"CXX": ""}, {"g++"}, "CXX="),
        (GPU, {}, {"triton", "clang"}, ""),
        (GPU, {"CC": "gcc-12"}, {"triton", "gcc-12"}, ""),
        (GPU, {}, {"triton", "g++"}, "gcc"),
        (GPU, {}, {"gcc", "g++"}, "Triton"),
    ],
)
def test_what_is_missing_is_named(
    kind: DeviceKind,
    environment: dict[str, str],
    installed: set[str],
    lacking: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The compiler that torch or Triton would call, by its variable or usual name; empty if nothing is missing."""
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in installed else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)
    found = toolchain.missing(kind)
    assert lacking in found
    assert bool(lacking) == bool(found)
