"""What the tests of the command line share."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from orchestrator import devices, run
from orchestrator.cli import orchestrate
from orchestrator.configuration import StoredRun
from orchestrator.errors import StorageError
from orchestrator.report.model import Report
from protocol.paths import RunPaths


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Calls a program in an empty folder, without GPUs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    none = devices.Inventory(gpus=(), nvml=devices.NvmlStatus.ABSENT, reason="no NVIDIA driver on this machine")
    monkeypatch.setattr(devices, "inventory", lambda: none)

    def call(*arguments: str, command: click.Command = orchestrate) -> Result:
        return CliRunner().invoke(command, arguments, prog_name=command.name)

    return call


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StoredRun, RunPaths]]:
    """What would have been run; the loop itself is replaced by a note of it, and a disk that refuses."""
    calls: list[tuple[StoredRun, RunPaths]] = []

    def execute(stored: StoredRun, paths: RunPaths, display: object) -> Report:
        calls.append((stored, paths))
        raise StorageError("disk full")

    monkeypatch.setattr(run, "execute", execute)
    return calls
