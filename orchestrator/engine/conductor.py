"""Start the launches (measurements in fresh processes) that are due, and act on what happens to them.

    next_launches ─▶ journal Start ─▶ fork ─▶ … ─▶ Concluded ─▶ result file, journal, Ack    transitions.step(Ended)
                                                   Gone ──▶ gates ──▶ Passed ─▶ journal      transitions.step(Freed)

orchestrator/state/ decides which launch is next and when to stop; lifecycle.py decides what one launch does next.
"""

import math
import os
import time
from collections.abc import Iterable

import zmq

from orchestrator.engine.adaptive_launches import AdaptiveLaunches
from orchestrator.engine.announcer import Announcer
from orchestrator.engine.failure_context import FailureContext
from orchestrator.engine.launches import gang, pauses
from orchestrator.engine.launches.fleet import Fleet
from orchestrator.engine.launches.live import Concluded, Gone, Happening, Live
from orchestrator.engine.loop_clock import LoopClock
from orchestrator.engine.memory_gate import Gates, Passed
from orchestrator.engine.recorder import Recorder
from orchestrator.engine.run_context import RunContext
from orchestrator.engine.unavailable_gpus import Waiting
from orchestrator.gpu.telemetry import validity
from orchestrator.gpu.telemetry.client import LaunchTelemetry
from orchestrator.state import blocked_gpus, stopping, transitions
from orchestrator.state.added_launches import Look
from orchestrator.state.slots import (
    Added,
    Dropped,
    Ended,
    Event,
    Freed,
    NextLaunch,
    Postponed,
    Quarantined,
    RunState,
    SlotStatus,
    Started,
    StopRequested,
    Withdrawn,
)
from orchestrator.state.stopping import GENTLE_GRACE_S, Order
from orchestrator.store.journal_records import End
from orchestrator.system import process_end
from protocol.cell import Device
from protocol.failure import Category, Failure, Phase
from protocol.messages import GpuBroken, TooHot, XidSeen
from protocol.result import Result


