"""What the tests of the command line, of configurations, of burn-ins and of the views of a run share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.commands import orchestrate
from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine import run
from orchestrator.errors import StorageError
from orchestrator.figures.report import Report
from orchestrator.gpu import inventory
from protocol.paths import RunPaths
from tests.fakes.terminal import Pipe, Terminal


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Calls a program in an empty folder, without GPUs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    none = inventory.Inventory(gpus=(), nvml=inventory.NvmlStatus.ABSENT, reason="no NVIDIA driver on this machine")
    monkeypatch.setattr(inventory, "look", lambda *_: inventory.Seen(inventory=none))

    def call(*arguments: str, command: click.Command = orchestrate) -> Result:
        return CliRunner().invoke(command, arguments, prog_name=command.name)

    return call


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StoredRun, RunPaths]]:
    """What would have been run; the loop itself is replaced by a note of it, and a disk that refuses."""
    calls: list[tuple[StoredRun, RunPaths]] = []

    def execute(stored: StoredRun, paths: RunPaths, *_: object, **__: object) -> Report:
        calls.append((stored, paths))
        raise StorageError("disk full")

    monkeypatch.setattr(run, "execute", execute)
    return calls


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what does not depend on what survives a crash: a burn-in has thousands of records."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _fd: None)


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm-256color")
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """An empty pipe."""
    opened = Pipe()
    yield opened
    os.close(opened.reader)
    opened.stream.close()


@pytest.fixture
def burn_in_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], Path]:
    """Writes night.yaml into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes) -> Path:
        Path("night.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return Path("night.yaml")

    return write
