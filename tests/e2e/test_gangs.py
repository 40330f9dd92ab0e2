"""A cell on three devices, with real processes: they begin, end and fail together, and the run goes on."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.disk.archive import Attempt
from orchestrator.disk.records import End, Left, Spawned, Start
from protocol.failure import Category
from protocol.paths import RunPaths
from tests.fakes import gangs
from tests.fakes.node import NOTHING, Node, leftovers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DEVICES = 3


def links(node: Node) -> list[Attempt]:
    """The attempts at the cell of all devices."""
    return [attempt for attempt in node.archive().attempts if attempt.start.cell.startswith("peers")]


def members(node: Node) -> list[psutil.Process]:
    """Its processes, by rank, once all of them measure."""

    def pids() -> list[int]:
        records = node.records()
        begun = [record.launch for record in records if isinstance(record, Start) and "peers" in record.cell]
        return [record.pid for record in records if isinstance(record, Spawned) and record.launch == begun[-1]]

    def measure() -> bool:
        phases = node.paths.launches.glob("peers*/*/**/phase")
        return sum(phase.read_text() == "measure" for phase in phases) == DEVICES

    node.until(measure, timeout_s=120)
    by_log = {str(Path(f"/proc/{pid}/fd/1").readlink().parent.name): pid for pid in pids()}
    return [psutil.Process(by_log.get(f"rank{rank}", by_log.get("1", 0))) for rank in range(DEVICES)]


def assert_the_others_were_measured(node: Node) -> None:
    """What comes before and after it, on each device."""
    measured = [one.start.cell for one in node.archive().attempts if one.promised and "peers" not in one.start.cell]
    assert len(measured) == 2 * DEVICES


def test_devices_work_together_as_one_launch(tmp_path: Path) -> None:
    """One beginning, one end, a process for each device; the result holds what each of them verified."""
    folder = tmp_path / "run"
    gangs.prepare(folder, DEVICES)
    node = Node(folder)
    assert node.wait(120) == 0, node.output
    (attempt,) = links(node)
    number = attempt.start.launch
    told = [record for record in node.records() if getattr(record, "launch", None) == number]
    assert [type(record) for record in told] == [Start, *[Spawned] * DEVICES, End, Left]
    result = node.archive().result(attempt)
    assert set(result.others) == {"cpu:1", "cpu:2"}
    assert result.verification is not None
    for verified in (result.verification, *result.others.values()):
        assert verified.checks >= DEVICES
        assert verified.verified_bytes == verified.checks << 20
        assert verified.mismatches == 0
    assert_the_others_were_measured(node)
    assert leftovers(folder) == NOTHING


def test_one_that_dies_ends_all_and_is_the_cause(tmp_path: Path) -> None:
    """The failure is that of the process which was killed; what the others saw of it is evidence; a retry works."""
    folder = tmp_path / "run"
    gangs.prepare(folder, DEVICES)
    node = Node(folder)
    victim = members(node)[1]
    victim.kill()
    assert node.wait(120) == 0, node.output
    first, second = links(node)
    assert first.failure is not None
    assert (first.failure.category, first.failure.signal) == (Category.KILLED, signal.SIGKILL)
    assert first.failure.device == "cpu:1"
    others = [words for name, words in first.failure.evidence.items() if name.startswith("on ")]
    assert len(others) == DEVICES - 1
    assert all(word.startswith((str(Category.COMMUNICATION), "ended with the others")) for word in others), others
    assert second.promised
    assert_the_others_were_measured(node)
    assert leftovers(folder) == NOTHING


def test_one_that_stops_is_named_and_all_are_ended(tmp_path: Path) -> None:
    """All wait for it until the deadline; it is the one that made no progress; what comes next is measured."""
    folder = tmp_path / "run"
    gangs.prepare(folder, DEVICES)
    node = Node(folder)
    stopped = members(node)[2]
    stopped.suspend()
    begin = time.monotonic()
    assert node.wait(120) == 4, node.output
    assert time.monotonic() - begin < gangs.LASTS_S + gangs.DEADLINES.measure + 30
    (attempt, *_) = links(node)
    assert attempt.failure is not None
    assert (attempt.failure.category, attempt.failure.device) == (Category.DEADLINE, "cpu:2")
    assert attempt.failure.stopped is True
    assert "cpu:2 made no progress: its process was stopped" in attempt.failure.message
    assert_the_others_were_measured(node)
    assert leftovers(folder) == NOTHING


def test_a_run_whose_orchestrator_dies_is_resumed_and_measures_it_once(tmp_path: Path) -> None:
    """Nothing of it is left behind; the interrupted attempt counts, and there is one result."""
    folder = tmp_path / "run"
    gangs.prepare(folder, DEVICES)
    node = Node(folder)
    processes = members(node)
    node.kill()
    node.wait()
    assert psutil.wait_procs(processes, timeout=10)[1] == []
    again = Node(folder)
    assert again.wait(120) == 0, again.output
    first, second = links(again)
    assert first.failure is not None
    assert (first.failure.category, second.promised is not None) == (Category.INTERRUPTED, True)
    assert_the_others_were_measured(again)
    assert len(list(RunPaths(folder).launches.glob("peers*/*/result.msgpack"))) == 1
    assert leftovers(folder) == NOTHING
