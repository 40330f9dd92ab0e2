"""`-b auto`: fresh processes find the largest batch that works, also when the orchestrator is killed in between."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.store.records import End
from protocol.cell import AUTO
from tests.fakes import faults
from tests.fakes.node import NOTHING, Node, leftovers


def scan_of(node: Node) -> dict[str, Any]:
    """The one scan of the report."""
    (found,) = node.report()["batch_scans"]
    assert isinstance(found, dict)
    return found


def test_the_largest_batch_that_works_is_found(tmp_path: Path) -> None:
    """One cell, many launches; sizes beyond are information: nothing is degraded, failed, or short of launches."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("m", do="raise", above=20), batch_sizes=(AUTO,), launches=3)
    node = Node(folder)
    assert node.wait() == 0, node.output
    found = scan_of(node)
    assert (found["largest_batch_size"], found["bounded_by"], found["finished"]) == (20, "failure: exception", True)
    tried = [point["batch_size"] for point in found["points"]]
    assert tried == sorted(set(tried)), "no size twice"
    assert {1, 2, 4, 8, 16, 20, 21} <= set(tried)
    assert all(point["works"] is (point["batch_size"] <= 20) for point in found["points"])
    report = node.report()
    (cell,) = report["cells"]
    assert (cell["status"], cell["batch_size"]) == ("ok", found["best_batch_size"])
    assert report["failures"] == []
    assert (report["summary"]["cells"]["ok"], report["summary"]["cells"]["degraded"]) == (1, 0)
    text = node.paths.report("txt").read_text()
    assert "Batch sizes" in text
    assert "largest 20 (bounded by failure: exception)" in text
    assert leftovers(folder) == NOTHING


def test_a_model_that_never_works_has_failed(tmp_path: Path) -> None:
    """An exception at batch 1 says nothing about a size."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("m", do="raise"), batch_sizes=(AUTO,))
    node = Node(folder)
    assert node.wait() == 4, node.output
    assert scan_of(node)["largest_batch_size"] is None
    assert node.report()["summary"]["cells"]["failed"] == 1
    assert len(node.report()["failures"]) == 1


def answers_more_than(node: Node, number: int) -> bool:
    """Whether so many launches have ended."""
    return sum(isinstance(record, End) for record in node.records()) > number


def test_a_killed_scan_goes_on_where_it_was(tmp_path: Path) -> None:
    """What was learned is in the journal: no size that had an answer is tried again."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("m", do="raise", above=20, seconds=0.15), batch_sizes=(AUTO,))
    for number in range(3):
        node = Node(folder)
        node.until(partial(answers_more_than, node, 3 * number))
        node.kill(signal.SIGKILL)
        node.wait()
    last = Node(folder)
    assert last.wait() == 0, last.output
    assert scan_of(last)["largest_batch_size"] == 20
    answered = [
        one.start.batch_size
        for one in last.archive().attempts
        if one.promised or (one.failure is not None and one.failure.category == "exception")
    ]
    assert len(answered) == len(set(answered))
