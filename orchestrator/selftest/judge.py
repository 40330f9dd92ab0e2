"""Whether the orchestrator said of an injected fault what it had to. Pure.

    Expected ┐
             ├── judge ──▶ what is wrong with the row, nothing where it is right
    Account  ┘

Times are shown and never judged: how long a verdict takes depends on the machine, and on its load.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.analysis.outcomes import Status
from orchestrator.selftest.faults import Done, Expected
from orchestrator.system.log_files import CAP_BYTES

_PRINTED_BYTES: Final = 64 * 1024
"""The least that has to be kept of what is printed without end."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as the journal has it. category: None where it has a result, or no end was recorded.

    signal: that ended it, by its name. seconds: from the injection until the verdict was recorded; None where the fault
    never happened, or nothing was said of it. phase: where it failed. stacks: those of its threads were dumped.
    output_bytes: what is kept of what it printed. printed_bytes, disk_bytes: how long its log was at most, and how much
    it took of the disk, while it ran.
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
    """What is said of a process that failed."""

    category: str | None
    message: str
    phase: str | None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the orchestrator said of one injected fault.

    status: in the report. reported: its failures there, earliest first. skipped: its model is. taken_out: why its
    device is, where this was the last that ran on it.
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
        """What the failures were called, each once."""
        return tuple(dict.fromkeys(one.category for one in self.failed if one.category is not None))

    @property
    def phases(self) -> tuple[str, ...]:
        """Where it failed, each once."""
        return tuple(dict.fromkeys(one.phase for one in self.failed if one.phase is not None))

    @property
    def signals(self) -> tuple[str, ...]:
        """What ended the processes that failed, each once."""
        return tuple(dict.fromkeys(one.signal for one in self.failed if one.signal is not None))

    @property
    def done(self) -> Done:
        """What was done about it."""
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


def judge(expected: Expected, account: Account) -> tuple[str, ...]:
    """Everything that is not as expected, in words."""
    return tuple(_wrong(expected, account))


def _wrong(expected: Expected, account: Account) -> Iterator[str]:
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
        yield f"expected to be {expected.done}, not {account.done}" + (
            f" ({account.taken_out})" if account.taken_out else ""
        )
    if account.status is not expected.status:
        yield f"status: expected {expected.status}, not {account.status}"
    yield from _reported_otherwise(account)
    for one in account.tries:
        yield from _keeps_too_much(one)


def _tells_little(expected: Expected, account: Account) -> Iterator[str]:
    """What a person would need to find the cause, and does not find."""
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
    """What is expected was asked of the journal: the report, which people read, has to say the same."""
    written = tuple(NamedFailure(one.category, one.message, one.phase) for one in account.failed)
    if len(written) != len(account.reported):
        yield f"report: {len(account.reported)} failures, and {len(written)} in the journal"
        return
    for told, true in zip(account.reported, written, strict=True):
        if told != true:
            yield f"report: it says {_words(told)}, and the journal {_words(true)}"


def _words(told: NamedFailure) -> str:
    return f'{told.category} in {told.phase}: "{told.message}"'


def _keeps_too_much(one: Try) -> Iterator[str]:
    """Afterwards, or while it ran: there what came between two looks at a log is no fault, most of it all is one."""
    if one.output_bytes > CAP_BYTES:
        yield f"output: {one.output_bytes} bytes were kept, and {CAP_BYTES} are the most"
    if one.disk_bytes > CAP_BYTES + one.printed_bytes // 2:
        yield f"output: its log took {one.disk_bytes} bytes of the disk while it ran, of {one.printed_bytes} printed"


def _differs(what: str, expected: str, found: tuple[str, ...]) -> Iterator[str]:
    if found != (expected,):
        yield f"{what}: expected {expected}, not {' and '.join(found) or 'nothing'}"
