"""Warn if other versions of software are installed than those with which a resumed run began to measure."""

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata

from orchestrator.config import libraries
from orchestrator.config.yaml_schema import listed
from orchestrator.state.archive import Archive, ResultFileError


def warnings(run: Archive, driver: str | None) -> Iterator[str]:
    """Yield one warning if installed software has other versions than in the run's first readable result; else nothing.

    Compares the known versions of PyTorch, torchvision, transformers, Python and driver. driver: its current version.
    """
    before, now = _first(run), _installed(driver)
    changed = {name: (was, new) for name, was in before.items() if was and (new := now[name]) and new != was}
    if changed:
        yield describe(changed)


def describe(changed: Mapping[str, tuple[str, str]]) -> str:
    """Describe changed versions in a sentence. changed: name → (version at the start, current version)."""
    begun = listed([f"{name} {was}" for name, (was, _) in changed.items()], "and")
    goes_on = listed([f"{name} {now}" for name, (_, now) in changed.items()], "and")
    return (
        f"this run started with {begun} and continues with {goes_on}, so its figures will not be comparable. Stop it "
        "(Ctrl-C) and resume it where it started, or start a new run here."
    )


def _first(run: Archive) -> Mapping[str, str | None]:
    for attempt in run.attempts:
        if attempt.promised is not None:
            try:
                environment = run.result(attempt).environment
            except ResultFileError:
                continue
            return {
                "PyTorch": environment.torch,
                "torchvision": environment.torchvision,
                "transformers": environment.transformers,
                "Python": environment.python,
                "driver": attempt.segment.driver_version,
            }
    return {}


def _installed(driver: str | None) -> Mapping[str, str | None]:
    torch = libraries.torch_cuda()
    return {
        "PyTorch": None if torch is None else torch.version,
        "torchvision": _version("torchvision"),
        "transformers": _version("transformers"),
        "Python": platform.python_version(),
        "driver": driver,
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
