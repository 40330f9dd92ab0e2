"""`resume` of a burn-in: it goes on until each device has its time, and then it says that nothing is left."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.gpu.health.judges import Action
from orchestrator.store.journal_records import Added, Dropped, Segment
from tests.e2e.test_burn_in import burn_in, records, report, resume
from tests.e2e.test_burn_in_hangs import UNTIL_CONTINUED, hanging
from tests.fakes.injection import inject

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(400)]

SLOW_IMPORT = """
import sys, time
if 'worker.zygote' in ' '.join(sys.orig_argv):
    open({folder!r} + f'/{{time.monotonic()}}', 'w').close()
    time.sleep(26)
"""


def reasons(folder: Path) -> list[dict[str, Any]]:
    return [reason for gpu in report(folder)["burn_in"]["gpus"] for reason in gpu["reasons"]]


def test_time_in_which_a_worker_was_stopped_is_resumed(tmp_path: Path) -> None:
    """A device whose worker was stopped for 25 s has no PASS; `resume` adds the missing time, until nothing is left."""
    running = burn_in(tmp_path, "60s", **hanging(tmp_path, 18.0, UNTIL_CONTINUED))
    until = time.monotonic() + 55
    while not list((tmp_path / "hung").glob("*")) and time.monotonic() < until:
        time.sleep(0.1)
    (stopped,) = (tmp_path / "hung").iterdir()
    time.sleep(25)
    os.kill(int(stopped.name), signal.SIGCONT)
    assert running.wait(timeout=100) == 4
    told = [one for one in reasons(tmp_path) if "at work for" in one["text"]]
    assert any("worker was" in one["text"] for one in told)  # the other device waited, but not for long
    assert {one["action"] for one in told} == {Action.RESUME}
    idle = min(report(tmp_path)["burn_in"]["gpus"], key=lambda gpu: float(gpu["served_seconds"]))
    served_s = idle["served_seconds"]
    assert served_s < 60 - 20
    for check in idle["checks"]:
        if check["check"] in {"soak", "truth"}:  # of which one was stopped; their cells last a second
            assert check["measured_seconds"] < 5 * check["launches"]
    begin = time.monotonic()
    again = resume(tmp_path)
    assert again.returncode == 0, again.stdout
    assert time.monotonic() - begin < 60 - served_s + 30  # what was missing, and a start
    assert reasons(tmp_path) == []
    second = [record for record in records(tmp_path) if isinstance(record, Segment)][1]
    assert second.served_s == pytest.approx(served_s, abs=0.01)
    before = records(tmp_path)
    assert resume(tmp_path).returncode == 0
    assert records(tmp_path) == before


def test_a_run_that_spent_its_time_on_importing_is_resumed(tmp_path: Path) -> None:
    """Its launches were all dropped, which is final in no burn-in: they wait again, however long it imports."""
    imports = tmp_path / "imports"
    imports.mkdir()
    environment = inject(tmp_path / "injected", SLOW_IMPORT.format(folder=str(imports)))
    begun = time.monotonic()
    assert burn_in(tmp_path, "30s", **environment).wait(timeout=100) == 4
    assert time.monotonic() - begun < 30 * 1.1
    assert any(isinstance(record, Dropped) for record in records(tmp_path))
    again = resume(tmp_path, **environment)
    assert again.returncode == 0, again.stdout
    assert report(tmp_path)["burn_in"]["verdict"] == "PASS"
    assert len([*imports.iterdir()]) >= 2
    assert not any(isinstance(record, Added) for record in records(tmp_path))  # the plan had rounds enough
