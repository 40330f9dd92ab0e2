"""Single launches, forked or exec'd, outside of any run, by the orchestrator's own parts: for the benches."""

import select
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import zmq

from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.engine.launches.fleet import Fleet
from orchestrator.engine.launches.link import Link
from orchestrator.engine.launches.live import Concluded, Gone, Happening
from orchestrator.engine.launches.zygote_client import ZygoteClient
from orchestrator.engine.memory_gate import Gates
from orchestrator.gpu import devices, inventory
from orchestrator.gpu.telemetry.client import Telemetry
from orchestrator.gpu.telemetry.samples import read_samples
from orchestrator.kinds import registry
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.plan import preload
from orchestrator.state.slots import NextLaunch
from orchestrator.system import process_start
from protocol.cell import Cell, DeviceKind
from protocol.errors import ProtocolError
from protocol.failure import Failure
from protocol.messages import DeviceFree, Forked, ForkFailed, Sample
from protocol.paths import RunPaths
from protocol.result import Result


@dataclass(frozen=True)
class Timed:
    """A launch: what it measured, and how long it took from the request until its device was free again."""

    result: Result
    wall_ms: float

    @property
    def overhead_ms(self) -> float:
        return self.wall_ms - self.result.ledger.warm_up_ms - self.result.ledger.measure_ms


class Harness:
    def __init__(self, stored: StoredRun, folder: Path, opened: ExitStack, *, telemetry: bool) -> None:
        self._link = opened.enter_context(Link(folder.name))
        deadlines = stored.configuration.deadlines
        patience_s = deadlines.start + deadlines.import_
        ahead, log = preload.modules(stored, stored.plan.cells), folder / "zygote.log"
        environment = process_start.environment_of_workers(Path(stored.configuration.cache_folder))
        self.nursery = ZygoteClient(ahead, log, patience_s, environment)
        opened.callback(self.nursery.close)
        self._gpus = [device.uuid for device in stored.devices if device.kind is DeviceKind.CUDA]
        self._folder = folder
        self._telemetry: Telemetry | None = None
        self.telemetry(wanted=telemetry)
        opened.callback(self.telemetry, wanted=False)
        self.fleets = {
            isolation: Fleet(
                _with_isolation(stored, isolation),
                BENCHMARK,
                RunPaths(folder / str(isolation)),
                self._link,
                self.nursery.fork,
            )
            for isolation in Isolation
        }
        self._gates = Gates(stored.devices)
        self._number = 0
        self._freed = False

    def start_zygote(self) -> float:
        """Start it; how long it took until it was ready, in milliseconds."""
        self.nursery.start(time.monotonic())
        return self.await_zygote()

    def await_zygote(self) -> float:
        """Wait until the zygote that was started is ready; how long that took, in milliseconds."""
        while not self.nursery.ready:
            select.select([self.nursery.fileno()], [], [])
            list(self.nursery.receive())
        return self.nursery.start_ms

    def telemetry(self, *, wanted: bool) -> None:
        """Start or stop the process that reads the GPUs, between two launches; there is none without a GPU."""
        if self._telemetry is not None and not wanted:
            self._telemetry.stop()
            self._telemetry = None
        elif self._telemetry is None and wanted and self._gpus:
            self._telemetry = Telemetry.start(self._gpus, self._folder, 100)

    def samples(self) -> tuple[Sample, ...]:
        """What was read of all GPUs. Complete when telemetry is stopped."""
        paths = RunPaths(self._folder)
        return tuple(sample for uuid in self._gpus for sample in read_samples(paths.samples(uuid)))

    def launch(self, cell: Cell, isolation: Isolation) -> Timed:
        """One launch, from the request until its device is free. Raises RuntimeError with the failure when it fails."""
        fleet = self.fleets[isolation]
        following = NextLaunch(slot=(cell.id, 0), cell=cell, launch=self._number, attempt=self._number + 1)
        self._number += 1
        begin = time.monotonic()
        outcome: Result | Failure | None = None
        gone = False
        happenings = list(fleet.request(following, begin))
        while not gone:
            for happening in happenings:
                if isinstance(happening, Concluded):
                    outcome = happening.outcome
                    fleet.acknowledge(happening.live, time.monotonic_ns())
                elif isinstance(happening, Gone):
                    gone = self._gates.admit(happening, self._telemetry, time.monotonic()) is not None
            if not gone:
                happenings, freed = self._wait(fleet)
                gone = gone or freed
        wall_ms = (time.monotonic() - begin) * 1000
        if not isinstance(outcome, Result):
            raise RuntimeError(f"{cell.id}: {outcome}")
        return Timed(outcome, wall_ms)

    def _wait(self, fleet: Fleet) -> tuple[list[Happening], bool]:
        """What happens next to the launches of a fleet, and whether the device became free."""
        self._freed = False
        happened = [happening for owner, happening in self.wait_for_any(1.0) if self.fleets[owner] is fleet]
        return happened, self._freed

    def wait_for_any(self, timeout_s: float) -> list[tuple[Isolation, Happening]]:
        """What happens next to any launch, and of which fleet it is; nothing when nothing does for so long."""
        owners = {
            live.pidfd: isolation
            for isolation, fleet in self.fleets.items()
            for live in fleet.live.values()
            if live.pidfd is not None
        }
        telemetry = -1 if self._telemetry is None else self._telemetry.fileno()
        poller = zmq.Poller()
        for thing in (self._link.socket, self.nursery.fileno(), telemetry, *owners):
            if thing != -1:
                poller.register(thing, zmq.POLLIN)
        ready = dict(poller.poll(int(max(timeout_s, 0) * 1000)))
        now = time.monotonic()
        happened = [*self._heard(now), *self._born(now)]
        for pidfd, isolation in owners.items():
            if pidfd in ready:
                happened += [(isolation, happening) for happening in self.fleets[isolation].died(pidfd, now)]
        for reading in self._telemetry.receive() if self._telemetry is not None else ():
            if isinstance(reading, DeviceFree) and self._gates.answered(reading) is not None:
                self._freed = True
        for isolation, fleet in self.fleets.items():
            happened += [(isolation, happening) for happening in fleet.time_passed(now)]
        return happened

    def _heard(self, now: float) -> Iterator[tuple[Isolation, Happening]]:
        while (message := self._link.receive()) is not None:
            if not isinstance(message, ProtocolError):
                isolation = next(one for one, fleet in self.fleets.items() if message.token in fleet.live)
                for happening in self.fleets[isolation].hear(message, now):
                    yield isolation, happening

    def _born(self, now: float) -> Iterator[tuple[Isolation, Happening]]:
        for answer in self.nursery.receive():
            if isinstance(answer, ForkFailed):
                raise RuntimeError(answer.message)
            if isinstance(answer, Forked):
                for happening in self.fleets[Isolation.FORK].born(answer.token, answer.pid, now):
                    yield Isolation.FORK, happening