class Conductor:
    """Starts launches, and keeps the state of the run. begun: state from which the run starts or is resumed.

    Methods raise StorageError if the journal, a result or the folder of a launch cannot be written.
    """

    def __init__(self, around: RunContext, begun: RunState, poller: zmq.Poller, clock: LoopClock) -> None:
        stored = around.stored
        self.state = begun
        self.fleet = Fleet(stored, around.kind, around.paths, around.link, around.nursery.fork)
        self.gates = Gates(stored.devices)
        self.recorder = Recorder(around.journal)
        self.telemetry = around.telemetry
        self.failure_context = FailureContext(stored.devices, shares=stored.configuration.allow_busy)
        self._next_rounds = around.kind.next_rounds
        self._works_around_pauses = around.kind.works_around_pauses
        self._announcer = Announcer(stored, around.display, around.kind)
        self.tell = self._announcer.tell
        self._devices = {device.uuid: device for device in stored.devices}
        self._poller = poller
        self._clock = clock
        self._launch_telemetry = LaunchTelemetry(stored.devices, around.paths)
        self._results: dict[int, Result] = {}
        self._staying: dict[int, set[str]] = {}
        self._waiting = Waiting()
        self._budget = around.budget
        self._adaptive = AdaptiveLaunches(around)
        self._seed = stored.configuration.seed
        for scope in begun.skipped:  # an earlier process may have been killed before it recorded them
            self._skipped(scope, "")

    @property
    def work_left(self) -> bool:
        """Whether launches are not settled yet: waiting or running. False once a stop was requested."""
        return not self.state.stopping and self.state.settled < len(self.state.slots)

    @property
    def busy(self) -> bool:
        """Whether the main loop must wait for a running launch, or for a device that is not free yet.

        False once the time limit has ended all launches, and the wait for their processes (PATIENCE_S) is over.
        """
        in_time = self._budget is None or not self._budget.awaits_nothing(time.monotonic())
        return in_time and any((self.fleet.live, self.gates, self._waiting))

    def launch_what_is_due(self) -> bool:
        """Start every launch that is due and whose devices are free. Return True if any was started.

        In a run with a time limit, first end running launches that take too long, and drop or postpone waiting launches
        that do not fit. If no launch is due, begin another round, if this kind of run adds rounds.
        """
        self._end_what_takes_too_long()
        self._keep_to_the_budget()
        self.state, following = transitions.next_launches(self.state)
        if not following and self.begin_rounds():
            self.state, following = transitions.next_launches(self.state)
        for launch in following:
            self._launch(launch)
        return bool(following)

    def begin_rounds(self) -> bool:
        """Add another round of launches if the kind of run adds any and time is left. Return True if any was added."""
        if self._next_rounds is None or self._budget is None or self.state.stopping:
            return False
        budget, left_s = self._budget, self._budget.ends - time.monotonic()
        slots = self._next_rounds(self.state, self._seed, lambda cell: budget.expected_s(cell) <= left_s)
        if slots:
            self.recorder.added(slots)
            self._step(Added(slots))
        return bool(slots)

    def in_doubt(self) -> Look:
        """Return the doubts about GPUs; an empty Look if no launch may be added now. Slow: reads all results.

        Raises RunFolderError if a file of the run is damaged.
        """
        return self._adaptive.look(self.state)

    def add_launches(self, look: Look) -> bool:
        """Add launches for the doubts in `look` if time permits. Return True if any was added.

        The warning and the advice of `look` are shown in any case, but only the first ones of the run.
        """
        more = self._adaptive.decide(self.state, look)
        self._announcer.warned(look.warning, look.advice)
        if not more.slots:
            return False
        self.recorder.added(*more)
        self._step(Added(more.slots))
        self._announcer.added(more.slots, more.suspects, look)
        return True

    def carry_out(self, happenings: Iterable[Happening]) -> None:
        """Record outcomes of launches, free devices whose process is gone (`let_pass`), and poll new pidfds."""
        for happening in happenings:
            match happening:
                case Concluded(live, outcome):
                    end = self._record(live, outcome)
                    self.fleet.acknowledge(live, end.at_ns)
                case Gone(live):
                    if live.pidfd is not None:  # it cannot be killed, and nobody waits for it
                        self._poller.unregister(live.pidfd)
                        os.close(live.pidfd)
                    self.let_pass(self.gates.admit(happening, self.telemetry, self._clock.now()))
        for live in self.fleet.live.values():
            if live.pidfd is not None and not live.noted:
                live.noted = True
                self._poller.register(live.pidfd, zmq.POLLIN)
                self.recorder.spawned(live)

    def let_pass(self, passed: Passed | None) -> None:
        """Free the device of a process that is gone, or let the device wait while it is hot or in use.

        passed: None does nothing. Quarantines a device whose process cannot be killed. Withdraws the launch's result if
        other processes used the device (without --allow-busy), or if the device was throttled and a retry may help.
        Records the launch as gone after its last device.
        """
        if passed is None:
            return
        uuid, launch = passed.device.uuid, passed.gone.live.spec.launch
        staying = self._staying[launch]
        staying.remove(uuid)
        if last := not staying:
            del self._staying[launch]
            self.recorder.left(passed)
        if passed.gone.unkillable:
            self._step(Quarantined(uuid, passed.obstacle))
        live = passed.gone.live
        self._doubt(live, passed.device, last=last)
        measured = self.state.slots[live.next.slot].status is SlotStatus.MEASURED
        if self._budget is not None and measured and last:
            self._budget.finished(live.next.cell, self._lasted_s(live))
        self._block(passed)
        if uuid not in self._waiting:
            self._step(Freed(uuid))

    def beware(self, message: XidSeen | GpuBroken | TooHot) -> None:
        """Quarantine a GPU that is too hot or unusable, and end its launches. Of other errors, only warn.

        An Xid is warned of only the first time that the GPU reports its number. A message about a GPU that is already
        quarantined is only noted.
        """
        hazards = self.failure_context.hazards
        device, news = self._devices[message.uuid], hazards.is_news(message)
        failure = hazards.heard(message)
        if self.state.devices[device.uuid].quarantined:
            return
        if isinstance(message, TooHot):
            self.recorder.too_hot(message)
        if failure is None:
            if news:
                self.tell("warning", f"{device.label}: Xid {hazards.since(device.uuid, message.at_ns)}")
            return
        self._step(Quarantined(device.uuid, failure.message))
        for live in [live for live in self.fleet.live.values() if live.device.uuid == device.uuid]:
            self.carry_out(self.fleet.end(live, failure, self._clock.now()))

    def look_after_the_waiting(self, now: float) -> None:
        """Free GPUs that are cool enough or idle again, and quarantine GPUs that stay busy for too long.

        A hot GPU is freed after 120 s in any case. A GPU that is busy with other processes is quarantined after 600 s.
        If the run stops, free all waiting GPUs. now: seconds of the loop's clock.
        """
        context = self.failure_context
        released = self._waiting.released(now, context.samples, context.foreign.here, stopping=self.state.stopping)
        for uuid, given_up in released:
            if given_up:
                self._step(Quarantined(uuid, given_up))
            self._step(Freed(uuid))

    def obey(self, order: Order) -> None:
        """Carry out an order that follows from a stop request or the time limit: start no more launches, or end all."""
        now = self._clock.now()
        match order:
            case Order.BEGIN_NOTHING:
                self._step(StopRequested())
                text = "stopping: no new cells start, running ones end within 20 s (Ctrl-C again ends them now)"
                self.tell("warning", text)
            case Order.END_GENTLY:
                self.carry_out(
                    self.fleet.stop(stopping.stop_requested(), now, immediately=False, grace_s=GENTLE_GRACE_S)
                )
            case Order.KILL:
                self.tell("warning", "stopping now: running cells are killed")
                self.carry_out(self.fleet.stop(stopping.stop_requested(), now, immediately=True, grace_s=0))
            case Order.TIME_IS_UP:
                assert self._budget is not None
                self._budget.ran_out(time.monotonic())
                self.carry_out(self.fleet.stop(stopping.out_of_time(), now, immediately=True, grace_s=0))
                self._keep_to_the_budget()

    def show(self, note: str, over_by: float = math.inf) -> None:
        """Show the state of the run. note: what idle devices wait for, or "".

        over_by: monotonic time (s) by which a stop or the time limit has ended all launches; infinity without either.
        """
        now = time.monotonic()
        limited = None if self._budget is None else self._budget.time(now)
        stops_s = None if over_by == math.inf else over_by - now
        samples = self.failure_context.samples
        self._announcer.show(self.state, self.fleet.live, samples, limited=limited, stops_s=stops_s, note=note)

    def _launch(self, following: NextLaunch) -> None:
        self.recorder.started(following)
        self._step(Started(following.launch, following.slot, following.device, following.cell.batch_size))
        self._staying[following.launch] = set(following.cell.devices)
        self.carry_out(self.fleet.request(following, self._clock.now()))
        self.show("")

    def _end_what_takes_too_long(self) -> None:
        now = time.monotonic()
        for live in tuple(self.fleet.live.values()):
            began = now - self._lasted_s(live)
            if self._budget is not None and self._budget.takes_too_long(self.state, live.next.slot, began, now):
                self.carry_out(self.fleet.end(live, stopping.out_of_time(), self._clock.now(), immediately=True))

    def _lasted_s(self, live: Live) -> float:
        return self._clock.now() - live.begun

    def _keep_to_the_budget(self) -> None:
        if self._budget is None:
            return
        for slot, reason in self._budget.decide(self.state, time.monotonic()):
            if reason:
                self.recorder.dropped(slot, reason)
            self._step(Dropped(slot) if reason else Postponed(slot))

    def _record(self, live: Live, outcome: Result | Failure) -> End:
        if isinstance(outcome, Result):
            outcome = self._halted(live, outcome) or outcome
        if isinstance(outcome, Failure):
            self.recorder.require_room()
            outcome = self.failure_context.as_read(outcome, live)
        end = self.recorder.ended(live, outcome)
        if self._budget is not None and isinstance(outcome, Result):
            self._budget.measured(outcome)
        why = "" if end.failure is None else end.failure.message
        self._step(Ended(live.spec.launch, end.failure, end.figures), why)
        if isinstance(outcome, Result):
            self._results[live.spec.launch] = outcome
        self._announcer.ended(self.state, live, outcome, self._lasted_s(live))
        return end

    def _halted(self, live: Live, result: Result) -> Failure | None:
        if self._works_around_pauses:
            return None
        stopped = [
            rank for rank, sibling in enumerate(live.siblings) if sibling.pid and process_end.was_stopped(sibling.pid)
        ]
        message = pauses.describe(self._clock.pauses, live.measuring, result.worked)
        if stopped:
            message = f"its process was stopped by a signal ({live.siblings[stopped[0]].device.label})"
        if not message:
            return None
        failure = Failure(category=Category.HALTED, message=message, phase=Phase.MEASURE)
        return gang.halted([sibling.ending() for sibling in live.siblings], failure, stopped[0] if stopped else None)

    def _doubt(self, live: Live, device: Device, *, last: bool) -> None:
        """Withdraw a result if others used `device`, or if `device` was throttled and a retry may help.

        live: process of the launch whose result it is. With --allow-busy, use by others is only recorded. Throttling is
        ignored in a run with a time limit, while the run stops, and on a quarantined device. last: whether `device` is
        the last device of the launch to become free, so that its result will not be needed again.
        """
        result = self._results.get(live.spec.launch)
        if result is None:
            return
        if last:
            del self._results[live.spec.launch]
        if others := self.failure_context.foreign.during(device.uuid, live.spec.requested_ns):
            if self.failure_context.shares:
                self.recorder.beside(live, others)
            else:
                self._withdraw(live, device, validity.contaminated(others))
                return
        if self.state.stopping or self._budget is not None or self.state.devices[device.uuid].quarantined:
            return
        readings = self._launch_telemetry.readings(device, result)
        failure = validity.judge(readings)
        if failure is None or not transitions.worth_repeating(self.state, live.spec.launch, failure.category):
            return
        self._waiting.rest(device.uuid, readings.temperature_max_c, self._clock.now(), time.monotonic_ns())
        self._withdraw(live, device, failure)

    def _withdraw(self, live: Live, device: Device, failure: Failure) -> None:
        self._results.pop(live.spec.launch, None)
        self.recorder.ended(live, failure)
        self._step(Withdrawn(live.spec.launch, failure))
        again = self.state.slots[live.next.slot].status is SlotStatus.WAITING
        rests = "The device rests, then the cell" if device.uuid in self._waiting else "The cell"
        then = f"{rests} is measured again." if again else "No more attempts."
        fields = {"cell_id": live.next.planned, "category": failure.category, "again": again}
        message = f"{device.label}: {live.next.cell.id}: {failure.message}. {then}"
        self.tell("warning", message, "result_withdrawn", **fields)

    def _block(self, passed: Passed) -> None:
        uuid = passed.device.uuid
        others = self.failure_context.foreign.here(uuid)
        out = self.state.stopping or self.state.devices[uuid].quarantined or (others and self.failure_context.shares)
        if out or not (others or passed.obstacle):
            return
        self._waiting.block(uuid, self.gates.limit_bytes(uuid), self._clock.now())
        why = f"{others} uses it" if others else passed.obstacle
        self.tell("warning", f"{passed.device.label} waits for up to {blocked_gpus.PATIENCE_S:.0f} s: {why}.")

    def _step(self, event: Event, why: str = "") -> None:
        before, self.state = self.state, transitions.step(self.state, event)
        for uuid, device in self.state.devices.items():
            if device.quarantined and not before.devices[uuid].quarantined:
                self.recorder.quarantined(uuid, device.quarantined)
                self.tell("error", f"{self._devices[uuid].label} is quarantined: {device.quarantined}")
        for scope in self.state.skipped.keys() - before.skipped.keys():
            self._skipped(scope, why)
        if self.state.most < before.most:
            self.tell(
                "warning", f"the host ran out of memory. From now on, at most {self.state.most} launches run at once"
            )

    def _skipped(self, scope: str, why: str) -> None:
        skip = self.state.skipped[scope]
        where = " and ".join(self._devices[uuid].label for uuid in skip.devices)
        reason = f"{skip.category} ({where})" + (f": {why}" if why else "")
        self.recorder.skipped(skip, reason)
        self.tell("warning", f"{scope} is skipped on every device: {reason}")
