"""The burn-in from end to end, on CPU devices: a verdict for each, faults blamed on the right one, time that counts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import journal
from orchestrator.store.journal_records import Added, Record
from tests.fakes.injection import inject
from tests.fakes.node import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(400)]

ONE_ROUND = """
import sys, types
if 'orchestrator' in sys.orig_argv:
    from orchestrator.kinds.burn_in import planning as plan
    plan.math = types.SimpleNamespace(ceil=lambda number: 1, fsum=sum)
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "orchestrator", *words]


def burn_in(folder: Path, duration: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    places = ("--runs-folder", str(folder / "runs"), "-o", str(folder / "report.json"), "--quiet")
    given = command("run", "--burn-in", duration, "--gpu-ids", "cpu:0,cpu:1", *words, *places)
    return subprocess.Popen(given, cwd=ROOT, env=os.environ | environment)


def resume(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = command("resume", "--runs-folder", str(folder / "runs"))
    options: Any = {"cwd": ROOT, "env": os.environ | environment, "timeout": 200}
    return subprocess.run(words, check=False, capture_output=True, text=True, **options)


def report(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_a_healthy_node_passes_with_evidence(tmp_path: Path) -> None:
    """PASS in time, with checks to the name of every check. Rounds are added to a plan of one until the time is up."""
    begin = time.monotonic()
    assert burn_in(tmp_path, "60s", **inject(tmp_path / "injected", ONE_ROUND)).wait(timeout=150) == 0
    assert time.monotonic() - begin < 60 * 1.05
    found = report(tmp_path)["burn_in"]
    assert found["verdict"] == "PASS"
    for gpu in found["gpus"]:
        assert (gpu["verdict"], gpu["reasons"]) == ("PASS", [])
        assert {check["check"] for check in gpu["checks"]} == {"soak", "truth", "memory", "replay", "links"}
        assert all(check["checks"] > 0 and check["mismatches"] == 0 for check in gpu["checks"])
        assert gpu["compared_launches"] > 0
        assert gpu["rounds"] > 1
    rounds = [record for record in records(tmp_path) if isinstance(record, Added)]
    assert rounds
    assert all(record.suspects == () for record in rounds)
    over = resume(tmp_path)
    assert (over.returncode, "none remaining" in over.stderr) == (0, True)


def records(folder: Path) -> tuple[Record, ...]:
    (found,) = (folder / "runs").glob("*/journal.gpj")
    return journal.read(found)


def test_flipped_bits_are_found_and_blamed_on_the_right_device(tmp_path: Path) -> None:
    """FAIL for the device that was told to flip bits, in products and in memory; the other is tainted, not blamed."""
    assert burn_in(tmp_path, "60s", "--inject", "flip:1:1:2").wait(timeout=150) == 3
    found = report(tmp_path)["burn_in"]
    (fault,) = found["injected"]
    assert (fault["found"], "not in" in fault["outcome"]) == (True, False), fault
    first, second = found["gpus"]
    assert (first["verdict"], second["verdict"]) == ("UNKNOWN", "FAIL")
    *consequences, tainted = (reason["text"] for reason in first["reasons"])
    assert "injected" in tainted
    assert all("fault of cpu:1" in text for text in consequences), consequences
    mismatches = {check["check"]: check["mismatches"] for check in second["checks"]}
    assert all(mismatches[check] >= least for check, least in {"soak": 2, "truth": 1, "memory": 1, "links": 1}.items())
    # Its sums may be wrong because of what the other one sent: that is reported, and makes it doubtful at most.
    assert all(check["mismatches"] == 0 for check in first["checks"] if check["check"] != "links")


def test_time_that_was_served_counts(tmp_path: Path) -> None:
    """Killed in the middle, a burn-in goes on for what is left, and the burn-in counts as served."""
    running = burn_in(tmp_path, "60s")
    time.sleep(35)  # whatever runs then: the journal has it
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=20)
    begin = time.monotonic()
    resume(tmp_path)
    assert time.monotonic() - begin < 55  # of 60: as much counts as the device has served that served least
    (gpu, _) = report(tmp_path)["burn_in"]["gpus"]
    assert 45 < gpu["served_seconds"] < 63
    assert not [reason for reason in gpu["reasons"] if "at work for" in reason["text"]]
