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

from tests.fakes.node import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def command(*words: str) -> list[str]:
    """gpubench-orchestrate with these words."""
    return [sys.executable, "-m", "orchestrator", *words]


def burn_in(folder: Path, duration: str, *words: str) -> subprocess.Popen[bytes]:
    """Start one on two CPU devices."""
    places = ("--runs-folder", str(folder / "runs"), "-o", str(folder / "report.json"), "--quiet")
    given = command("run", "--burn-in", duration, "--gpu-ids", "cpu:0,cpu:1", *words, *places)
    return subprocess.Popen(given, cwd=ROOT)


def report(folder: Path) -> Any:
    """What was published."""
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_a_healthy_node_passes_with_evidence(tmp_path: Path) -> None:
    """Exit code 0, PASS for every device, every required check with checks to its name, and no mismatch."""
    begin = time.monotonic()
    assert burn_in(tmp_path, "90s").wait(timeout=200) == 0
    assert time.monotonic() - begin < 90 * 1.05
    night = report(tmp_path)["burn_in"]
    assert night["verdict"] == "PASS"
    for gpu in night["gpus"]:
        assert (gpu["verdict"], gpu["reasons"]) == ("PASS", [])
        assert {check["check"] for check in gpu["checks"]} == {"soak", "truth", "memory", "replay", "links"}
        assert all(check["checks"] > 0 and check["mismatches"] == 0 for check in gpu["checks"])
        assert gpu["compared_launches"] > 0


def test_flipped_bits_are_found_and_blamed_on_the_right_device(tmp_path: Path) -> None:
    """FAIL for the device that was told to flip bits, in products and in memory; the other is tainted, not blamed."""
    assert burn_in(tmp_path, "90s", "--inject", "flip:1:1:2").wait(timeout=200) == 3
    night = report(tmp_path)["burn_in"]
    (fault,) = night["injected"]
    assert (fault["found"], "not in" in fault["outcome"]) == (True, False), fault
    first, second = night["gpus"]
    assert (first["verdict"], second["verdict"]) == ("UNKNOWN", "FAIL")
    *consequences, tainted = (reason["text"] for reason in first["reasons"])
    assert tainted == "tainted: faults were injected on purpose"
    assert all("probably the fault of cpu:1" in text for text in consequences), consequences
    found = {check["check"]: check["mismatches"] for check in second["checks"]}
    assert found["soak"] >= 2
    assert found["truth"] >= 1
    assert found["memory"] >= 1
    assert found["links"] >= 1
    # Its sums may be wrong for what the other one sent: told, and no more than doubtful.
    assert all(check["mismatches"] == 0 for check in first["checks"] if check["check"] != "links")


def test_time_that_was_served_counts(tmp_path: Path) -> None:
    """Killed in the middle, a burn-in goes on for what is left, and the night counts as served."""
    running = burn_in(tmp_path, "60s")
    time.sleep(35)  # whatever runs then: the journal has it
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=20)
    begin = time.monotonic()
    again = command("resume", "--runs-folder", str(tmp_path / "runs"), "--quiet")
    subprocess.run(again, cwd=ROOT, check=False, timeout=200, env=dict(os.environ))
    assert time.monotonic() - begin < 55  # of 60: as much counts as the device has served that served least
    (gpu, _) = report(tmp_path)["burn_in"]["gpus"]
    assert 45 < gpu["served_seconds"] < 63
    assert not [reason for reason in gpu["reasons"] if "at work for" in reason["text"]]
