"""A cell on three devices, with real processes: they begin, end and fail together, and the run goes on."""

import re
import signal
from pathlib import Path

import psutil
import pytest

from orchestrator.state.attempts import Attempt
from orchestrator.store.journal_records import End, Left, Spawned, Start
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes import gangs
from tests.fakes.node import Node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DEVICES = 3


@pytest.fixture
def node(tmp_path: Path) -> Node:
    gangs.prepare(tmp_path / "run", DEVICES)
    return Node(tmp_path / "run")


def members(node: Node) -> list[psutil.Process]:
    def pids() -> list[int]:
        begun = [record.launch for record in node.of(Start) if "peers" in record.cell]
        return [record.pid for record in node.of(Spawned) if record.launch == begun[-1]]

    def measure() -> bool:
        phases = node.paths.launches.glob("peers*/*/**/phase")
        return sum(phase.read_text() == "measure" for phase in phases) == DEVICES

    node.until(measure, timeout_s=120)
    by_log = {str(Path(f"/proc/{pid}/fd/1").readlink().parent.name): pid for pid in pids()}
    return [psutil.Process(by_log[name]) for name in ("1", *(f"rank{rank}" for rank in range(1, DEVICES)))]


def ended(node: Node, code: int = 0) -> list[Attempt]:
    """The attempts at the cell of all devices, of a run in which what comes before and after it was measured."""
    node.ended(code, timeout_s=120)
    measured = [one.start.cell for one in node.archive().attempts if one.promised and "peers" not in one.start.cell]
    assert len(measured) == 2 * DEVICES
    return [attempt for attempt in node.archive().attempts if attempt.start.cell.startswith("peers")]


def test_devices_work_together_as_one_launch(node: Node) -> None:
    """One beginning, one end, a process for each device; the result holds what each of them verified."""
    (attempt,) = ended(node)
    number = attempt.start.launch
    told = [record for record in node.records() if getattr(record, "launch", None) == number]
    assert [type(record) for record in told] == [Start, *[Spawned] * DEVICES, End, Left]
    result = node.archive().result(attempt)
    assert set(result.others) == {"cpu:1", "cpu:2"}
    for verified in (result.verification, *result.others.values()):
        assert verified.checks >= DEVICES
        assert verified.verified_bytes == verified.checks << 20
        assert verified.mismatches == 0


def test_one_that_dies_ends_all_and_is_the_cause(node: Node) -> None:
    """The failure is that of the process which was killed; what the others saw of it is evidence; a retry works.

    The others leave later, because they were stopped: no device begins anything before the end, then all try again.
    """
    first, victim, third = members(node)
    first.suspend()
    third.suspend()
    victim.kill()
    crashed, again = ended(node)
    assert (crashed.failure.category, crashed.failure.signal) == (Category.KILLED, signal.SIGKILL)
    assert crashed.failure.device == "cpu:1"
    others = [words for name, words in crashed.failure.evidence.items() if name.startswith("on ")]
    assert len(others) == DEVICES - 1
    assert all(word.startswith((str(Category.COMMUNICATION), "ended with")) for word in others), others
    assert again.promised
    said = [record for record in node.records() if isinstance(record, Start | End)]
    launch = crashed.start.launch
    place = said.index(next(one for one in said if isinstance(one, Start) and one.launch == launch))
    following = [(type(one), one.launch) for one in said[place : place + 3]]
    assert following == [(Start, launch), (End, launch), (Start, again.start.launch)]


def test_one_that_stops_is_named_and_all_are_ended(node: Node) -> None:
    """All wait for it until the deadline; it is the one that made no progress; what comes next is measured."""
    stopped = members(node)[2]
    stopped.suspend()
    (attempt, *_) = ended(node, 4)
    assert (attempt.failure.category, attempt.failure.device) == (Category.DEADLINE, "cpu:2")
    assert attempt.failure.stopped is True
    assert re.search("cpu:2 .*stopped", attempt.failure.message)


def test_a_run_whose_orchestrator_dies_is_resumed_and_measures_it_once(node: Node) -> None:
    """Nothing of it is left behind; the interrupted attempt counts, and there is one result."""
    processes = members(node)
    node.kill()
    assert psutil.wait_procs(processes, timeout=10)[1] == []
    first, second = ended(Node(node.paths.folder))
    assert (first.failure.category, second.promised is not None) == (Category.INTERRUPTED, True)
    assert len(list(RunPaths(node.paths.folder).launches.glob("peers*/*/result.msgpack"))) == 1
