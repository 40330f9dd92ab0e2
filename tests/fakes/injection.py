"""Code that every Python process of a run executes first, to replace what a test cannot bring about otherwise."""

from pathlib import Path

from tests.fakes.nvml import ROOT


def inject(folder: Path, code: str) -> dict[str, str]:
    """Write `code` into a new folder, and return what to add to the environment of the run."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": f"{folder}:{ROOT}"}
