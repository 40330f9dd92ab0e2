"""Whether the orchestrator said of an injected fault what it had to. Pure.

    Expected ┐
             ├── judge ──▶ what is wrong with the row, nothing where it is right
    Account  ┘

Times are shown and never judged: how long a verdict takes depends on the machine, and on its load.
"""

from collections.abc import Iterator

import msgspec

from orchestrator.logs import CAP_BYTES
from orchestrator.outcomes import Status
from orchestrator.selftest.faults import Done, Expected


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as the journal has it. category: None where it has a result, or no end was recorded.

    signal: that ended it, by its name. seconds: from the injection until the verdict was recorded; None where the fault
    never happened, or nothing was said of it. output_bytes: what is kept of what it printed.
    """

    batch_size: int
    category: str | None
    message: str
    signal: str | None
    injected: bool
    seconds: float | None
    output_bytes: int


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What the orchestrator said of one injected fault.

    skipped: its model is. taken_out: why its device is, where this was the last that ran on it.
    """

    status: Status
    tries: tuple[Try, ...]
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
    most = max(one.output_bytes for one in account.tries)
    if most > CAP_BYTES:
        yield f"output: {most} bytes were kept, and {CAP_BYTES} are the most"


def _differs(what: str, expected: str, found: tuple[str, ...]) -> Iterator[str]:
    if found != (expected,):
        yield f"{what}: expected {expected}, not {' and '.join(found) or 'nothing'}"
