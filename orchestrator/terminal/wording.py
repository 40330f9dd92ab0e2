"""Durations, devices and events in one line each, for all displays. Pure."""

from typing import Final

from orchestrator.config.naming import plural
from orchestrator.engine.display_events import CellEnded, DeviceLine, Notice, Snapshot
from orchestrator.state.stopping import how_it_ended
from orchestrator.system.plain_text import aligned, plain
from protocol.failure import Category, Failure

LOUD: Final = frozenset({"warning", "error", "critical"})  # levels of a notice that --quiet lets through

_CELL_COLUMNS: Final = range(28, 64)  # from "bert-base inference fp32 b32" to long names of models


def duration(seconds: float) -> str:
    """Format whole seconds as "1:05", from an hour on as "2:01:05"; a negative time as "0:00"."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bar(fraction: float, width: int, *, ascii_only: bool) -> str:
    """Draw a bar of `width` characters, filled to `fraction` (limited to 0 to 1)."""
    filled = round(min(max(fraction, 0.0), 1.0) * width)
    full, empty = ("#", "-") if ascii_only else ("━", "╌")
    return full * filled + empty * (width - filled)


def fitted(text: str, width: int) -> str:
    """Pad `text` with blanks to `width` characters, or cut it to `width` with "~" as the last one."""
    return text.ljust(width) if len(text) <= width else text[: max(width - 1, 0)] + "~"[:width]


def launch_words(cell: str, batch_size: int | None, attempt: int, *, verbose: bool = False) -> str:
    """Name an attempt: "resnet50 inference fp32 b8 #2" (cell, batch, attempt). "#1" is shown only if `verbose`."""
    batch = "" if batch_size is None else f" b{batch_size}"
    return f"{plain(cell)}{batch}" + (f" #{attempt}" if attempt > 1 or verbose else "")


def device_line(line: DeviceLine, width: int, *, ascii_only: bool) -> str:
    """Describe a device and its work, or why it is idle, in at most `width` columns. Omits readings that do not fit."""
    label = fitted(plain(line.label), 6)
    if line.cell is None:
        return f"{label}  {plain(line.note) or 'idle'}"[:width]
    columns = [
        fitted(line.phase or "", 7),
        f"{line.fraction:4.0%}",
        _reading(line.temperature_c, "C" if ascii_only else "°C", 6),
        _reading(line.power_w, "W", 5),
        _reading(line.sm_clock_mhz, "MHz", 8),
        bar(line.fraction, 12, ascii_only=ascii_only),
    ]
    while len(columns) > 2 and width - _taken(label, columns) < _CELL_COLUMNS.start:
        columns.pop()
    cell = fitted(_launch(line), max(min(width - _taken(label, columns), _CELL_COLUMNS.stop), 8))
    return "  ".join((label, cell, *columns)).rstrip()[:width]


def total_line(snapshot: Snapshot, width: int, *, ascii_only: bool) -> str:
    """Describe the progress of the run in one line of at most `width` columns."""
    head = _launches(snapshot)
    tail = [f"{snapshot.failed} without result", f"elapsed {duration(snapshot.elapsed_s)}", _eta(snapshot)]
    room = width - len(head) - sum(len(word) + 2 for word in tail) - 2
    words = [head, bar(snapshot.share, min(room, 24), ascii_only=ascii_only), *tail] if room >= 4 else [head, *tail]
    return "  ".join(words)[:width]


def progress_line(snapshot: Snapshot) -> str:
    """Return a line for a log: counts of launches, the time left, then the launch and phase of each busy device."""
    working = ", ".join(
        f"{plain(line.label)} {_launch(line)}" + (f" ({line.phase})" if line.phase else "")
        for line in snapshot.devices
        if line.cell
    )
    head = f"{_launches(snapshot)}, {snapshot.failed} without result, {_eta(snapshot)}"
    return f"{head}; now: {working}" if working else head


def event_lines(event: CellEnded | Notice, *, verbose: bool) -> list[str]:
    """Return one line about an event. verbose: also the number of a first attempt, and a failure's evidence as lines.

    Unless verbose, the message of a repeated failure is "as before".
    """
    if isinstance(event, Notice):
        level = f"{event.level}: " if event.level in LOUD else ""
        return [f"{level}{plain(event.message)}"]
    subject = f"{plain(event.label)}  {launch_words(event.cell, event.batch_size, event.attempt, verbose=verbose)}"
    if event.failure is None:
        return [f"{subject}: {plain(event.summary)}"]
    next_step = plain(event.next_step)
    if event.failure.category is Category.STOPPED:
        how = how_it_ended(event.failure.category, event.failure.message)
        words = "stopped" if how == Category.STOPPED else how
        return ["; ".join(filter(None, (f"{subject}: {words}", next_step)))]
    message = "as before" if event.repeated and not verbose else plain(event.failure.message)
    how = "" if event.failure.category is Category.UNSUPPORTED else f"FAILED in {event.failure.phase}, "
    line = f"{subject}: {how}{event.failure.category}: {message}"
    return [f"{line}; next: {next_step}" if next_step else line, *(_evidence(event.failure) if verbose else ())]


def is_loud(event: CellEnded | Notice) -> bool:
    """Whether the event is a warning, an error, or a failed launch that was not stopped. -q shows these."""
    if isinstance(event, Notice):
        return event.level in LOUD
    return event.failure is not None and event.failure.category is not Category.STOPPED


def _evidence(failure: Failure) -> list[str]:
    facts = {"exception": failure.exception, "code": failure.code, "signal": failure.signal, **failure.evidence}
    lines = [f"    {plain(name)}: {plain(str(value))}" for name, value in facts.items() if value is not None]
    return lines + [f"    | {aligned(line)}" for line in (failure.traceback or "").splitlines()]


def _launches(snapshot: Snapshot) -> str:
    if snapshot.total is None:
        return f"{snapshot.share:.0%} done, {plural(snapshot.done, 'launch', 'launches')}"
    return f"{snapshot.done}/{snapshot.total} launches"


def _launch(line: DeviceLine) -> str:
    return launch_words(line.cell or "", line.batch_size, line.attempt)


def _taken(label: str, columns: list[str]) -> int:
    return len(label) + 4 + sum(map(len, columns)) + 2 * (len(columns) - 1)


def _reading(value: float | None, unit: str, width: int) -> str:
    return ("" if value is None else f"{value:.0f} {unit}").rjust(width)


def _eta(snapshot: Snapshot) -> str:
    return "time left unknown" if snapshot.eta_s is None else f"{duration(snapshot.eta_s)} left"
