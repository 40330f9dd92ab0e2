"""Replay a journal: the only code that knows what its records mean for the state of a run. Pure.

                                    ┌▶ resume, the start of the engine: RunState
    plan, rules ─┐                  ├▶ status, watch: counts, work, time left          (engine/run_status.py)
    journal ─────┴▶ replay ▶ Replay ┼▶ report: outcome of each cell, counted launches  (analysis/outcomes.py)
                                    └▶ archive: attempts, quarantined, skipped, dropped

Records go through the same `step` as live events. Consequences of an end of a launch (measurement) are derived again.
Quarantine records are applied as well: those from outside (telemetry, a blocked GPU) cannot be derived.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from orchestrator.config.run_configuration import Plan, Slot, StoredRun
from orchestrator.state.attempts import Attempt
from orchestrator.state.slots import (
    Added,
    Dropped,
    Ended,
    Freed,
    Quarantined,
    RunState,
    SlotStatus,
    Started,
    Withdrawn,
    settled,
    with_device,
)
from orchestrator.state.transitions import begin, settle, step
from orchestrator.store import journal_records as journaled
from orchestrator.store.journal_records import Beside, End, Finished, Left, Quarantine, Record, Segment, Skipped, Start
from protocol.cell import DeviceKind
from protocol.failure import Category, Failure, Phase

_REPEATED: Final = frozenset({SlotStatus.DROPPED, SlotStatus.DOES_NOT_FIT})


class ReplayRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of run reads its journal.

    products: device → product name, because only failures on devices of one product are compared; empty if all are
    alike. accusable: GPUs that are quarantined if two models in a row fail there. skips: whether faulty models are
    skipped. repeats: whether each resume queues launches again that were dropped for lack of time or whose batch size
    did not fit. keeps_quarantines: whether a resume keeps quarantines, unless all devices are quarantined.
    """

    products: Mapping[str, str] = {}
    accusable: frozenset[str] = frozenset()
    skips: bool = True
    repeats: bool = False
    keeps_quarantines: bool = False


BENCHMARK_RULES: Final = ReplayRules()
ROUND_RULES: Final = ReplayRules(skips=False, repeats=True, keeps_quarantines=True)
"""Rules of a run that adds rounds until its time is up. It keeps quarantines: healthy devices would have to wait for
a device that returns many rounds behind.
"""


def rules_of(stored: StoredRun) -> ReplayRules:
    """Return the rules for a stored run. If it simulates faults, two models that fail in a row quarantine no GPU."""
    gpus = frozenset(device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA)
    return msgspec.structs.replace(
        ROUND_RULES if stored.configuration.until_limit else BENCHMARK_RULES,
        products={device.uuid: device.name for device in stored.devices},
        accusable=frozenset() if stored.configuration.tainted else gpus,
    )


@dataclass(frozen=True)
class Replay:
    """What a journal says about a run. attempts: in the order of their starts. Values of mappings are reasons.

    quarantined: devices in quarantine now. quarantines: devices that ever were, with the newest reason. skipped: names
    of models, or of a part of their cells (slots.scopes). added: launches beyond the plan. dropped: launches not made
    for lack of time; those that a resume of a burn-in queued again are absent. lost: launch numbers that the caller
    passed because their result file is missing or damaged. finished: the end of the last session, None if it has none.
    """

    plan: Plan
    state: RunState
    attempts: tuple[Attempt, ...] = ()
    quarantined: Mapping[str, str] = dataclasses.field(default_factory=dict)
    quarantines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    added: tuple[Slot, ...] = ()
    dropped: Mapping[Slot, str] = dataclasses.field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    finished: Finished | None = None

    def without(self, lost: Collection[int]) -> "Replay":
        """Return a copy in which the results of some launches are withdrawn, because their files are lost.

        lost: numbers of these launches. A resume starts from such a copy.
        """
        if not lost:
            return self
        state = self.state
        for launch in sorted(lost):
            state = step(state, Withdrawn(launch, _RESULT_LOST))
        return dataclasses.replace(self, state=settle(state), lost=self.lost | frozenset(lost))


def replay(
    plan: Plan,
    rules: ReplayRules,
    records: Iterable[Record],
    damaged: Collection[int] = (),
    *,
    alive: bool = False,
) -> Replay:
    """Replay records that coherence.py has accepted.

    damaged: numbers of launches whose result file is damaged or missing. alive: whether the process of the last session
    still works. If so, its attempts without an end are running; all others without an end are interrupted.
    """
    reader = _Reader(plan, rules)
    for record in records:
        reader.read(record)
    return reader.replay(alive=alive).without(damaged)


def staying_out(devices: Collection[str], out: Mapping[str, str]) -> dict[str, str]:
    """Return the quarantines (device → reason) that a resume keeps: all of `out`, or none if it has all `devices`."""
    return {} if out.keys() >= {*devices} else dict(out)


def another_chance(state: RunState, kept: Mapping[str, str]) -> RunState:
    """Return the state at a resume: devices have no strikes or doubts, and each may have a launch at the same time.

    Retries that are used up stay so. Quarantines end, except for those in `kept`: device → reason.
    """
    devices = {
        uuid: msgspec.structs.replace(device, quarantined=kept.get(uuid, ""), strikes=(), doubts=())
        for uuid, device in state.devices.items()
    }
    return msgspec.structs.replace(state, devices=devices, at_once=None)


def interrupted(phase: Phase = Phase.START) -> Failure:
    """Return the failure of an attempt whose orchestrator died while the attempt was in `phase`."""
    return Failure(
        category=Category.INTERRUPTED,
        message="the orchestrator ended while this attempt was running",
        phase=phase,
    )


