"""Whether a run is gone on with by other software than it was begun with: its figures are of two stacks then.

    the first result that the run has ──▶ what its launch ran on ┐
    files of packages, the driver ──────▶ what is here now ──────┴─▶ what to say as it is resumed

Nothing is imported for it. What such a run has measured is told in its report (report/mixed_stack.py).
"""

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata

from orchestrator.config import libraries
from orchestrator.config.yaml_schema import listed
from orchestrator.state.archive import Archive, ResultFileError


def warnings(run: Archive, driver: str | None) -> Iterator[str]:
    """What to say of it, nothing where all is as it was. driver: the version now, None where nobody knows."""
    before, now = _first(run), _installed(driver)
    changed = {name: (was, new) for name, was in before.items() if was and (new := now[name]) and new != was}
    if changed:
        yield in_words(changed)


def in_words(changed: Mapping[str, tuple[str, str]]) -> str:
    """For people. changed: by name, the version that the run was begun with, and the one that is here."""
    begun = listed([f"{name} {was}" for name, (was, _) in changed.items()], "and")
    goes_on = listed([f"{name} {now}" for name, (_, now) in changed.items()], "and")
    return (
        f"this run was begun with {begun}, and goes on with {goes_on}: its figures will not be comparable with each "
        "other. To have all of one kind, stop it (Ctrl-C) and resume it where it was begun, or begin a new run here."
    )


def _first(run: Archive) -> Mapping[str, str | None]:
    """What the first launch with a result ran on; nothing where there is none."""
    for attempt in run.attempts:
        if attempt.promised is not None:
            try:
                found = run.result(attempt).environment
            except ResultFileError:
                continue
            return {
                "PyTorch": found.torch,
                "torchvision": found.torchvision,
                "transformers": found.transformers,
                "Python": found.python,
                "driver": attempt.segment.driver_version,
            }
    return {}


def _installed(driver: str | None) -> Mapping[str, str | None]:
    """The same of what a launch would run on now."""
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
