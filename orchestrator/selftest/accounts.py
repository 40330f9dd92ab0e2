"""What a run says of the faults that were injected into it, read from its journal, its report and its folder."""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.selftest.campaign import Injection
from orchestrator.selftest.judge import Account, NamedFailure, Try
from orchestrator.selftest.log_watch import Seen
from orchestrator.state.archive import Archive
from orchestrator.state.attempts import Attempt
from orchestrator.state.slots import scopes

_FRAME: Final = '  File "'
"""How faulthandler begins a line of a stack."""


def read(
    archive: Archive, report: Report, injection: Injection, moments: Mapping[int, int], seen: Callable[[Path], Seen]
) -> Account:
    """The account of one injection. moments: of each launch in which the fault happened, in nanoseconds.

    seen: how large a log became.
    """
    cell, device = injection.cell, injection.device.uuid
    last = [one.start.cell for one in archive.attempts if one.start.device == device][-1:]
    return Account(
        status=next(entry.status for entry in report.cells if entry.cell == cell.id),
        tries=tuple(_try(archive, one, moments, seen) for one in archive.attempts if one.start.cell == cell.id),
        reported=tuple(
            NamedFailure(one.category, one.message, one.phase) for one in report.failures if one.cell == cell.id
        ),
        skipped=not archive.skipped.keys().isdisjoint(scopes(cell)),
        taken_out=archive.taken_out.get(device, "") if last == [cell.id] else "",
    )


def moments(told: Path) -> dict[int, int]:
    """When each launch had its fault: monotonic nanoseconds by launch. Empty where nothing was injected."""
    lines = told.read_text(encoding="ascii").splitlines() if told.exists() else []
    return {int(launch): int(at_ns) for launch, at_ns in map(str.split, lines)}


def _try(archive: Archive, attempt: Attempt, injected_ns: Mapping[int, int], seen: Callable[[Path], Seen]) -> Try:
    failure, left, moment = attempt.failure, attempt.left, injected_ns.get(attempt.start.launch)
    stdout, stacks = archive.folder(attempt).stdout, archive.folder(attempt).fault
    return Try(
        batch_size=attempt.start.batch_size,
        category=None if failure is None else str(failure.category),
        message="" if failure is None else failure.message,
        signal=None if left is None or left.signal is None else signal.Signals(left.signal).name,
        injected=moment is not None,
        seconds=None if moment is None or attempt.end is None else (attempt.end.at_ns - moment) / 1e9,
        output_bytes=stdout.stat().st_size if stdout.exists() else 0,
        phase=None if failure is None else str(failure.phase),
        stacks=stacks.exists() and _FRAME in stacks.read_text(encoding="utf-8", errors="replace"),
        printed_bytes=seen(stdout).printed_bytes,
        disk_bytes=seen(stdout).disk_bytes,
    )
