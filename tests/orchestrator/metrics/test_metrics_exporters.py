"""The exporters of metrics, for which no run waits."""

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


def test_the_end_does_not_wait_for_a_silent_client() -> None:
    """Its connection is abandoned; later the port is closed."""
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


def test_any_error_of_the_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that died of something else than the disk would leave an old file."""

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(exporters, "write_to_textfile", broken)
    opened = exporters.opened(str(tmp_path / "a.prom"), None)
    stored = faults.prepare(tmp_path / "run", faults.model("a"))
    display = make(quiet=True, verbose=False, log_format="text", stream=io.StringIO())
    opened.follow(stored, display)
    opened.close()
    assert opened.problem == "a mistake of ours"
