"""The event loop of a run: one poller over sockets, processes and signals.

workers ══ link ══▶ ┐                          ┌▶ fleet (lifecycle) ─▶ Concluded ─▶ result file, journal, Ack
zygote ─ Forked ──▶ ├─ poll ─▶ events ─────────┤                        Gone ─▶ gates ─▶ device free again
pidfds ─ died ────▶ │  (sleeps until the next  └▶ transitions.step ─▶ next_launches ─▶ journal Start ─▶ fork
sampler ─ free ───▶ │   event or deadline)
signals ─ stop ───▶ ┘
"""

import time
from typing import Final

import zmq

from orchestrator.config.run_configuration import Isolation
from orchestrator.engine.conductor import Conductor
from orchestrator.engine.display_events import Notice
from orchestrator.engine.launches.link import LinkError
from orchestrator.engine.launches.zygote_client import ZygoteError
from orchestrator.engine.loop_clock import LoopClock
from orchestrator.engine.run_context import RunContext
from orchestrator.engine.wall_clock import WallClock
from orchestrator.figures.report import pauses_in_words
from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.state.slots import RunState
from orchestrator.state.stopping import Order, Stopping
from orchestrator.system import process_end
from protocol import messages
from protocol.cell import Workload
from protocol.errors import ProtocolError
from protocol.failure import Category

REFRESH_S: Final = 1.0
LOOK_S: Final = 0.1
"""Seconds between checks of the size of log files while launches run: endless output takes gigabytes in a second."""
IMPORTING: Final = Notice(
    level="info", message="importing torch and the models, once for all launches (about 10 s)", event="importing"
)
"""Shown because a log shows nothing else during the import, which took 12 s on two cores."""


