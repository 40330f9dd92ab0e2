"""Objects for log collectors."""

import json

from orchestrator.engine.display_events import Notice
from orchestrator.terminal.outlet import Outlet
from orchestrator.terminal.structured import Structured
from tests.fakes.terminal import FAILED, PASSED, SNAPSHOT, Clock, Pipe, make


def test_json_events_are_one_object_a_line(pipe: Pipe) -> None:
    """--log-format json has timestamp, level and event in every object, and category and next step of failures."""
    clock = Clock()
    display = Structured(Outlet(pipe.stream), quiet=False, verbose=False, now=clock)
    display.tell(PASSED)
    display.tell(FAILED)
    display.tell(Notice(level="warning", message="a\x1b[31m\nb", fields={"pid": 4711}))
    display.tell(Notice(level="info", message="two cells", event="run_started", fields={"cells": 2}))
    clock.seconds += 30
    display.show(SNAPSHOT)
    display.close()
    text = pipe.read()
    ended, failed, notice, started, progress = map(json.loads, text.splitlines())
    assert all({"timestamp", "level", "event"} <= set(each) for each in (ended, failed, notice, progress))
    assert (ended["event"], ended["level"], ended["cell"]) == ("cell_ended", "info", "lstm inference fp32")
    assert (failed["level"], failed["failure"]["category"]) == ("error", "out of memory")
    assert failed["next_step"].endswith("batch size 16")
    assert "evidence" not in failed["failure"]
    assert (ended["iteration_ms"], ended["items_per_second"]) == (2.1, 476.0)
    assert (notice["event"], notice["level"], notice["message"], notice["pid"]) == ("notice", "warning", "a\nb", 4711)
    assert (started["event"], started["level"], started["cells"]) == ("run_started", "info", 2)
    assert (progress["done"], progress["devices"][0]["power_w"]) == (12, 691.4)
    assert ended["device"] == failed["device"] == progress["devices"][0]["device"] == "GPU 0"
    assert '"label"' not in text
    assert "\\u001b" not in text


def test_json_quiet_and_verbose(pipe: Pipe) -> None:
    """--quiet drops what passed and keeps the end of the run; -v adds phases and evidence."""
    quiet = make(pipe.stream, quiet=True, log_format="json")
    quiet.tell(PASSED)
    quiet.show(SNAPSHOT)
    quiet.tell(Notice(level="info", message="started", event="run_started"))
    quiet.tell(Notice(level="info", message="over", event="run_ended", fields={"exit_code": 5}))
    quiet.close()
    assert [json.loads(line)["event"] for line in pipe.read().splitlines()] == ["run_ended"]
    verbose = make(pipe.stream, verbose=True, log_format="json")
    verbose.show(SNAPSHOT)
    verbose.tell(FAILED)
    verbose.close()
    phase, failed = map(json.loads, pipe.read().splitlines())
    assert (phase["event"], phase["phase"]) == ("phase", "warm-up")
    assert failed["failure"]["evidence"] == {"free bytes": "1073741824"}
