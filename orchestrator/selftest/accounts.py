"""What a run says of the faults that were injected into it, read from its journal, its report and its folder."""

import signal
from collections.abc import Mapping
from pathlib import Path

from orchestrator.archive import Archive, Attempt
from orchestrator.report.model import Report
from orchestrator.selftest.campaign import Injection
from orchestrator.selftest.judge import Account, Try
from orchestrator.slots import scopes


def read(archive: Archive, report: Report, injection: Injection, moments: Mapping[int, int]) -> Account:
    """The account of one injection. moments: of each launch in which the fault happened, in nanoseconds."""
    cell, device = injection.cell, injection.device.uuid
    last = [one.start.cell for one in archive.attempts if one.start.device == device][-1:]
    return Account(
        status=next(entry.status for entry in report.cells if entry.cell == cell.id),
        tries=tuple(_try(archive, one, moments) for one in archive.attempts if one.start.cell == cell.id),
        skipped=not archive.skipped.keys().isdisjoint(scopes(cell)),
        taken_out=archive.taken_out.get(device, "") if last == [cell.id] else "",
    )


def moments(told: Path) -> dict[int, int]:
    """When each launch had its fault: monotonic nanoseconds by launch. Empty where nothing was injected."""
    lines = told.read_text(encoding="ascii").splitlines() if told.exists() else []
    return {int(launch): int(at_ns) for launch, at_ns in map(str.split, lines)}


def _try(archive: Archive, attempt: Attempt, injected_ns: Mapping[int, int]) -> Try:
    failure, left, moment = attempt.failure, attempt.left, injected_ns.get(attempt.start.launch)
    stdout = archive.folder(attempt).stdout
    return Try(
        batch_size=attempt.start.batch_size,
        category=None if failure is None else str(failure.category),
        message="" if failure is None else failure.message,
        signal=None if left is None or left.signal is None else signal.Signals(left.signal).name,
        injected=moment is not None,
        seconds=None if moment is None or attempt.end is None else (attempt.end.at_ns - moment) / 1e9,
        output_bytes=stdout.stat().st_size if stdout.exists() else 0,
    )