LOST: Final = "its result file is missing or damaged"
_RESULT_LOST: Final = Failure(category=Category.RESULT_LOST, message=LOST, phase=Phase.FINISH)


def _thawed(state: RunState) -> RunState:
    """Return a state whose large mappings change in place. To copy them would take half the time of a replay."""
    slots, launches, attempts = state.slots.thawed(), state.launches.thawed(), state.attempts.thawed()
    return msgspec.structs.replace(state, slots=slots, launches=launches, attempts=attempts)


def _frozen(state: RunState) -> RunState:
    slots, launches, attempts = state.slots.frozen(), state.launches.frozen(), state.attempts.frozen()
    return msgspec.structs.replace(state, slots=slots, launches=launches, attempts=attempts)


class _Reader:
    def __init__(self, plan: Plan, rules: ReplayRules) -> None:
        self._plan, self._rules = plan, rules
        self._now = _thawed(begin(plan, rules.products, rules.accusable, skips=rules.skips))
        self._order = {uuid: [*device.queue] for uuid, device in self._now.devices.items()}
        self._segment: Segment | None = None
        self._attempts: dict[int, Attempt] = {}
        self._open: dict[int, Start] = {}
        self._outside: dict[str, str] = {}
        """Quarantined device → reason, for devices without a planned launch, which the state does not contain."""
        self._quarantines: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._added: list[Slot] = []
        self._dropped: dict[Slot, str] = {}
        self._finished: Finished | None = None

    def read(self, record: Record) -> None:
        match record:
            case Segment():
                self._begin_session(record)
            case Start():
                self._start(record)
            case End() | Left() | Beside():
                if self._segment is not None and record.launch in self._attempts:
                    self._attempts[record.launch] = self._attempts[record.launch].after(record, self._segment)
                if isinstance(record, End):
                    self._end(record)
            case Quarantine():
                if record.device in self._now.devices:
                    self._advance(Quarantined(record.device, record.reason))
                else:
                    self._outside[record.device] = record.reason
            case Skipped():
                self._skipped.setdefault(f"{record.model} {record.only}".rstrip(), record.reason)
            case journaled.Added():
                self._add(record)
            case journaled.Dropped():
                self._advance(Dropped((record.cell, record.round)))
                self._dropped[record.cell, record.round] = record.reason
            case Finished():
                self._finished = record

    def replay(self, *, alive: bool) -> Replay:
        for launch, start in self._open.items():
            begun = self._attempts.get(launch)
            if not alive or (begun is not None and begun.segment is not self._segment):
                self._close(start, interrupted())
        now = _frozen(settle(self._now))
        return Replay(
            plan=self._plan,
            state=now,
            attempts=tuple(self._attempts.values()),
            quarantined=self._quarantined(),
            quarantines=self._quarantines | self._outside,
            skipped={scope: str(skip.category) for scope, skip in now.skipped.items()} | self._skipped,
            added=tuple(self._added),
            dropped=self._dropped,
            finished=self._finished,
        )

    def _quarantined(self) -> dict[str, str]:
        inside = {uuid: device.quarantined for uuid, device in self._now.devices.items() if device.quarantined}
        return inside | self._outside

    def _begin_session(self, segment: Segment) -> None:
        kept = staying_out(self._now.devices, self._quarantined()) if self._rules.keeps_quarantines else {}
        self._now = another_chance(self._now, kept)
        self._outside = {uuid: why for uuid, why in self._outside.items() if uuid in kept}
        self._segment, self._finished = segment, None
        if self._rules.repeats:
            self._dropped = {}
            self._repeat()

    def _repeat(self) -> None:
        """Queue launches again that were dropped for lack of time or whose batch size did not fit.

        Every queue returns to its old order, so that gangs have the same order on all devices. Batch sizes known to be
        too large are forgotten.
        """
        now = msgspec.structs.replace(self._now, too_large={})
        again = {slot for slot, current in now.slots.items() if current.status in _REPEATED}
        for slot in again:
            now = settled(now, slot, SlotStatus.WAITING)
        if again:
            waits = {slot for slot, current in now.slots.items() if current.status is SlotStatus.WAITING}
            for uuid, slots in self._order.items():
                now = with_device(now, uuid, queue=tuple(slot for slot in slots if slot in waits))
        self._now = now

    def _start(self, start: Start) -> None:
        if self._segment is not None:
            self._attempts[start.launch] = Attempt(self._segment, start)
        self._open[start.launch] = start
        self._now = step(self._now, Started(start.launch, (start.cell, start.round), start.device, start.batch_size))

    def _end(self, end: End) -> None:
        start = self._open.pop(end.launch, None)
        if start is not None:
            self._close(start, end.failure, end)
        elif end.failure is not None:
            self._advance(Withdrawn(end.launch, end.failure))

    def _close(self, start: Start, failure: Failure | None, end: End | None = None) -> None:
        self._advance(Ended(start.launch, failure, None if end is None else end.figures))
        for uuid in self._now.cells[start.cell].devices:
            self._now = step(self._now, Freed(uuid))

    def _add(self, record: journaled.Added) -> None:
        self._advance(Added(record.slots))
        self._added += record.slots
        for slot in record.slots:
            for uuid in self._now.cells[slot[0]].devices:
                self._order[uuid].append(slot)

    def _advance(self, event: Ended | Quarantined | Dropped | Withdrawn | Added) -> None:
        before, self._now = self._now.devices, step(self._now, event)
        if self._now.devices is not before:
            for uuid, device in self._now.devices.items():
                if device.quarantined and device.quarantined != before[uuid].quarantined:
                    self._quarantines[uuid] = device.quarantined