class Loop:
    """Works on a run from the state `begun` on, until all launches are settled, or a stop or time limit ended them."""

    def __init__(self, around: RunContext, begun: RunState) -> None:
        self._around = around
        self._nursery = around.nursery
        self._forks = around.stored.configuration.isolation is Isolation.FORK
        self._clock = LoopClock()
        self._refreshed = self._clock.now()
        self._wall = WallClock(time.time(), time.monotonic())
        self._stopping = Stopping() if around.budget is None else Stopping(around.budget.ends)
        self._hopeless: ZygoteError | LinkError | None = None
        self._poller = zmq.Poller()
        self._conductor = Conductor(around, begun, self._poller, self._clock)
        self._fleet = self._conductor.fleet

    @property
    def state(self) -> RunState:
        """Current state of the run."""
        return self._conductor.state

    def run(self) -> None:
        """Work until nothing is left to do. Call it once. `state` then says whether launches remain.

        Raises StorageError if a file cannot be written; ZygoteError or LinkError if no worker can be started any more;
        RunFolderError if a file of the run is damaged.
        """
        self._watch(self._around.link.socket)
        self._watch(self._around.stop_signals.fileno())
        if self._around.telemetry is not None:
            self._watch(self._around.telemetry.fileno())
        for gpu in self._around.gone:
            self._conductor.beware(gpu)
        self._heed_signals()
        self._work()
        while self._hopeless is None and self._add_launches():
            self._work()
        self._show()
        if self._hopeless is not None:
            raise self._hopeless

    def _work(self) -> None:
        self._conductor.begin_rounds()  # a resumed run may have finished its plan
        if self._forks and self._conductor.work_left and self._nursery.pid is None:
            self._start_zygote()
        while self._launch_what_can_be() or self._conductor.busy or self._waiting_for_zygote():
            ready = self._poll()
            self._look_at_our_clock()
            self._handle(ready)
            self._tick()

    def _add_launches(self) -> bool:
        look = self._conductor.in_doubt()
        if not look.doubts:
            return False
        self._clock.worked()  # reading takes seconds in a large run
        self._handle(self._poll(waits=False))
        self._tick()
        return self._hopeless is None and self._conductor.add_launches(look)

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _poll(self, *, waits: bool = True) -> frozenset[object]:
        look = LOOK_S if self._fleet.live else REFRESH_S
        now = self._clock.now()
        until = min(self._fleet.next_deadline(), now + look, self._refreshed + REFRESH_S)
        timeout_ms = int(max(0.0, until - now) * 1000) + 1 if waits else 0
        return frozenset(ready for ready, _ in self._poller.poll(timeout_ms))

    def _handle(self, ready: frozenset[object]) -> None:
        """Handle ready sockets and descriptors: messages before deaths, because a worker's last message counts."""
        if self._around.link.socket in ready:
            self._read_link()
        if self._nursery.fileno() in ready:
            self._read_zygote()
        telemetry = self._conductor.telemetry
        if telemetry is not None and telemetry.fileno() in ready:
            self._read_telemetry(telemetry)
        for live in tuple(self._fleet.live.values()):
            if live.pidfd is not None and live.pidfd in ready:
                self._unwatch(live.pidfd)
                self._conductor.carry_out(self._fleet.died(live.pidfd, self._clock.now()))
        if self._around.stop_signals.fileno() in ready:
            self._around.stop_signals.clear()
        self._heed_signals()

    def _read_link(self) -> None:
        while (message := self._around.link.receive()) is not None:
            if isinstance(message, ProtocolError):
                self._conductor.tell("warning", f"a message was dropped: {message}")
            else:
                self._conductor.carry_out(self._fleet.hear(message, self._clock.now()))

    def _read_zygote(self) -> None:
        fd = self._nursery.fileno()
        try:
            for answer in self._nursery.receive():
                now = self._clock.now()
                match answer:
                    case messages.Ready():
                        self._greet_zygote(answer)
                    case messages.Forked(token=token, pid=pid):
                        self._conductor.carry_out(self._fleet.born(token, pid, now))
                    case messages.ForkFailed(token=token, message=message):
                        self._conductor.carry_out(self._fleet.not_born(token, Category.START_FAILED, message, now))
        except EOFError:
            self._unwatch(fd)
            self._replace_zygote()

    def _read_telemetry(self, telemetry: Telemetry) -> None:
        try:
            for message in telemetry.receive():
                match message:
                    case messages.Digest(samples=samples):
                        self._conductor.failure_context.samples.update(samples)
                    case messages.DeviceFree():
                        self._conductor.let_pass(self._conductor.gates.answered(message))
                    case messages.ForeignSeen():
                        self._conductor.recorder.foreign_seen(message)
                        self._conductor.failure_context.foreign.heard(message)
                    case messages.XidSeen() | messages.GpuBroken() | messages.TooHot():
                        self._conductor.beware(message)
                    case messages.Unavailable(reason=reason):
                        self._conductor.tell("warning", f"no GPU readings: {reason}")
        except EOFError:
            self._unwatch(telemetry.fileno())
            self._conductor.recorder.telemetry_ended()
            telemetry.stop()
            self._conductor.telemetry = None
            self._conductor.failure_context.samples.clear()
            self._conductor.failure_context.foreign.unseen(time.monotonic_ns())
            self._conductor.tell(
                "warning",
                "the telemetry process ended. Measurements continue without GPU readings, and without waiting for "
                "other processes on the GPUs",
            )
            for passed in self._conductor.gates.open_all():
                self._conductor.let_pass(passed)

    def _heed_signals(self) -> None:
        for order in self._stopping.heed(self._around.stop_signals.requests, time.monotonic()):
            if order in (Order.BEGIN_NOTHING, Order.KILL):
                self._conductor.recorder.stop_requested()
            self._conductor.obey(order)

    def _tick(self) -> None:
        now, wanted = self._clock.now(), time.monotonic()
        self._conductor.carry_out(self._fleet.time_passed(now))
        self._nursery.kill_if_stuck(now, self._fleet.oldest_request())
        self._fleet.hold_logs()
        gates = self._conductor.gates
        if silent := gates.overdue(now):
            self._conductor.recorder.telemetry_ended()
        for passed in [*silent, *(gates.open_all() if wanted >= self._stopping.over_by else ())]:
            self._conductor.let_pass(passed)
        self._conductor.look_after_the_waiting(now)
        for order in () if self._end_is_open() else self._stopping.time_passed(wanted):
            self._conductor.obey(order)
        if now >= self._refreshed + REFRESH_S:
            self._refreshed = now
            self._nursery.hold_log()
            self._reap_orphans()
            self._look_at_the_wall_clock()
            self._show()

    def _launch_what_can_be(self) -> bool:
        self._look_after_the_link()
        may_begin = self._hopeless is None and (self._nursery.ready or not self._forks)
        return may_begin and self._conductor.launch_what_is_due()

    def _look_after_the_link(self) -> None:
        if self._hopeless is not None:
            return
        link = self._around.link
        endpoint = link.endpoint
        try:
            problem = link.restore()
        except LinkError as error:
            self._hopeless = error
            problem = str(error)
        if problem:
            self._conductor.tell("warning", problem)
        if self._hopeless or link.endpoint != endpoint:
            self._conductor.carry_out(self._fleet.unreachable(problem, self._clock.now()))

    # ── the zygote ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_zygote(self) -> None:
        if any(cell.workload is not Workload.FAULT for cell in self._around.stored.plan.cells):
            self._around.display.tell(IMPORTING)
        try:
            self._nursery.start(self._clock.now())
        except ZygoteError as error:
            self._hopeless = error
            return
        self._watch(self._nursery.fileno())
        self._show()

    def _greet_zygote(self, ready: messages.Ready) -> None:
        self._conductor.recorder.zygote_started(self._nursery.start_ms, ready.failed)
        if self._around.budget is not None:
            self._stopping.put_off(self._around.budget.first_launch_can_begin(time.monotonic()))
        if ready.threads != 1:
            self._conductor.tell("warning", f"the zygote has {ready.threads} threads, so its forks may hang")
        for module, error in ready.failed.items():
            self._conductor.tell("warning", f"{module} cannot be imported, so its models will fail: {error}")

    def _replace_zygote(self) -> None:
        """Start another zygote after one died. Launches whose fork was not answered fail with ZYGOTE_DIED."""
        try:
            end = self._nursery.bury()
        except ZygoteError as error:
            self._hopeless = error
            end = "ended"
        self._conductor.tell("warning", f"the zygote {end}{'' if self._hopeless else ' and is restarted'}")
        for token in self._fleet.requested():
            lost = self._fleet.not_born(token, Category.ZYGOTE_DIED, f"the zygote {end}", self._clock.now())
            self._conductor.carry_out(lost)
        if self._conductor.work_left and self._hopeless is None:
            self._start_zygote()

    def _waiting_for_zygote(self) -> bool:
        return self._forks and not self._nursery.ready and self._nursery.pid is not None and self._conductor.work_left

    def _end_is_open(self) -> bool:
        budget = self._around.budget
        return budget is not None and budget.is_starting and self._waiting_for_zygote()

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reap_orphans(self) -> None:
        """Reap adopted grandchildren, but not during a fork: the PID of the new worker is not known yet."""
        if self._fleet.requested():
            return
        known = {live.pid for live in self._fleet.live.values()} | {self._nursery.pid}
        known.add(None if self._around.telemetry is None else self._around.telemetry.pid)
        while process_end.reap_orphan(known) is not None:
            pass

    def _look_at_our_clock(self) -> None:
        if by_s := self._clock.suspended_s():
            self._conductor.recorder.suspended(by_s)
            self._conductor.tell("warning", pauses_in_words((by_s,)), "suspended", seconds=by_s)
            self._clock.worked()  # a slow disk may delay the record

    def _look_at_the_wall_clock(self) -> None:
        wall = time.time()
        if by_s := self._wall.jumped(wall, time.monotonic()):
            self._conductor.recorder.clock_set(wall, by_s)
            self._conductor.tell("warning", f"the clock of the host jumped by {by_s:+,.0f} s. Deadlines do not use it")

    def _show(self) -> None:
        note = "loading the frameworks" if self._waiting_for_zygote() else ""
        self._conductor.show(note, self._stopping.over_by)

    def _watch(self, thing: object) -> None:
        self._poller.register(thing, zmq.POLLIN)

    def _unwatch(self, thing: object) -> None:
        self._poller.unregister(thing)
