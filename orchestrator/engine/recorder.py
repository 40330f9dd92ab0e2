"""Record what happens to each attempt at a measurement, in an order that a crash cannot break.

    started ─▶ process is made ─▶ spawned ─▶ ended: result file, synced, then the journal ─▶ Ack to the worker ─▶ left

Each method returns once the record is on disk, and raises StorageError when it cannot be written.
"""

import hashlib
import time

from orchestrator.config.run_configuration import Slot
from orchestrator.engine.launches.live import Live
from orchestrator.engine.memory_gate import Passed
from orchestrator.gpu.telemetry import foreign_use
from orchestrator.plan import batch_scan
from orchestrator.state.slots import NextLaunch, Skip
from orchestrator.store import journal_records as records
from orchestrator.store.journal import Journal, write_durably
from orchestrator.system import host
from protocol import codec
from protocol.failure import Failure
from protocol.messages import ForeignSeen, TooHot
from protocol.result import Result


class Recorder:
    """The only writer of a run's journal while the loop works."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._append = journal.append

    def zygote_started(self, start_ms: float, failed: dict[str, str]) -> None:
        """Record that the zygote is ready. start_ms: how long that took. failed: module → error of its import."""
        self._append(records.ZygoteStarted(start_ms=start_ms, failed=failed))

    def started(self, following: NextLaunch) -> None:
        """Record the start of a launch. Call it before its process is made."""
        self._append(
            records.Start(
                launch=following.launch,
                cell=following.planned,
                round=following.slot[1],
                attempt=following.attempt,
                batch_size=following.cell.batch_size,
                device=following.device,
                at_ns=time.monotonic_ns(),
            )
        )

    def added(self, slots: tuple[Slot, ...], suspects: tuple[str, ...] = ()) -> None:
        """Record that launches of planned cells were added. slots: (cell id, round) of each.

        suspects: UUIDs of the GPUs in doubt for which they were added; empty if added for another reason.
        """
        self._append(records.Added(slots=slots, suspects=suspects, at_ns=time.monotonic_ns()))

    def dropped(self, slot: Slot, reason: str) -> None:
        """Record that a launch will not be made, for lack of time. reason: text for the report."""
        self._append(records.Dropped(cell=slot[0], round=slot[1], at_ns=time.monotonic_ns(), reason=reason))

    def spawned(self, live: Live) -> None:
        """Record that the process of a launch exists."""
        assert live.pid is not None
        ticks = host.start_ticks(live.pid) or 0
        self._append(records.Spawned(launch=live.spec.launch, pid=live.pid, start_ticks=ticks))

    def ended(self, live: Live, outcome: Result | Failure) -> records.End:
        """Write a result to its file, then record the outcome of a launch and return the record.

        A failure after a result withdraws the result, but its file stays.
        """
        if isinstance(outcome, Result):
            data = codec.encode(outcome)
            write_durably(live.paths.result, data)
            end = records.End(
                launch=live.spec.launch,
                at_ns=time.monotonic_ns(),
                result_sha256=hashlib.sha256(data).hexdigest(),
                figures=batch_scan.figures(outcome) if live.next.scans else None,
            )
        else:
            end = records.End(launch=live.spec.launch, at_ns=time.monotonic_ns(), failure=outcome)
        self._append(end)
        return end

    def require_room(self) -> None:
        """Raise StorageError if the disk is full. Call it after a failed launch: the full disk may be the cause."""
        self._journal.require_room()

    def beside(self, live: Live, by: str) -> None:
        """Record that a launch's result counts although another process used its GPU. by: that process, in words."""
        self._append(records.Beside(launch=live.spec.launch, at_ns=time.monotonic_ns(), by=by))

    def foreign_seen(self, message: ForeignSeen) -> None:
        """Record that another process now computes on a GPU, or that none does any more."""
        by = foreign_use.describe_processes(message.processes)
        self._append(records.Foreign(device=message.uuid, at_ns=message.at_ns, by=by))

    def left(self, passed: Passed) -> None:
        """Record that the last process of a launch is gone or cannot be killed: its exit and its teardown time.

        passed: the device of this process, for which the run waited last.
        """
        exit_ = passed.gone.exit
        self._append(
            records.Left(
                launch=passed.gone.live.spec.launch,
                exit_code=None if exit_ is None else exit_.code,
                signal=None if exit_ is None else exit_.signal,
                teardown_ms=passed.teardown_ms,
            )
        )

    def clock_set(self, wall: float, by_s: float) -> None:
        """Record that the host's time of day jumped by `by_s` seconds, to `wall` (seconds since the epoch)."""
        self._append(records.ClockSet(at_ns=time.monotonic_ns(), wall=wall, by_s=by_s))

    def suspended(self, seconds: float) -> None:
        """Record that the orchestrator was suspended for `seconds`, until now."""
        self._append(records.Suspension(at_ns=time.monotonic_ns(), seconds=seconds))

    def stop_requested(self) -> None:
        """Record a stop request."""
        self._append(records.StopRequest(at_ns=time.monotonic_ns()))

    def telemetry_ended(self) -> None:
        """Record that there are no GPU readings from now on."""
        self._append(records.TelemetryEnded(at_ns=time.monotonic_ns()))

    def quarantined(self, device: str, reason: str) -> None:
        """Record that a device (UUID) is quarantined. reason: text.

        A resume ends the quarantine. In a burn-in, it does so only if all devices are quarantined.
        """
        self._append(records.Quarantine(device=device, at_ns=time.monotonic_ns(), reason=reason))

    def too_hot(self, message: TooHot) -> None:
        """Record that the load of a GPU was ended because of its temperature."""
        self._append(records.TooHot(device=message.uuid, at_ns=message.at_ns, reason=message.reason))

    def skipped(self, skip: Skip, reason: str) -> None:
        """Record that a model is skipped from now on, or only the part of it that `skip.only` names.

        reason: failure category, devices, details.
        """
        self._append(records.Skipped(model=skip.model, only=skip.only, at_ns=time.monotonic_ns(), reason=reason))
