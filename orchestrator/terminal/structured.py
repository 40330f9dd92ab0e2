"""Structured events for log collectors: one JSON object a line.

Each has "timestamp" (UTC), "level" and "event": run_started, importing, cell_ended, notice, progress, run_ended, and
with -v phase. "device" is the label ("GPU 0", "cpu:1").
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import structlog

from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.snapshot_rate import Pace
from orchestrator.terminal.wording import is_loud, stripped

if TYPE_CHECKING:
    from typing import TextIO

_LEVELS: Final = {"debug", "info", "warning", "error", "critical"}


class Structured:
    """Writes events as JSON. now: monotonic seconds."""

    def __init__(
        self, outlet: Outlet, *, quiet: bool, verbose: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._outlet = outlet
        self._quiet = quiet
        self._verbose = verbose
        self._pace = Pace(now)
        self._log: Any = structlog.wrap_logger(
            structlog.WriteLogger(cast("TextIO", outlet)),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(sort_keys=True),
            ],
        )

    def show(self, snapshot: Snapshot) -> None:
        """Write the progress, at most every half minute."""
        if self._quiet:
            return
        if self._verbose:
            for line in self._pace.entered(snapshot):
                told = {"device": line.label, "cell": line.cell, "cell_id": line.cell_id, "phase": line.phase}
                self._log.info("phase", **_plain(told))
        if self._pace.due():
            devices = [_fields_of(line) for line in snapshot.devices]
            self._log.info("progress", **_plain(snapshot) | {"devices": devices})

    def tell(self, event: CellEnded | Notice) -> None:
        """Write the event."""
        if self._quiet and not is_loud(event) and not _is_end(event):
            return
        if isinstance(event, Notice):
            level = event.level if event.level in _LEVELS else "info"
            told = {"message": event.message, **event.fields}
            getattr(self._log, level)(event.event, **_plain(told))
            return
        fields = {name: value for name, value in _fields_of(event).items() if name != "failure"}
        if event.failure is None:
            self._log.info("cell_ended", **fields)
            return
        failure = _plain(event.failure)
        if not self._verbose:
            failure = {name: value for name, value in failure.items() if name not in {"traceback", "evidence"}}
        level = "error" if is_loud(event) else "warning"
        getattr(self._log, level)("cell_ended", failure=failure, **fields)

    def close(self) -> None:
        """Send what the reader did not take yet."""
        self._outlet.close()


def _is_end(told: CellEnded | Notice) -> bool:
    """Whether a collector waits for this event: --quiet keeps it."""
    return isinstance(told, Notice) and told.event == "run_ended"


def _fields_of(told: CellEnded | DeviceLine) -> dict[str, Any]:
    plain = _plain(told)
    return {"device": plain.pop("label"), **plain}


def _plain(value: object) -> dict[str, Any]:
    """Convert to JSON types, with stripped texts: `jq -r` prints them to a terminal."""
    plain: dict[str, Any] = _stripped(msgspec.to_builtins(value))
    return plain


def _stripped(value: object) -> Any:  # noqa: ANN401  # JSON: whatever came in, of the same shape
    if isinstance(value, str):
        return stripped(value)
    if isinstance(value, dict):
        return {stripped(name): _stripped(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_stripped(item) for item in value]
    return value