@contextmanager
def harness(stored: StoredRun, *, telemetry: bool = True) -> Iterator[Harness]:
    process_start.become_subreaper()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="gpubench-bench-")))
        yield Harness(stored, folder, opened, telemetry=telemetry)


def stored_run(gpu_ids: str, *options: str) -> StoredRun:
    """What `gpubench-orchestrate --gpu-ids … options` would run, by its own command line."""
    import click

    from orchestrator import TOOL_VERSION
    from orchestrator.cli import preparation
    from orchestrator.cli.decorators import RunParams
    from orchestrator.cli.run import command as run_command

    context = run_command.make_context("bench", ["--gpu-ids", gpu_ids, *options])
    assert isinstance(context, click.Context)
    _, configuration, _ = preparation.configure(cast(RunParams, context.params), None)
    found = devices.on_this_machine(configuration.gpu_ids, inventory.look)
    return StoredRun(
        tool_version=TOOL_VERSION,
        run_id="bench",
        command=("bench",),
        configuration=configuration,
        devices=found,
        plan=registry.of(configuration).plan(configuration, found),
    )


def arguments(*defaults: Any) -> tuple[Any, ...]:
    """Arguments of the command line, by position and of the type of their default; the defaults of those not given."""
    given = sys.argv[1 : 1 + len(defaults)]
    kinds = [str if default is None else type(default) for default in defaults]
    return (*(kind(word) for kind, word in zip(kinds, given, strict=False)), *defaults[len(given) :])


def default_device() -> str:
    """The first GPU, or a CPU device where there is no driver."""
    return "0" if inventory.look().inventory.gpus else "cpu:0"


def _with_isolation(stored: StoredRun, isolation: Isolation) -> StoredRun:
    return msgspec.structs.replace(
        stored, configuration=msgspec.structs.replace(stored.configuration, isolation=isolation)
    )
