"""`-b auto`: fresh processes find the largest batch that works, also when the orchestrator is killed in between."""

import re
from pathlib import Path

from orchestrator.store.journal_records import End
from protocol.cell import AUTO
from tests.fakes import faults
from tests.fakes.node import Node, start


def test_the_largest_batch_that_works_is_found(tmp_path: Path) -> None:
    """One cell, many launches; sizes beyond are information, no failures. A model that fails at batch 1 has failed."""
    models = faults.model("m", do="raise", above=20), faults.model("never", do="raise")
    node = start(tmp_path / "run", *models, batch_sizes=(AUTO,), launches=3)
    report = node.ended(4)
    scans = {one["model_name"]: one for one in report["batch_scans"]}
    found = scans["m"]
    assert (found["largest_batch_size"], found["bounded_by"], found["finished"]) == (20, "failure: exception", True)
    tried = [point["batch_size"] for point in found["points"]]
    assert tried == sorted(set(tried)), "no size twice"
    assert {1, 2, 4, 8, 16, 20, 21} <= set(tried)
    assert all(point["works"] is (point["batch_size"] <= 20) for point in found["points"])
    cells = {cell["model_name"]: (cell["status"], cell["batch_size"]) for cell in report["cells"]}
    assert cells["m"] == ("ok", found["best_batch_size"])
    assert [one["model_name"] for one in report["failures"]] == ["never"]
    assert (report["summary"]["cells"]["ok"], report["summary"]["cells"]["degraded"]) == (1, 0)
    assert re.search(r"largest 20 \(.*exception\)", node.paths.report("txt").read_text())
    assert (cells["never"][0], scans["never"]["largest_batch_size"]) == ("failed", None)


def test_a_killed_scan_goes_on_where_it_was(tmp_path: Path) -> None:
    """A resumed scan reads the journal: no batch size with a result is tried again."""
    folder = tmp_path / "run"
    faults.prepare(folder, faults.model("m", do="raise", above=20, seconds=0.15), batch_sizes=(AUTO,))
    killed = Node(folder)
    killed.until(lambda: len(killed.of(End)) > 4)
    killed.kill()
    last = Node(folder)
    assert last.ended()["batch_scans"][0]["largest_batch_size"] == 20
    answered = [
        one.start.batch_size
        for one in last.archive().attempts
        if one.promised or (one.failure is not None and one.failure.category == "exception")
    ]
    assert len(answered) == len(set(answered))
