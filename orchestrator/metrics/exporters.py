"""A file for node_exporter's textfile collector, and a port for Prometheus, each with a daemon thread."""

import errno
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from orchestrator.config.run_configuration import StoredRun
from orchestrator.engine.display_events import Display
from orchestrator.errors import ConfigError
from orchestrator.figures.report import Report
from orchestrator.metrics.families import FAMILIES, RUN, Family, Kind
from orchestrator.metrics.follower import Follower
from orchestrator.metrics.run_view import View
from orchestrator.store import folders
from orchestrator.system.plain_text import plain

EVERY_S: Final = 10.0  # between writes: Prometheus asks node_exporter every 15 s or less often
PATIENCE_S: Final = 5.0  # for the last write, and for a silent client
_GOODBYE_S: Final = 0.5  # for a client that is being answered when the run ends
_HOST: Final = "127.0.0.1"
_LONGEST_PID: Final = 30  # write_to_textfile adds two numbers to the name while it writes


class Exporters:
    """The metrics file and port that the user requested. problem: why the last write of the file failed, else ""."""

    def __init__(self, path: Path | None, server: "_Server | None") -> None:
        self.problem = ""
        self._follower: Follower | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collected(self))
        self._path = path
        self._server = server
        self._over = threading.Event()
        self._writer: threading.Thread | None = None
        if server is not None:
            server.set_app(make_wsgi_app(self._registry))
            threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics port", daemon=True).start()

    def follow(self, stored: StoredRun, display: Display) -> Follower:
        """Export this run's metrics from now on. Returns the display to use, which passes events on to `display`."""
        self._follower = Follower(stored, display)
        if self._path is not None:
            self._writer = threading.Thread(target=self._write_on, args=(self._path,), name="metrics file", daemon=True)
            self._writer.start()
        return self._follower

    def judged(self, report: Report) -> None:
        """Export the verdicts of the run's report from now on."""
        if self._follower is not None:
            self._follower.judged(report)

    def view(self) -> View | None:
        """Return the state of the run for the metrics; None before `follow`.

        `at` of the result is the time of the run's last report, not of this call.
        """
        return None if self._follower is None else self._follower.view()

    def close(self) -> None:
        """Write the file a last time, waiting at most PATIENCE_S, and close the port. A failed write sets `problem`."""
        self._over.set()
        if self._writer is not None:
            self._writer.join(PATIENCE_S)
            if self._writer.is_alive():
                self.problem = f"it took longer than {PATIENCE_S:.0f} s"
        if self._server is not None:
            # The server would wait for each silent client in turn.
            closing = threading.Thread(target=self._server.end, name="metrics port closing", daemon=True)
            closing.start()
            closing.join(_GOODBYE_S)

    def _write_on(self, path: Path) -> None:
        while True:
            over = self._over.is_set()
            try:
                write_to_textfile(str(path), self._registry)
                self.problem = ""
            except Exception as error:  # noqa: BLE001  # reported at the end of the run
                self.problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
            if over:
                return
            self._over.wait(EVERY_S)


def opened(file: str | None, port: int | None) -> Exporters:
    """Return exporters to `file` and to `port` of 127.0.0.1 (None: not requested). The port is open at once.

    Raises ConfigError if the file cannot be written or its name does not end in .prom, or the port cannot be opened.
    """
    path = None if file is None else _path(file)
    return Exporters(path, None if port is None else _bound(port))


def require(file: str | None, port: int | None) -> None:
    """Raise ConfigError unless `opened` would accept file and port. Leaves nothing open or on disk."""
    if file is not None:
        _path(file)
    if port is not None:
        _bound(port).server_close()


def _path(file: str) -> Path:
    path, origin = Path(file), "--metrics-file"
    if path.suffix != ".prom":
        raise ConfigError(f"{origin}: {file}: node_exporter reads only files that end in .prom. Name it `{file}.prom`")
    folders.require_file(path, origin)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix="." * _LONGEST_PID):
            pass
    except OSError as error:
        raise ConfigError(f"{origin}: {file} cannot be written: {error.strerror}") from error
    return path.absolute()


def _bound(port: int) -> "_Server":
    origin = "--metrics-port"
    try:
        return make_server(_HOST, port, _no_app, server_class=_Server, handler_class=_Handler)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                raise ConfigError(f"{origin}: port {port} of {_HOST} is in use. Choose another") from error
            case errno.EACCES:
                raise ConfigError(f"{origin}: port {port} needs privileges. Choose one from 1024 on") from error
            case _:
                raise ConfigError(f"{origin}: port {port} of {_HOST} cannot be opened: {error.strerror}") from error


def _no_app(_environment: object, _start: object) -> list[bytes]:
    return []


class _Server(WSGIServer):
    """Serves one connection at a time: thousands of clients take neither threads nor descriptors from the run."""

    request_queue_size = 5

    def server_bind(self) -> None:
        """Skip the DNS look-up of this machine's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, self.server_address[1]
        self.setup_environ()

    def end(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore every error of a request, such as a client that hangs up or stays silent."""


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_S

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: every scrape would be a line."""


class _Collected(Collector):
    def __init__(self, exporters: Exporters) -> None:
        self._exporters = exporters

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        view = self._exporters.view()
        if view is not None:
            yield from (converted(family, view) for family in FAMILIES)


def converted(family: Family, view: View) -> GaugeMetricFamily | CounterMetricFamily:
    """Return a metric with its values in the run `view`, as prometheus_client's type. First label: the run's id."""
    make = GaugeMetricFamily if family.kind is Kind.GAUGE else CounterMetricFamily
    made = make(family.name, family.help, labels=(RUN, *family.labels))
    run = plain(view.run_id)
    for labels, value in family.rows(view):
        made.add_metric((run, *labels), value)
    return made
