"""Check that the records of a journal can belong to the run in whose folder the journal is. Pure.

Checksums find damage, but not records that belong to another run.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.config.run_configuration import StoredRun
from orchestrator.stats.stragglers import MOST_LAUNCHES
from orchestrator.store.journal_records import (
    Added,
    Beside,
    Dropped,
    End,
    Foreign,
    Header,
    Left,
    Quarantine,
    Record,
    Segment,
    Skipped,
    Spawned,
    Start,
    Suspension,
    TooHot,
)
from protocol.failure import Failure

_LATEST_S: Final = 1e11
"""Latest accepted time, in seconds since the epoch (year 5138). Much later ones cannot be written as dates."""


def wrong(stored: StoredRun, records: Iterable[Record]) -> str | None:
    """Describe the first record that cannot belong to the run: "record 3: launch 7 never started"; None if all can.

    Records are counted from 0.
    """
    judge = _Judge(stored)
    for number, record in enumerate(records):
        if problem := judge.wrong(record, first=number == 0):
            return f"record {number}: {problem}"
    return None


class _Judge:
    def __init__(self, stored: StoredRun) -> None:
        self._slots = {device: set(queue) for device, queue in stored.plan.order.items()}
        self._planned = {slot for queue in self._slots.values() for slot in queue}
        self._devices = {device.uuid for device in stored.devices}
        self._models = set(stored.configuration.by_name)
        self._cells = {cell.id: cell.devices for cell in stored.plan.cells}
        self._adds_rounds = stored.configuration.adds_rounds
        self._begun: dict[int, tuple[str, ...]] = {}
        self._in_segment = False

    def wrong(self, record: Record, *, first: bool) -> str | None:
        match record:
            case Header() if not first:
                return "the run starts twice"
            case Header(created=at) | Segment(wall=at) | Suspension(seconds=at) if not 0 <= at < _LATEST_S:
                return f"{at:g} is not a time"
            case Segment():
                self._in_segment = True
            case _ if not first and not self._in_segment:
                return "an event before the first session of the run"
            case Start():
                return self._start(record)
            case End() | Left() | Spawned() | Beside() if record.launch not in self._begun:
                return f"launch {record.launch} never started"
            case End() if (record.result_sha256 is None) == (record.failure is None):
                return f"launch {record.launch} has both a result and a failure, or neither"
            case End(failure=Failure(device=str(device))) if device not in self._begun[record.launch]:
                return f"{device!r} is no device of launch {record.launch}"
            case Quarantine() | TooHot() | Foreign() if record.device not in self._devices:
                return f"{record.device!r} is no device of the run"
            case Skipped() if record.model not in self._models:
                return f"{record.model!r} is no model of the run"
            case Added():
                return self._added(record)
            case Dropped() if (record.cell, record.round) not in self._planned:
                return f"{record.cell!r} is not planned"
        return None

    def _added(self, added: Added) -> str | None:
        next_round = 1 + max((number for _, number in self._planned), default=0)
        most = next_round + 1 if self._adds_rounds else MOST_LAUNCHES
        for suspect in added.suspects:
            if suspect not in self._devices:
                return f"{suspect!r} is no device of the run"
        for cell, number in added.slots:
            later = any((cell, later_round) in self._planned for later_round in range(number, most))
            if cell not in self._cells or later or not 0 < number < most or number > next_round:
                return f"{cell!r}, round {number}, cannot be added"
            self._planned.add((cell, number))
            for device in self._cells[cell]:
                self._slots[device].add((cell, number))
        return None

    def _start(self, start: Start) -> str | None:
        if start.launch in self._begun:
            return f"launch {start.launch} starts twice"
        if (start.cell, start.round) not in self._slots.get(start.device, ()):
            return f"{start.cell!r}, round {start.round}, is not planned on {start.device!r}"
        if start.attempt < 1 or start.batch_size < 1:
            return f"attempt {start.attempt} at batch size {start.batch_size}"
        self._begun[start.launch] = self._cells[start.cell]
        return None
