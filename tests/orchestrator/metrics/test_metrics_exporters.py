"""The ways out of the process, which no run waits for."""

import contextlib
import io
import socket
import threading
import time
from pathlib import Path

import pytest

from orchestrator.metrics import exporters
from orchestrator.terminal import make
from tests.fakes import faults


def test_the_end_waits_for_nobody_who_is_silent() -> None:
    """Whoever has connected and says nothing is left behind; later the port is closed to them too."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port: int = free.getsockname()[1]
    opened = exporters.opened(None, port)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        time.sleep(0.3)  # until it is being waited for
        begun = time.monotonic()
        opened.close()
        assert time.monotonic() - begun < exporters.PATIENCE_S / 2
    for thread in threading.enumerate():
        if thread.name.startswith("metrics port"):
            thread.join(2 * exporters.PATIENCE_S)


def test_whatever_keeps_the_file_from_being_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the disk alone: a thread that died of something else would leave an old file, and nobody would know."""

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(exporters, "write_to_textfile", broken)
    opened = exporters.opened(str(tmp_path / "a.prom"), None)
    stored = faults.prepare(tmp_path / "run", faults.model("a"))
    display = make(quiet=True, verbose=False, log_format="text", stream=io.StringIO())
    opened.follow(stored, display)
    opened.close()
    assert opened.problem == "a mistake of ours"
