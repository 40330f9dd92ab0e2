"""Compare the handling of an injected fault with the expected one. Pure. Times are never judged."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from orchestrator.figures.cells import Status
from orchestrator.selftest.faults import Done, Expected
from orchestrator.system.log_files import CAP_BYTES

_PRINTED_BYTES: Final = 64 * 1024
"""Least number of bytes to keep of endless output."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One process as recorded in the journal. category: None if it gave a result or its end is not recorded.

    signal: name of the signal that ended it, or None. injected: whether the fault was injected into it. seconds: time
    from the injection until the journal recorded the end; None unless both are known. stacks: whether the stacks of its
    threads were dumped. output_bytes: length of its output that was kept. printed_bytes, disk_bytes: maximum length and
    disk usage of its log as it ran. phase: value of the Phase in which it failed, None if `category` is.
    """

    batch_size: int
    category: str | None
    message: str
    signal: str | None
    injected: bool
    seconds: float | None
    output_bytes: int
    phase: str | None = None
    stacks: bool = False
    printed_bytes: int = 0
    disk_bytes: int = 0


class NamedFailure(msgspec.Struct, frozen=True):
    """A launch without a result. category, phase: None if it has no recorded end, or its result is damaged."""

    category: str | None
    message: str
    phase: str | None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """How the orchestrator handled one injected fault. tries: its processes, in order of their starts.

    status: of its cell in the report. reported: failures of its cell in the report, in the same order. skipped: whether
    the model was skipped. quarantined: reason if the device was quarantined and this cell was the last on it; else
    empty.
    """

    status: Status
    tries: tuple[Try, ...]
    reported: tuple[NamedFailure, ...]
    skipped: bool = False
    quarantined: str = ""

    @property
    def failed(self) -> tuple[Try, ...]:
        """The processes that failed."""
        return tuple(attempt for attempt in self.tries if attempt.category is not None)

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories of the failed processes, each once, in the order of their first occurrence."""
        return _distinct(failure.category for failure in self.failed)

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases in which processes failed, each once, in the order of their first occurrence."""
        return _distinct(failure.phase for failure in self.failed)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals that ended failed processes, each once, in the order of their first occurrence."""
        return _distinct(failure.signal for failure in self.failed)

    @property
    def done(self) -> Done:
        """How the orchestrator reacted to the fault: the first that applies, in this order.

        QUARANTINED, SKIPPED, HALVED (processes had different batch sizes), RETRIED (several processes), GIVEN_UP (one).
        """
        if self.quarantined:
            return Done.QUARANTINED
        if self.skipped:
            return Done.SKIPPED
        if len({attempt.batch_size for attempt in self.tries}) > 1:
            return Done.HALVED
        return Done.RETRIED if len(self.tries) > 1 else Done.GIVEN_UP

    @property
    def seconds(self) -> float | None:
        """Longest time in seconds from an injection until the failure of its process was recorded; None if unknown."""
        return max((attempt.seconds for attempt in self.failed if attempt.seconds is not None), default=None)


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value is not None))


def judge(expected: Expected, account: Account) -> Iterator[str]:
    """Describe each difference between the handling of a fault and the expected one; nothing if there is none."""
    if not account.tries:
        yield "the fault was never injected"
        return
    if not all(attempt.injected for attempt in account.tries):
        yield "the fault was not injected into every process"
    yield from _differs("category", expected.category, account.categories)
    if account.failed:
        yield from _tells_little(expected, account)
    if expected.signal is not None:
        yield from _differs("ended by", expected.signal, account.signals)
    if len(account.tries) != expected.tries:
        yield f"tries: expected {expected.tries}, not {len(account.tries)}"
    if account.done is not expected.done:
        why = f" ({account.quarantined})" if account.quarantined else ""
        yield f"reaction: expected {expected.done}, not {account.done}{why}"
    if account.status is not expected.status:
        yield f"status: expected {expected.status}, not {account.status}"
    yield from _reported_otherwise(account)
    for attempt in account.tries:
        yield from _keeps_too_much(attempt)


def _tells_little(expected: Expected, account: Account) -> Iterator[str]:
    yield from _differs("phase", expected.phase, account.phases)
    other = [attempt.message for attempt in account.failed if expected.says not in attempt.message]
    if other:
        yield f'message: expected "{expected.says}" in it, not "{other[0]}"'
    if expected.stacks and not all(attempt.stacks for attempt in account.failed):
        yield "stacks: missing in fault.log"
    least = min(attempt.output_bytes for attempt in account.failed)
    if expected.prints and least < _PRINTED_BYTES:
        yield f"output: {least} bytes kept of endless output, expected at least {_PRINTED_BYTES}"


def _reported_otherwise(account: Account) -> Iterator[str]:
    written = tuple(NamedFailure(attempt.category, attempt.message, attempt.phase) for attempt in account.failed)
    if len(written) != len(account.reported):
        yield f"report: {len(account.reported)} failures, but {len(written)} in the journal"
        return
    for reported, recorded in zip(account.reported, written, strict=True):
        if reported != recorded:
            yield f"report: {_failure_text(reported)}, but in the journal {_failure_text(recorded)}"


def _failure_text(failure: NamedFailure) -> str:
    return f'{failure.category} in {failure.phase}: "{failure.message}"'


def _keeps_too_much(attempt: Try) -> Iterator[str]:
    if attempt.output_bytes > CAP_BYTES:
        yield f"output: {attempt.output_bytes} bytes kept, expected at most {CAP_BYTES}"
    if attempt.disk_bytes > CAP_BYTES + attempt.printed_bytes // 2:
        printed = f"{attempt.printed_bytes} bytes of output"
        yield f"output: the log took up to {attempt.disk_bytes} bytes on disk for {printed}"


def _differs(what: str, expected: str, actual: tuple[str, ...]) -> Iterator[str]:
    if actual != (expected,):
        yield f"{what}: expected {expected}, not {' and '.join(actual) or 'nothing'}"
