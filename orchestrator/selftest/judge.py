"""Compares the account of an injected fault with what is expected. Pure. Times depend on the machine: never judged."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from orchestrator.figures.cells import Status
from orchestrator.selftest.faults import Done, Expected
from orchestrator.system.log_files import CAP_BYTES

_PRINTED_BYTES: Final = 64 * 1024
"""The least to be kept of endless output."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One process by the journal. category: None for a result, or without a recorded end. signal: by name.

    seconds: from the injection to the recorded verdict, None without both. stacks: of its threads were dumped.
    output_bytes: kept of its output. printed_bytes, disk_bytes: maximum length and disk usage of its log as it ran.
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
    """A failure in the journal or the report."""

    category: str | None
    message: str
    phase: str | None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the orchestrator says of one injected fault. status, reported: in the report, earliest failure first.

    skipped: its model is. taken_out: why its device is quarantined, where this cell was the last on it.
    """

    status: Status
    tries: tuple[Try, ...]
    reported: tuple[NamedFailure, ...]
    skipped: bool = False
    taken_out: str = ""

    @property
    def failed(self) -> tuple[Try, ...]:
        """The processes without a result."""
        return tuple(one for one in self.tries if one.category is not None)

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories of the failures, each once."""
        return _distinct(failure.category for failure in self.failed)

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases of the failures, each once."""
        return _distinct(failure.phase for failure in self.failed)

    @property
    def signals(self) -> tuple[str, ...]:
        """Signals that ended the failed processes, each once."""
        return _distinct(failure.signal for failure in self.failed)

    @property
    def done(self) -> Done:
        """The reaction to it."""
        if self.taken_out:
            return Done.TAKEN_OUT
        if self.skipped:
            return Done.SKIPPED
        if len({one.batch_size for one in self.tries}) > 1:
            return Done.HALVED
        return Done.RETRIED if len(self.tries) > 1 else Done.GIVEN_UP

    @property
    def seconds(self) -> float | None:
        """From an injection to its verdict, the slowest of them."""
        return max((one.seconds for one in self.failed if one.seconds is not None), default=None)


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value is not None))


def judge(expected: Expected, account: Account) -> Iterator[str]:
    """Yield everything that is not as expected, in words."""
    if not account.tries:
        yield "it was never tried"
        return
    if not all(one.injected for one in account.tries):
        yield "it did not happen in every process"
    yield from _differs("category", expected.category, account.categories)
    if account.failed:
        yield from _tells_little(expected, account)
    if expected.signal is not None:
        yield from _differs("ended by", expected.signal, account.signals)
    if len(account.tries) != expected.tries:
        yield f"tries: expected {expected.tries}, not {len(account.tries)}"
    if account.done is not expected.done:
        why = f" ({account.taken_out})" if account.taken_out else ""
        yield f"expected to be {expected.done}, not {account.done}{why}"
    if account.status is not expected.status:
        yield f"status: expected {expected.status}, not {account.status}"
    yield from _reported_otherwise(account)
    for one in account.tries:
        yield from _keeps_too_much(one)


def _tells_little(expected: Expected, account: Account) -> Iterator[str]:
    """Report what a person needs to find the cause and does not find."""
    yield from _differs("phase", expected.phase, account.phases)
    other = [one.message for one in account.failed if expected.says not in one.message]
    if other:
        yield f'message: expected one with "{expected.says}", not "{other[0]}"'
    if expected.stacks and not all(one.stacks for one in account.failed):
        yield "its stacks are not in fault.log"
    least = min(one.output_bytes for one in account.failed)
    if expected.prints and least < _PRINTED_BYTES:
        yield f"output: {least} bytes were kept of what has no end, and {_PRINTED_BYTES} are the least"


def _reported_otherwise(account: Account) -> Iterator[str]:
    written = tuple(NamedFailure(one.category, one.message, one.phase) for one in account.failed)
    if len(written) != len(account.reported):
        yield f"report: {len(account.reported)} failures, and {len(written)} in the journal"
        return
    for reported, recorded in zip(account.reported, written, strict=True):
        if reported != recorded:
            yield f"report: it says {_words(reported)}, and the journal {_words(recorded)}"


def _words(failure: NamedFailure) -> str:
    return f'{failure.category} in {failure.phase}: "{failure.message}"'


def _keeps_too_much(one: Try) -> Iterator[str]:
    """Report logs above the cap, afterwards or while they grew."""
    if one.output_bytes > CAP_BYTES:
        yield f"output: {one.output_bytes} bytes were kept, and {CAP_BYTES} are the most"
    if one.disk_bytes > CAP_BYTES + one.printed_bytes // 2:
        yield f"output: its log took {one.disk_bytes} bytes of the disk while it ran, of {one.printed_bytes} printed"


def _differs(what: str, expected: str, found: tuple[str, ...]) -> Iterator[str]:
    if found != (expected,):
        yield f"{what}: expected {expected}, not {' and '.join(found) or 'nothing'}"
