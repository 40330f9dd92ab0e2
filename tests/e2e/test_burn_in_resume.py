"""`resume` of a burn-in: it goes on until each device has its time, and then it says that nothing is left."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import journal
from orchestrator.store.records import Added, Dropped, Record, Segment, Start, ZygoteStarted
from protocol.paths import RunPaths
from tests.e2e.test_burn_in import burn_in, command, report
from tests.e2e.test_burn_in_hangs import UNTIL_CONTINUED, hanging
from tests.fakes.node import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def resume(folder: Path) -> subprocess.CompletedProcess[str]:
    """Go on with the run in `folder`, and what was said of it."""
    words = command("resume", "--runs-folder", str(folder / "runs"))
    return subprocess.run(words, cwd=ROOT, check=False, timeout=200, capture_output=True, text=True)


def records(folder: Path) -> tuple[Record, ...]:
    """The run's journal."""
    (found,) = (folder / "runs").glob("*/journal.gpj")
    return journal.read(RunPaths(found.parent).journal)


def reasons(folder: Path) -> list[dict[str, Any]]:
    """Of all devices."""
    return [reason for gpu in report(folder)["burn_in"]["gpus"] for reason in gpu["reasons"]]


def test_time_that_was_lost_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A night with a worker that stood still for 25 s: told, and gone on with until it passes; then nothing is left."""
    monkeypatch.setenv("PYTHONPATH", hanging(tmp_path, 18.0, UNTIL_CONTINUED))
    running = burn_in(tmp_path, "60s")
    until = time.monotonic() + 55
    while not list((tmp_path / "hung").glob("*")) and time.monotonic() < until:
        time.sleep(0.1)
    (stopped,) = (tmp_path / "hung").iterdir()
    time.sleep(25)
    os.kill(int(stopped.name), signal.SIGCONT)
    assert running.wait(timeout=100) == 4
    told = [one for one in reasons(tmp_path) if "at work for" in one["text"]]
    assert any("a worker stood still in" in one["text"] for one in told)  # the other device waited, but not for long
    assert all("`gpubench-orchestrate resume` goes on until it has its time" in one["text"] for one in told)
    assert {one["action"] for one in told} == {"go on with `resume`"}
    served_s = min(gpu["served_seconds"] for gpu in report(tmp_path)["burn_in"]["gpus"])
    begin = time.monotonic()
    again = resume(tmp_path)
    assert again.returncode == 0, again.stdout
    assert time.monotonic() - begin < 60 - served_s + 30  # what was missing, and a start
    assert reasons(tmp_path) == []
    second = [record for record in records(tmp_path) if isinstance(record, Segment)][1]
    assert second.served_s == pytest.approx(served_s, abs=0.01)
    before = records(tmp_path)
    over = resume(tmp_path)
    assert over.returncode == 0
    assert "nothing left to do" in over.stderr
    assert records(tmp_path) == before


def test_who_was_stopped_while_it_imported_has_the_whole_time_left(tmp_path: Path) -> None:
    """Its start costs nothing of what it is to make up for, and what was dropped for want of time waits again."""
    running = burn_in(tmp_path, "40s")
    while not list((tmp_path / "runs").glob("*/journal.gpj")):
        time.sleep(0.05)
    time.sleep(2)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 4
    assert not any(isinstance(record, Start) for record in records(tmp_path))
    (told, *_) = (one for one in reasons(tmp_path) if "cut short: stopped on request" in one["text"])
    assert told["action"] == "go on with `resume`"
    again = resume(tmp_path)
    assert again.returncode == 0, again.stdout
    assert all(gpu["served_seconds"] > 27 for gpu in report(tmp_path)["burn_in"]["gpus"])
    assert any(isinstance(record, ZygoteStarted) for record in records(tmp_path))


def test_a_night_that_spent_its_time_on_importing_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launches were all dropped, which is final in no burn-in: they wait again, and rounds are added as needed.

    Importing takes as long again, longer than the time that is left of what is missing: nothing is dropped for that.
    """
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import sys, time\n"
        "if 'worker.zygote' in ' '.join(sys.orig_argv):\n"
        f"    open({str(tmp_path / 'slow')!r} + f'/{{time.monotonic()}}', 'w').close()\n"
        "    time.sleep(26)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{slow}:{ROOT}")
    places = ("--runs-folder", str(tmp_path / "runs"), "-o", str(tmp_path / "report.json"), "--quiet")
    given = command("run", "--burn-in", "30s", "--gpu-ids", "cpu:0,cpu:1", *places)
    begun = time.monotonic()
    first = subprocess.run(given, cwd=ROOT, check=False, timeout=100)
    assert first.returncode == 4
    assert time.monotonic() - begun < 30 * 1.1
    assert any(isinstance(record, Dropped) for record in records(tmp_path))
    again = resume(tmp_path)
    assert again.returncode == 0, again.stdout
    assert report(tmp_path)["burn_in"]["verdict"] == "PASS"
    assert len([*slow.iterdir()]) >= 1 + 2
    assert not any(isinstance(record, Added) for record in records(tmp_path))  # the plan had rounds enough


def test_rounds_are_added_when_the_plan_is_through(tmp_path: Path) -> None:
    """Before the time is up, as when a GPU is taken out or cells fail at once: here because the plan has one round."""
    short = tmp_path / "short"
    short.mkdir()
    (short / "sitecustomize.py").write_text(
        "import sys, types\n"
        "if 'orchestrator' in sys.orig_argv:\n"
        "    from orchestrator.kinds.burn_in import planning as plan\n"
        "    plan.math = types.SimpleNamespace(ceil=lambda number: 1, fsum=sum)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{short}:{ROOT}"}
    places = ("--runs-folder", str(tmp_path / "runs"), "-o", str(tmp_path / "report.json"), "--quiet")
    given = command("run", "--burn-in", "60s", "--gpu-ids", "cpu:0,cpu:1", *places)
    assert subprocess.run(given, cwd=ROOT, check=False, timeout=100, env=environment).returncode == 0
    rounds = [record for record in records(tmp_path) if isinstance(record, Added)]
    assert rounds
    assert all(record.suspects == () for record in rounds)
    night = report(tmp_path)["burn_in"]
    assert [(gpu["verdict"], gpu["rounds"] > 1) for gpu in night["gpus"]] == [("PASS", True)] * 2
    over = resume(tmp_path)
    assert (over.returncode, "nothing left to do" in over.stderr) == (0, True)
