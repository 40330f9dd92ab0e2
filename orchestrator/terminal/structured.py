"""Structured events for log collectors: one JSON object a line.

Each has "timestamp" (UTC), "level" and "event". Events are cell_ended, progress, phase (only with -v), and those of
notices, such as run_started, run_ended and notice. "device" is the label ("GPU 0", "cpu:1"). In wrong_results it is the
UUID.
"""

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import structlog

from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.system.plain_text import plain_lines
from orchestrator.terminal.log_display import LogDisplay
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.wording import is_loud

if TYPE_CHECKING:
    from typing import TextIO

_LEVELS: Final = {"debug", "info", "warning", "error", "critical"}


class Structured(LogDisplay):
    """Writes events as JSON. options: keyword arguments of LogDisplay."""

    def __init__(self, outlet: Outlet, **options: Any) -> None:  # noqa: ANN401  # handed on as they came
        super().__init__(outlet, **options)
        self._log: Any = structlog.wrap_logger(
            structlog.WriteLogger(cast("TextIO", outlet)),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(sort_keys=True),
            ],
        )

    def tell(self, event: CellEnded | Notice) -> None:
        """Write an event. If quiet, write only warnings, errors, failed launches that were not stopped, and run_ended.

        Traceback and evidence of a failure are written only if verbose.
        """
        if self._quiet and not is_loud(event) and not _is_end(event):
            return
        if isinstance(event, Notice):
            level = event.level if event.level in _LEVELS else "info"
            getattr(self._log, level)(event.event, **_plain({"message": event.message, **event.fields}))
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

    def _write_phase(self, line: DeviceLine) -> None:
        fields = {"device": line.label, "cell": line.cell, "cell_id": line.cell_id, "phase": line.phase}
        self._log.info("phase", **_plain(fields))

    def _write_progress(self, snapshot: Snapshot) -> None:
        self._log.info("progress", **_plain(snapshot) | {"devices": [_fields_of(line) for line in snapshot.devices]})


def _is_end(event: CellEnded | Notice) -> bool:
    return isinstance(event, Notice) and event.event == "run_ended"


def _fields_of(shown: CellEnded | DeviceLine) -> dict[str, Any]:
    plain = _plain(shown)
    return {"device": plain.pop("label"), **plain}


def _plain(value: object) -> dict[str, Any]:
    """Convert a struct or dict to JSON types. Removes control characters, because `jq -r` prints them to a terminal."""
    plain: dict[str, Any] = _stripped(msgspec.to_builtins(value))
    return plain


def _stripped(value: object) -> Any:  # noqa: ANN401  # JSON: whatever came in, of the same shape
    if isinstance(value, str):
        return plain_lines(value)
    if isinstance(value, dict):
        return {plain_lines(name): _stripped(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_stripped(item) for item in value]
    return value
