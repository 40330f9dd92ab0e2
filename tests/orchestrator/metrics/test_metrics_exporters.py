"""The ways out of the process, which no run waits for."""

import contextlib
import socket
import threading
import time

from orchestrator.metrics import exporters


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
