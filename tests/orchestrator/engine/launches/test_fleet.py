"""orchestrator/engine/launches/fleet.py: the processes of a launch on several devices are one launch."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

import protocol
from orchestrator.engine.launches.fleet import Fleet
from orchestrator.engine.launches.link import Link
from orchestrator.engine.launches.live import Concluded, Gone, Happening, Live
from orchestrator.kinds.benchmark import BENCHMARK
from orchestrator.state import transitions
from protocol.failure import Category, Failure, Phase
from protocol.messages import STEP, Ack, Hello, LaunchSpec, Outcome, PhaseEntered, ToWorker
from protocol.paths import RunPaths
from protocol.result import Result
from tests.fakes import gangs
from tests.fakes.results import result

DEVICES = 3
LOST = Failure(category=Category.COMMUNICATION, message="the connection broke", phase=Phase.MEASURE)
RAISED = Failure(category=Category.EXCEPTION, message="it raised", phase=Phase.MEASURE)


@dataclass
class Held:
    """A fleet whose one launch measures on three devices, with processes that sleep. sent: token and message."""

    fleet: Fleet
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sent: list[tuple[str, ToWorker]] = field(default_factory=list)
    asked: list[LaunchSpec] = field(default_factory=list)
    members: tuple[Live, ...] = ()

    def begin(self, now: transitions.RunState) -> None:
        """Ask for the launch of the gang, and let its processes say hello, as many as there are."""
        (following,) = [one for one in transitions.next_launches(now)[1] if len(one.cell.devices) > 1]
        assert list(self.fleet.request(following, time.monotonic())) == []
        self.members = next(iter(self.fleet.live.values())).siblings
        for live, process in zip(self.members, self.processes, strict=False):
            spec, at = live.spec, time.monotonic()
            hello = Hello(
                launch=spec.launch, token=spec.token, version=protocol.VERSION, pid=process.pid, root=spec.root
            )
            assert list(self.fleet.hear(hello, at)) == []
            entered = PhaseEntered(launch=spec.launch, token=spec.token, phase=Phase.MEASURE, at_ns=1)
            assert list(self.fleet.hear(entered, at)) == []

    def tell(self, rank: int, outcome: Result | Failure, now: float) -> list[Happening]:
        """A process sends its outcome."""
        spec, kind = self.members[rank].spec, "failure" if isinstance(outcome, Failure) else "result"
        return list(self.fleet.hear(Outcome(launch=spec.launch, token=spec.token, **{kind: outcome}), now))

    def dies(self, rank: int, now: float) -> list[Happening]:
        """The end of a process is seen; it is killed where it has not ended."""
        pidfd = self.members[rank].pidfd
        assert pidfd is not None
        self.processes[rank].kill()
        return list(self.fleet.died(pidfd, now))


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """The launch of three devices, under way."""
    with under_way(tmp_path, monkeypatch, DEVICES) as made:
        yield made


@contextmanager
def under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, born: int) -> Iterator[Held]:
    """The launch, with so many processes."""
    stored = gangs.prepare(tmp_path / "run", DEVICES)
    order = {uuid: queue[1:2] for uuid, queue in stored.plan.order.items()}
    only = transitions.begin(type(stored.plan)(cells=stored.plan.cells, order=order))
    with ExitStack() as opened:
        link = opened.enter_context(Link("run"))
        asked: list[LaunchSpec] = []
        made = Held(Fleet(stored, BENCHMARK, RunPaths(tmp_path / "run"), link, asked.append), asked=asked)
        monkeypatch.setattr(link, "send", lambda token, message: made.sent.append((token, message)))
        for _ in range(born):
            process = opened.enter_context(subprocess.Popen(["sleep", "60"], process_group=0))
            opened.callback(process.kill)
            made.processes.append(process)
        made.begin(only)
        yield made


def concluded(happenings: list[Happening]) -> Concluded:
    """The one conclusion among them."""
    (found,) = [one for one in happenings if isinstance(one, Concluded)]
    return found


def test_a_launch_has_a_process_for_each_device(held: Held) -> None:
    """Each with a token, a folder and a device of its own, and one place to meet."""
    assert [live.device.uuid for live in held.members] == ["cpu:0", "cpu:1", "cpu:2"]
    assert len({spec.token for spec in held.asked}) == len({spec.folder for spec in held.asked}) == DEVICES
    places = [live.gang for live in held.members]
    assert [place.rank for place in places if place is not None] == [0, 1, 2]
    assert len({place.meeting for place in places if place is not None}) == 1


def test_a_death_after_a_broken_connection_is_the_cause(held: Held) -> None:
    """The other end of the connection is heard first, and waits a second for the death."""
    begin = time.monotonic()
    assert held.tell(0, LOST, begin) == []
    assert held.dies(1, begin + 0.2) == []
    assert held.tell(2, LOST, begin + 0.3) == []
    happened = [*held.fleet.time_passed(begin + 1.1), *held.fleet.time_passed(begin + 1.4)]
    found = concluded(happened)
    assert (found.live.device.uuid, found.outcome.category) == ("cpu:1", Category.KILLED)
    assert found.outcome.device == "cpu:1"


def test_a_failure_ends_the_other_processes(held: Held) -> None:
    """With SIGTERM first; the failure is recorded when all have ended."""
    now = time.monotonic()
    assert held.tell(1, RAISED, now) == []
    assert [held.processes[rank].wait(timeout=10) for rank in (0, 2)] == [-15, -15]
    assert [type(one) for one in held.dies(0, now)] == [Gone]
    happened = held.dies(2, now)
    assert [type(one) for one in happened] == [Concluded, Gone]
    found = concluded(happened)
    assert found.live is held.members[1]
    assert "on cpu:0" in found.outcome.evidence


def test_unfinished_errors_are_removed(held: Held) -> None:
    """All processes write that the connection broke, as they are ended because of another."""
    written = [live.paths.unfinished_error for live in held.members]
    for path in written:
        path.write_bytes(b"{")
    now = time.monotonic()
    held.tell(1, RAISED, now)
    held.dies(0, now)
    held.dies(2, now)
    assert [path.exists() for path in written] == [False, True, False], "that one still lives"
    assert [type(one) for one in held.dies(1, now)] == [Gone]
    assert not written[1].exists()


def test_processes_are_acknowledged_when_the_outcome_is_on_disk(held: Held) -> None:
    """Not before; each by its own token."""
    happened: list[Happening] = []
    for rank, live in enumerate(held.members):
        assert happened == []
        happened = held.tell(rank, result(live.next.cell), time.monotonic())
    assert not [one for _, one in held.sent if isinstance(one, Ack)]
    held.fleet.acknowledge(concluded(happened).live, time.monotonic_ns())
    tokens = [token for token, one in held.sent if isinstance(one, Ack)]
    assert tokens == [live.spec.token for live in held.members]


def test_stopping_asks_all_once_and_then_kills(held: Held) -> None:
    """Asking the first asks the others too; after the kill nothing is waited for."""
    list(held.fleet.stop(RAISED, time.monotonic(), immediately=False, grace_s=5))
    assert [process.wait(timeout=10) for process in held.processes] == [-15] * DEVICES
    assert {live.launch.status.name for live in held.members} == {"ENDING"}
    now = time.monotonic()
    (first, *_) = held.members
    list(held.fleet.stop(RAISED, now, immediately=True, grace_s=0))
    gone = [type(held.dies(rank, now)[-1]) for rank in range(DEVICES)]
    assert gone == [Gone] * DEVICES
    assert held.fleet.live == {}
    assert first.outcome.category is Category.EXCEPTION


def test_a_device_without_a_process_is_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zygote hangs after two forks of three: the processes wait for the third until their deadline."""
    with under_way(tmp_path, monkeypatch, DEVICES - 1) as held:
        Path(held.members[0].gang.steps).write_bytes(b"".join(STEP.pack(begun) for begun in (1, 1, 0)))
        late = time.monotonic() + gangs.DEADLINES.measure + gangs.LASTS_S + 1
        assert [type(one) for one in held.fleet.time_passed(late)] == [Gone]
        assert [type(one) for one in held.dies(0, late)] == [Gone]
        found = concluded(held.dies(1, late))
    assert (found.outcome.category, found.outcome.device) == (Category.DEADLINE, msgspec.UNSET)


def test_killing_one_kills_all(held: Held) -> None:
    """At once, without SIGTERM."""
    list(held.fleet.end(held.members[0], RAISED, time.monotonic(), immediately=True))
    assert [process.wait(timeout=10) for process in held.processes] == [-9] * DEVICES
