"""The processes of running launches (measurements): their start, messages and ends.

A launch has one process for each device. These processes end together. gang.py decides the outcome of the launch,
lifecycle.py what each process does next. The loop gets the outcome of each launch once, and the end of each process.
"""

import contextlib
import os
import resource
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import structs

import protocol
from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.engine.kind import Kind, LaunchTerms
from orchestrator.engine.launches import gang, lifecycle, process_failures, rendezvous
from orchestrator.engine.launches.link import Link
from orchestrator.engine.launches.live import Concluded, Gone, Happening, Live
from orchestrator.errors import StorageError
from orchestrator.plan import preload
from orchestrator.state.slots import NextLaunch
from orchestrator.system import cgroups, host, log_files, process_end, process_start
from orchestrator.system.process_end import Exit
from protocol.cell import Device, DeviceKind
from protocol.failure import Category, Failure, Phase
from protocol.messages import Ack, Dismiss, FromWorker, Hello, LaunchSpec, Outcome, PhaseEntered, Progress
from protocol.paths import RunPaths


class Fleet:
    """The processes of all running launches. live: secret token → process that is not gone yet.

    Methods yield outcomes of launches and ends of processes, and act only while they are iterated. now: seconds of the
    loop's clock (loop_clock.py). fork: requests a process, or raises OSError.
    """

    def __init__(
        self, stored: StoredRun, kind: Kind, paths: RunPaths, link: Link, fork: Callable[[LaunchSpec], None]
    ) -> None:
        self.live: dict[str, Live] = {}
        self._stored = stored
        self._configuration = stored.configuration
        self._devices = {device.uuid: device for device in stored.devices}
        self._paths = paths
        self._logs = log_files.RunLogs(paths)
        self._link = link
        self._fork = fork
        self._launch_terms = kind.launch_terms
        cache = Path(self._configuration.cache_folder)
        self._environment = process_start.environment_of_workers(cache, kind.worker_environment(stored.configuration))
        self._anew = stored.configuration.isolation is Isolation.EXEC

    def request(self, following: NextLaunch, now: float) -> Iterator[Happening]:
        """Start the processes of a launch that is in the journal. Raises StorageError if its folder cannot be made."""
        siblings = tuple(self._prepare(following, rank, now) for rank in range(len(following.cell.devices)))
        for live in siblings:
            live.siblings = siblings
            self.live[live.spec.token] = live
        for live in siblings:
            if live.spec.token in self.live:  # unless it was given up with an earlier sibling
                yield from self._ask_for(live, now)

    def _ask_for(self, live: Live, now: float) -> Iterator[Happening]:
        try:
            if self._anew:
                yield from self.born(live.spec.token, self._start(live), now)
            else:
                self._fork(live.spec)
        except OSError as error:
            yield from self.not_born(live.spec.token, Category.START_FAILED, str(error), now)

    def _start(self, live: Live) -> int:
        python = self._terms(live.next, live.device).python
        rooms = {"PYTHONPATH": str(process_start.rooms_alone(self._paths.folder))} if python else {}
        return process_start.start_launch(live.spec, {**self._environment, **rooms}, python)

    def born(self, token: str, pid: int, now: float) -> Iterator[Happening]:
        """Note the PID of a process. Do nothing for an unknown token, or if the PID is known."""
        live = self.live.get(token)
        if live is None or live.pid is not None:
            return
        live.pid = pid
        live.pidfd = os.pidfd_open(pid)
        yield from self._apply(live, lifecycle.Born(), now)

    def not_born(self, token: str, category: Category, message: str, now: float) -> Iterator[Happening]:
        """Fail the launch of a requested process that will never exist. Do nothing for an unknown token."""
        if (live := self.live.get(token)) is not None:
            failure = Failure(category=category, message=message, phase=live.launch.phase)
            yield from self._apply(live, lifecycle.NotBorn(failure), now)

    def requested(self) -> tuple[str, ...]:
        """Return the tokens of requested processes that do not exist yet."""
        return tuple(token for token, live in self.live.items() if live.pid is None)

    def hear(self, message: FromWorker, now: float) -> Iterator[Happening]:
        """Handle a worker's message, unless its token is unknown or belongs to another launch than the message names.

        In that case a Hello is answered with Dismiss, and other messages are ignored. now: seconds of the loop's clock.
        """
        live = self.live.get(message.token)
        if live is None or message.launch != live.spec.launch:
            if isinstance(message, Hello):
                self._link.send(message.token, Dismiss(launch=message.launch, reason="this launch is not expected"))
            return
        match message:
            case Hello():
                yield from self._greet(live, message, now)
            case PhaseEntered(phase=phase, at_ns=at_ns):
                live.entered[phase] = at_ns
                if phase is Phase.WARM_UP and live.pid is not None:
                    process_end.was_stopped(live.pid)  # clear stops before the measurement: they do no harm
                yield from self._apply(live, lifecycle.Entered(phase), now)
            case Progress(fraction=fraction):
                yield from self._apply(live, lifecycle.Progressed(fraction), now)
            case Outcome(result=result, failure=failure):
                outcome = result or failure or _empty_outcome(live)
                yield from self._apply(live, lifecycle.Reported(outcome), now)

    def died(self, pidfd: int, now: float) -> Iterator[Happening]:
        """Kill the rest of a dead process's group, reap it and close its pidfd. Yield what follows from its death.

        That may be nothing, or the outcome of the launch and the end of the process. Nothing is done before the
        iterator is used, so iterate to the end. now: seconds of the loop's clock.
        """
        live = next(live for live in self.live.values() if live.pidfd == pidfd)
        assert live.pid is not None
        process_end.signal_group(live.pid, signal.SIGKILL)
        exit_ = process_end.reap(live.pid)
        os.close(pidfd)
        live.pidfd = None
        yield from self._apply(live, lifecycle.Died(exit_ or Exit(code=None, signal=None)), now)

    def time_passed(self, now: float) -> Iterator[Happening]:
        """Act on every process whose deadline has passed, by its state.

        At work: send SIGTERM, then SIGKILL. Alive after SIGKILL: give it up as unkillable. Not made yet: fail its
        launch. Dead: stop waiting for its last message. Failed: stop waiting for the cause of its failure.
        """
        for live in tuple(self.live.values()):
            yield from self._apply(live, lifecycle.TimePassed(), now)

    def end(self, live: Live, failure: Failure, now: float, *, immediately: bool = False) -> Iterator[Happening]:
        """End the process `live` because of `failure`: SIGTERM, later SIGKILL; only SIGKILL if `immediately`.

        If this process has no result, this also ends those other processes of its launch that have no outcome yet.
        """
        yield from self._apply(live, lifecycle.Stop(failure, immediately), now)

    def stop(self, failure: Failure, now: float, *, immediately: bool, grace_s: float) -> Iterator[Happening]:
        """End all processes because of `failure`: SIGTERM, SIGKILL `grace_s` s later; only SIGKILL if `immediately`.

        A process that already got SIGTERM gets SIGKILL now. If it got SIGTERM because another one failed, it gets
        SIGKILL only if `immediately`.
        """
        for live in tuple(self.live.values()):
            if (
                immediately or not live.because_of_another
            ):  # it got SIGTERM with its sibling: a second one would kill it
                yield from self._apply(live, lifecycle.Stop(failure, immediately, grace_s), now)

    def unreachable(self, reason: str, now: float) -> Iterator[Happening]:
        """Kill processes that have not connected yet, because the socket is gone. reason: message of the failure."""
        for live in tuple(self.live.values()):
            if live.launch.status in (lifecycle.Status.REQUESTED, lifecycle.Status.BORN):
                failure = Failure(category=Category.START_FAILED, message=reason, phase=Phase.START)
                yield from self._apply(live, lifecycle.Stop(failure, now=True), now)

    def oldest_request(self) -> float:
        """Return when the oldest process without a PID was requested (loop's clock); infinity if each has a PID."""
        return min((live.begun for live in self.live.values() if live.pid is None), default=float("inf"))

    def hold_logs(self) -> None:
        """Free disk space: punch a hole into each log of a running launch that takes over 8 MiB on disk.

        The first MiB and the last 3 MiB stay. The hole reads as NUL bytes, and no text in the log marks it.
        """
        for live in self.live.values():
            log_files.hold_below_cap(live.paths.stdout)
            log_files.hold_below_cap(live.paths.stderr)

    def acknowledge(self, live: Live, over_ns: int) -> None:
        """Send Ack to a launch's processes, so that they end. over_ns: monotonic time when the outcome was on disk."""
        for sibling in live.siblings:
            sibling.over_ns = over_ns
            if sibling.pidfd is not None:
                self._link.send(sibling.spec.token, Ack(launch=sibling.spec.launch, token=sibling.spec.token))

    def next_deadline(self) -> float:
        """Return the earliest deadline of a process, in seconds of the loop's clock; infinity if there is none."""
        return min((live.launch.deadline for live in self.live.values()), default=float("inf"))

    def _terms(self, following: NextLaunch, device: Device) -> LaunchTerms:
        return self._launch_terms(self._configuration, device, following.slot, following.cell)

    def _prepare(self, following: NextLaunch, rank: int, now: float) -> Live:
        device = self._devices[following.cell.devices[rank]]
        paths = self._paths.launch(following.planned, following.attempt)
        folder = paths.of_rank(rank).folder
        place = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if len(following.cell.devices) > 1:
                place = rendezvous.place(self._link.folder, paths, following, rank)
        except OSError as error:
            raise StorageError(f"{folder}: cannot be made: {error.strerror}") from error
        visible = device.uuid if device.kind is DeviceKind.CUDA else ""
        spec = LaunchSpec(
            launch=following.launch,
            token=secrets.token_hex(16),
            endpoint=self._link.endpoint,
            parent_pid=os.getpid(),
            folder=str(folder.resolve()),
            environment={"CUDA_VISIBLE_DEVICES": visible},
            cpus=device.cpus,
            isolation=str(self._configuration.isolation),
            requested_ns=time.monotonic_ns(),
            root=str(process_start.rooms_root()),
            preload=preload.modules(self._stored, (following.cell,)) if self._anew else (),
        )
        terms = self._terms(following, device)
        patience = terms.deadlines
        if self._anew:
            patience = structs.replace(patience, start=patience.start + patience.import_)
        launch = lifecycle.requested(patience, terms.measurement, now)
        return Live(
            next=following,
            device=device,
            spec=spec,
            launch=launch,
            begun=now,
            oom_kills=cgroups.oom_kills(),
            gang=place,
        )

    def _greet(self, live: Live, hello: Hello, now: float) -> Iterator[Happening]:
        yield from self.born(hello.token, hello.pid, now)
        if hello.version == protocol.VERSION and hello.root == live.spec.root:
            yield from self._apply(live, lifecycle.Greeted(), now)
            return
        failure = Failure(
            category=Category.PROTOCOL,
            message=f"the worker has protocol version {hello.version} and is in {hello.root}; "
            f"expected version {protocol.VERSION} in {live.spec.root}",
            phase=live.launch.phase,
        )
        yield from self._apply(live, lifecycle.Stop(failure, now=True), now)

    def _apply(self, live: Live, event: lifecycle.Event, now: float) -> Iterator[Happening]:
        if isinstance(event, lifecycle.Died | lifecycle.Reported) and live.outcome_at is None:
            live.outcome_at = now
        live.launch, actions = lifecycle.advance(live.launch, event, now)
        for action in actions:
            match action:
                case lifecycle.Assign():
                    terms = self._terms(live.next, live.device)
                    self._link.send(live.spec.token, live.assignment(self._configuration, terms))
                case lifecycle.Terminate():
                    assert live.pid is not None
                    live.state = host.process_state(live.pid)
                    # In this order: a stopped process must not continue into an overdue dump of its stacks.
                    process_end.signal_quietly(live.pid, signal.SIGTERM)
                    process_end.signal_quietly(live.pid, signal.SIGCONT)
                case lifecycle.Kill():
                    assert live.pid is not None
                    process_end.signal_group(live.pid, signal.SIGKILL)
                case lifecycle.Conclude(outcome):
                    live.outcome = outcome if outcome is not None else self._explain(live)
                    live.outcome_at = live.outcome_at or now
                    yield from self._conclude(live)
                case lifecycle.Forget(unkillable):
                    yield self._forget(live, unkillable=unkillable)
        if live.fails:
            yield from self._end_siblings(live, event, now)

    def _end_siblings(self, live: Live, event: lifecycle.Event, now: float) -> Iterator[Happening]:
        """Stop the other processes of the launch of `live`, which failed or is being ended: they would hang without it.

        event: event of `live` that caused this. A Stop is passed on. Otherwise they are stopped with the failure of
        `live`. Processes that have an outcome, or are being ended, are left alone.
        """
        failure = live.outcome if isinstance(live.outcome, Failure) else live.launch.cause
        assert failure is not None
        stop = event if isinstance(event, lifecycle.Stop) else lifecycle.Stop(failure)
        for sibling in live.siblings:
            if sibling.outcome is None and not sibling.fails:
                sibling.because_of_another = not sibling.is_draining
                yield from self._apply(sibling, stop, now)

    @staticmethod
    def _conclude(live: Live) -> Iterator[Happening]:
        if all(sibling.outcome is not None for sibling in live.siblings):
            rank, outcome = gang.judged([sibling.ending() for sibling in live.siblings])
            yield Concluded(live.siblings[rank], outcome)

    def _explain(self, live: Live) -> Failure:
        kills = cgroups.oom_kills()
        rose = kills is not None and live.oom_kills is not None and kills > live.oom_kills
        limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_DATA, resource.RLIMIT_AS))
        return process_failures.ended(
            live.launch.exit,
            # The phase in its file, or else the last that it reported.
            log_files.phase_reached(live.paths.phase, live.launch.phase),
            host_oom_kills=rose,
            memory_limited=any(limit != resource.RLIM_INFINITY for limit in limits),
            stderr_tail=log_files.tail(live.paths.stderr),
        )

    def _forget(self, live: Live, *, unkillable: bool) -> Gone:
        del self.live[live.spec.token]
        self._logs.compact(live.paths.stdout)
        self._logs.compact(live.paths.stderr)
        with contextlib.suppress(OSError):  # left only by a killed writer or a full disk
            live.paths.unfinished_error.unlink()
        return Gone(live, live.launch.exit, unkillable)


def _empty_outcome(live: Live) -> Failure:
    return Failure(
        category=Category.PROTOCOL, message="its outcome is neither a result nor a failure", phase=live.launch.phase
    )
