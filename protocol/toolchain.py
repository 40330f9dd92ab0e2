"""Compilers that torch.compile needs. Without them the worker refuses a compiled cell, and `doctor` reports it.

A CPU device needs torch._inductor's C++ compiler: CXX, or g++ if that is not set. A GPU needs Triton and a C compiler:
CC, or gcc or clang if that is not set.
"""

import importlib.util
import os
import shlex
import shutil

from protocol.cell import DeviceKind


def missing(kind: DeviceKind) -> str:
    """Return what torch.compile lacks here, and the remedy: "Triton is not installed. Install …". "" if nothing."""
    if kind is DeviceKind.CPU:
        return _without_compiler("C++", "CXX", "g++")
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed. Install it for this torch: pip install triton"
    return _without_compiler("C", "CC", "gcc", "clang")


def _without_compiler(language: str, variable: str, *usual: str) -> str:
    named = os.environ.get(variable)
    programs = (shlex.split(named) or [named])[:1] if named is not None else usual
    if any(map(shutil.which, programs)):
        return ""
    looked_for = f"{variable}={named}" if named is not None else " or ".join(usual)
    return f"there is no {language} compiler ({looked_for}). Install one: apt install {usual[0]}"
