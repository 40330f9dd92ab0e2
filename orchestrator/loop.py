"""The loop that ties everything: one poller over sockets, processes and signals.

    workers ══ link ══▶ ┐                          ┌▶ fleet (launches.advance) ─▶ Concluded ─▶ result file, journal, Ack
    zygote ─ Forked ──▶ ├─ poll ─▶ events ─────────┤                              Gone ─▶ gates ─▶ device free again
    pidfds ─ died ────▶ │  (sleeps until the next  └▶ state.step ─▶ next_launches ─▶ journal Start ─▶ fork
    sampler ─ free ───▶ │   event or deadline)
    signals ─ stop ───▶ ┘

It decides nothing: launches.py, state.py and policy.py do.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import zmq

from orchestrator import host, progress, spawn, state
from orchestrator.configuration import Isolation, StoredRun
from orchestrator.fleet import Concluded, Fleet, Gone, Happening, Live
from orchestrator.gates import Gates, Passed
from orchestrator.journal import Journal, write_durably
from orchestrator.link import Link
from orchestrator.nursery import Nursery, ZygoteError
from orchestrator.records import End, Left, Spawned, Start, TakenOut, ZygoteStarted
from orchestrator.signals import StopSignals
from orchestrator.state import NextLaunch, RunState
from orchestrator.telemetry import Telemetry
from orchestrator.view import Display, Notice
from protocol import codec
from protocol.errors import ProtocolError
from protocol.failure import Category, Failure, Phase
from protocol.messages import DeviceFree, Digest, Forked, ForkFailed, Ready, Sample, Unavailable
from protocol.paths import RunPaths
from protocol.result import Result

REFRESH_S: Final = 1.0
LOOK_S: Final = 0.1
"""How often log files are looked at while launches run: an endless write takes gigabytes in a second."""
GENTLE_S: Final = 12.0
"""A gentle stop lets launches end by themselves for this long; with the grace below it ends within 20 s."""
GENTLE_GRACE_S: Final = 4.0


@dataclass(frozen=True)
class Surroundings:
    """What the loop works with, opened and closed by run.py."""

    stored: StoredRun
    paths: RunPaths
    journal: Journal
    link: Link
    nursery: Nursery
    telemetry: Telemetry | None
    stop_signals: StopSignals
    display: Display


class Loop:
    """Works on a run until every slot is settled, or a person asks to stop."""

    def __init__(self, around: Surroundings, begun: RunState) -> None:
        self.state = begun
        self._around = around
        self._journal = around.journal
        self._nursery = around.nursery
        self._telemetry = around.telemetry
        self._devices = {device.uuid: device for device in around.stored.devices}
        self._fleet = Fleet(
            around.stored.configuration, around.stored.devices, around.paths, around.link, around.nursery.fork
        )
        self._gates = Gates(around.stored.devices)
        self._forks = around.stored.configuration.isolation is Isolation.FORK
        self._samples: dict[str, Sample] = {}
        self._durations: dict[str, list[float]] = {}
        self._began = self._refreshed = time.monotonic()
        self._stops_heeded = 0
        self._gentle_until = self._stop_by = float("inf")
        self._hopeless: ZygoteError | None = None
        self._poller = zmq.Poller()

    def run(self) -> None:
        """Work until there is nothing left to do.

        Raises StorageError when results can no longer be kept, ZygoteError when nothing can be started.
        """
        self._watch(self._around.link.socket)
        self._watch(self._around.stop_signals.fileno())
        if self._telemetry is not None:
            self._watch(self._telemetry.fileno())
        if self._forks and self._work_left():
            self._start_zygote()
        while self._launch_what_can_be() or self._fleet.live or self._gates or self._waiting_for_zygote():
            self._handle(self._poll())
            self._tick()
        self._show()
        if self._hopeless is not None:
            raise self._hopeless

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _poll(self) -> frozenset[object]:
        """Wait for something to happen; what is ready, sockets and descriptors."""
        look = LOOK_S if self._fleet.live else REFRESH_S
        until = min(self._fleet.next_deadline(), time.monotonic() + look, self._refreshed + REFRESH_S)
        timeout_ms = int(max(0.0, until - time.monotonic()) * 1000) + 1
        return frozenset(ready for ready, _ in self._poller.poll(timeout_ms))

    def _handle(self, ready: frozenset[object]) -> None:
        """Messages come before deaths: a worker's last words count."""
        if self._around.link.socket in ready:
            self._read_link()
        if self._nursery.fileno() in ready:
            self._read_zygote()
        if self._telemetry is not None and self._telemetry.fileno() in ready:
            self._read_telemetry(self._telemetry)
        for live in tuple(self._fleet.live.values()):
            if live.pidfd is not None and live.pidfd in ready:
                self._unwatch(live.pidfd)
                self._carry_out(self._fleet.died(live.pidfd, time.monotonic()))
        if self._around.stop_signals.fileno() in ready:
            self._around.stop_signals.clear()
        self._heed_signals()

    def _read_link(self) -> None:
        while (message := self._around.link.receive()) is not None:
            if isinstance(message, ProtocolError):
                self._tell("warning", f"a message was dropped: {message}")
            else:
                self._carry_out(self._fleet.hear(message, time.monotonic()))

    def _read_zygote(self) -> None:
        fd = self._nursery.fileno()
        try:
            for answer in self._nursery.receive():
                now = time.monotonic()
                match answer:
                    case Ready():
                        self._greet_zygote(answer)
                    case Forked(launch=launch, pid=pid):
                        self._carry_out(self._fleet.born(launch, pid, now))
                    case ForkFailed(launch=launch, message=message):
                        self._carry_out(self._fleet.not_born(launch, Category.START_FAILED, message, now))
        except EOFError:
            self._unwatch(fd)
            self._replace_zygote()

    def _read_telemetry(self, telemetry: Telemetry) -> None:
        try:
            for message in telemetry.receive():
                match message:
                    case Digest(samples=samples):
                        self._samples.update(samples)
                    case DeviceFree():
                        self._pass(self._gates.answered(message))
                    case Unavailable(reason=reason):
                        self._tell("warning", f"no GPU readings: {reason}")
        except EOFError:
            self._unwatch(telemetry.fileno())
            telemetry.stop()
            self._telemetry = None
            self._tell("warning", "the telemetry process ended; GPU readings stop here, the measurements go on")
            for passed in self._gates.open_all():
                self._pass(passed)

    def _heed_signals(self) -> None:
        now = time.monotonic()
        requests = self._around.stop_signals.requests
        if self._stops_heeded < 1 <= requests:
            self._stops_heeded = 1
            self.state = state.step(self.state, state.StopAsked())
            self._gentle_until = now + GENTLE_S
            self._stop_by = now + GENTLE_S + GENTLE_GRACE_S
            self._tell("warning", "stopping: running cells may end, nothing new begins (once more to stop at once)")
        if self._stops_heeded < 2 <= requests:
            self._stops_heeded = 2
            self._stop_by = now
            self._carry_out(self._fleet.stop(_asked_to_stop(), now, immediately=True, grace_s=0))

    def _tick(self) -> None:
        now = time.monotonic()
        self._carry_out(self._fleet.time_passed(now))
        self._nursery.kill_if_stuck(now, self._fleet.oldest_request())
        self._fleet.hold_logs()
        for passed in self._gates.open_all() if now >= self._stop_by else self._gates.overdue(now):
            self._pass(passed)
        if now >= self._gentle_until:
            self._gentle_until = float("inf")
            self._carry_out(self._fleet.stop(_asked_to_stop(), now, immediately=False, grace_s=GENTLE_GRACE_S))
        if now >= self._refreshed + REFRESH_S:
            self._refreshed = now
            self._reap_orphans()
            self._show()

    # ── launches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _launch_what_can_be(self) -> bool:
        """Begin every launch that has its device. Says whether it began any."""
        if self._forks and not self._nursery.ready:
            return False
        self.state, following = state.next_launches(self.state)
        for one in following:
            self._launch(one)
        return bool(following)

    def _launch(self, following: NextLaunch) -> None:
        """The journal knows of a launch before its process exists."""
        batch_size = following.cell.batch_size
        self._journal.append(
            Start(
                launch=following.launch,
                cell=following.planned,
                round=following.slot[1],
                attempt=following.attempt,
                batch_size=batch_size,
                device=following.device,
                at_ns=time.monotonic_ns(),
            )
        )
        started = state.Started(following.launch, following.slot, following.device, batch_size)
        self.state = state.step(self.state, started)
        self._carry_out(self._fleet.request(following, time.monotonic()))
        self._show()

    def _carry_out(self, happenings: Iterable[Happening]) -> None:
        for happening in happenings:
            match happening:
                case Concluded(live, outcome):
                    self._record(live, outcome)
                    self._fleet.acknowledge(live)
                case Gone(live):
                    if live.pidfd is not None:  # it cannot be killed: nobody waits for it any more
                        self._unwatch(live.pidfd)
                        os.close(live.pidfd)
                    self._pass(self._gates.admit(happening, self._telemetry))
        for live in self._fleet.live.values():
            if live.pidfd is not None and not live.noted:
                live.noted = True
                self._watch(live.pidfd)
                self._journal.append(_spawned(live))

    def _record(self, live: Live, outcome: Result | Failure) -> None:
        """Put the outcome where nothing can lose it: a result into its file first, then the journal."""
        at_ns = time.monotonic_ns()
        if isinstance(outcome, Result):
            data = codec.encode(outcome)
            write_durably(live.paths.result, data)
            end = End(launch=live.spec.launch, at_ns=at_ns, result_sha256=hashlib.sha256(data).hexdigest())
        else:
            end = End(launch=live.spec.launch, at_ns=at_ns, failure=outcome)
        self._journal.append(end)
        self.state = state.step(self.state, state.Ended(live.spec.launch, end.failure))
        self._durations.setdefault(live.next.device, []).append(time.monotonic() - live.begun)
        device = self._devices[live.next.device]
        self._around.display.tell(progress.ended(self.state, live, device, outcome))

    def _pass(self, passed: Passed | None) -> None:
        """A launch is over and its device may be used again, or never again."""
        if passed is None:
            return
        exit_ = passed.gone.exit
        self._journal.append(
            Left(
                launch=passed.gone.live.spec.launch,
                exit_code=None if exit_ is None else exit_.code,
                signal=None if exit_ is None else exit_.signal,
                teardown_ms=passed.teardown_ms,
            )
        )
        uuid = passed.device.uuid
        if passed.obstacle:
            self.state = state.step(self.state, state.Quarantined(uuid, passed.obstacle))
            self._journal.append(TakenOut(device=uuid, at_ns=time.monotonic_ns(), reason=passed.obstacle))
            self._tell("error", f"{passed.device.label} is taken out of this run: {passed.obstacle}")
        self.state = state.step(self.state, state.Freed(uuid))

    # ── the zygote ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start_zygote(self) -> None:
        try:
            self._nursery.start()
        except ZygoteError as error:
            self._hopeless = error
            return
        self._watch(self._nursery.fileno())
        self._show()

    def _greet_zygote(self, ready: Ready) -> None:
        self._journal.append(ZygoteStarted(start_ms=self._nursery.start_ms, failed=ready.failed))
        if ready.threads != 1:
            self._tell("warning", f"the zygote has {ready.threads} threads; a fork of it may hang")
        for module, error in ready.failed.items():
            self._tell("warning", f"{module} cannot be imported, its models will fail: {error}")

    def _replace_zygote(self) -> None:
        """Running workers go on; only launches that were being forked are tried again."""
        try:
            exit_ = self._nursery.bury()
        except ZygoteError as error:
            self._hopeless = error
            exit_ = None
        words = "ended" if exit_ is None else f"ended with {exit_.words}"
        self._tell("warning", f"the zygote {words}{'' if self._hopeless else ' and is started again'}")
        for launch in self._fleet.requested():
            lost = self._fleet.not_born(launch, Category.ZYGOTE_DIED, f"the zygote {words}", time.monotonic())
            self._carry_out(lost)
        if self._work_left() and self._hopeless is None:
            self._start_zygote()

    def _waiting_for_zygote(self) -> bool:
        return self._forks and not self._nursery.ready and self._nursery.pid is not None and self._work_left()

    def _work_left(self) -> bool:
        return not self.state.stopping and self.state.settled < len(self.state.slots)

    # ── small things ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _reap_orphans(self) -> None:
        """Grandchildren that came back to us. Not while a fork is under way: its worker is not known yet."""
        if self._fleet.requested():
            return
        known = {live.pid for live in self._fleet.live.values()} | {self._nursery.pid}
        known.add(None if self._around.telemetry is None else self._around.telemetry.pid)
        while spawn.reap_orphan(known) is not None:
            pass

    def _show(self) -> None:
        self._around.display.show(
            progress.snapshot(
                self.state,
                self._around.stored.devices,
                self._fleet.live,
                self._samples,
                elapsed_s=time.monotonic() - self._began,
                launch_s={device: sum(times) / len(times) for device, times in self._durations.items()},
                note="loading the frameworks" if self._waiting_for_zygote() else "",
            )
        )

    def _tell(self, level: str, message: str) -> None:
        self._around.display.tell(Notice(level=level, message=message))

    def _watch(self, thing: object) -> None:
        self._poller.register(thing, zmq.POLLIN)

    def _unwatch(self, thing: object) -> None:
        self._poller.unregister(thing)


def _spawned(live: Live) -> Spawned:
    assert live.pid is not None
    return Spawned(launch=live.spec.launch, pid=live.pid, start_ticks=host.start_ticks(live.pid) or 0)


def _asked_to_stop() -> Failure:
    return Failure(category=Category.STOPPED, message="the run was asked to stop", phase=Phase.MEASURE)
