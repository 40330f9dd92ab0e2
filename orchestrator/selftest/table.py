"""The outcome of a self-test as a table with a line for each fault and device, and as JSON."""

from collections.abc import Iterator
from typing import Any

from orchestrator.config.naming import plural
from orchestrator.selftest import Outcome, Row

HEADER = ("injected", "expected", "reported", "ended by", "tries", "reaction", "status", "took", "")


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return the lines of the table below HEADER, each as a tuple of its cells as text."""
    return [_line(row, outcome) for row in outcome.rows]


def details(outcome: Outcome) -> Iterator[str]:
    """Yield a line per wrongly handled fault (none if interrupted) and leftover process or file, then a summary.

    An empty line separates the two parts.
    """
    wrong = () if outcome.interrupted else outcome.wrong
    for row in wrong:
        yield f"{row.injection.fault.name} on {row.injection.device.label}: {'; '.join(row.wrong)}"
    yield from (f"left behind: {leftover}" for leftover in outcome.left_behind)
    if wrong or outcome.left_behind:
        yield ""
    yield _end(outcome)


def as_builtins(outcome: Outcome) -> dict[str, Any]:
    """Convert the outcome to JSON values. "seconds" of a fault: longest from injection to end of a failed launch."""
    return {
        "passed": not outcome.exit_code,
        "exit_code": int(outcome.exit_code),
        "interrupted": outcome.interrupted,
        "seconds": outcome.seconds,
        "faults": [_fault(row) for row in outcome.rows],
        "left_behind": list(outcome.left_behind),
        "folder": None if outcome.folder is None else str(outcome.folder),
    }


def _line(row: Row, outcome: Outcome) -> tuple[str, ...]:
    injection, account = row.injection, row.account
    devices = {row.injection.device.uuid for row in outcome.rows}
    where = f" on {injection.device.label}" if len(devices) > 1 else ""
    return (
        f"{injection.fault.name}{where}",
        str(injection.fault.expected.category),
        " and ".join(account.categories) or "nothing",
        " and ".join(account.signals),
        str(len(account.tries)),
        str(account.done) if account.tries else "",
        str(account.status),
        _took(account.seconds),
        "right" if not row.wrong else "not finished" if outcome.interrupted else "WRONG",
    )


def _end(outcome: Outcome) -> str:
    number, right = len(outcome.rows), len(outcome.rows) - len(outcome.wrong)
    left = f"{plural(len(outcome.left_behind), 'thing')} left behind" if outcome.left_behind else "nothing left behind"
    kept = "" if outcome.folder is None else f" The run is kept in {outcome.folder}"
    stopped = "Interrupted: " if outcome.interrupted else ""
    handled = f"{right} of {plural(number, 'fault')} named and handled correctly"
    return f"{stopped}{handled}, {left}, {outcome.seconds:.0f} s.{kept}"


def _took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _fault(row: Row) -> dict[str, Any]:
    injection, account, expected = row.injection, row.account, row.injection.fault.expected
    return {
        "injected": injection.fault.name,
        "device": injection.device.label,
        "gpu_uuid": injection.device.uuid,
        "expected": {
            "category": expected.category.value,
            "phase": expected.phase.value,
            "message": expected.says,
            "stacks": expected.stacks,
            "output": expected.prints,
            "signal": expected.signal,
            "tries": expected.tries,
            "done": expected.done.value,
            "status": expected.status.value,
        },
        "said": {
            "categories": list(account.categories),
            "phases": list(account.phases),
            "messages": [attempt.message for attempt in account.failed],
            "stacks": bool(account.failed) and all(attempt.stacks for attempt in account.failed),
            "output_bytes": max((attempt.output_bytes for attempt in account.tries), default=0),
            "log_disk_bytes": max((attempt.disk_bytes for attempt in account.tries), default=0),
            "signals": list(account.signals),
            "tries": len(account.tries),
            "done": account.done.value,
            "status": account.status.value,
        },
        "seconds": account.seconds,
        "wrong": list(row.wrong),
    }
