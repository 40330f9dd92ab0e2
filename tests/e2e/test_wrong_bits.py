"""A burn-in whose workers find wrong bits and then die: what they saw is judged, whatever killed them."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_burn_in import burn_in, report

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(400)]


def who_writes_to(folder: Path) -> int | None:
    """The process whose standard output is the log of a launch; None where it has left."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if descriptor.readlink() == folder / "stdout.log":
                return int(descriptor.parts[2])
        except OSError:
            continue
    return None


def killing(running: subprocess.Popen[bytes], folder: Path) -> set[Path]:
    """Kill each worker as soon as it has told of wrong bits, until the run is over; the folders of those killed."""
    killed: set[Path] = set()
    until = time.monotonic() + 200
    while running.poll() is None and time.monotonic() < until:
        for file in folder.glob("runs/*/launches/*/*/mismatches"):
            if file.parent not in killed and (pid := who_writes_to(file.parent.resolve())):
                os.kill(pid, signal.SIGKILL)
                killed.add(file.parent)
        time.sleep(0.005)
    return killed


def test_wrong_bits_outlive_the_worker_that_saw_them(tmp_path: Path) -> None:
    """FAIL, exit code 3, though no launch that saw any has a result: with the check and the round."""
    running = burn_in(tmp_path, "45s", "--inject", "flip:1:1")
    killed = killing(running, tmp_path)
    assert running.wait(timeout=60) == 3
    assert killed
    soaks = [file.parent for file in tmp_path.glob("runs/*/launches/*soak*/*/mismatches")]
    assert soaks
    assert not any((folder / "result.msgpack").exists() for folder in (*soaks, *killed))
    told: Any = report(tmp_path)
    first, second = told["burn_in"]["gpus"]
    assert (first["verdict"], second["verdict"]) == ("UNKNOWN", "FAIL")
    reasons = [one["text"] for one in second["reasons"] if one["verdict"] == "FAIL"]
    detailed = [text for text in reasons if "without details" not in text]  # killed before its first line
    assert detailed
    assert all("; round 1, " in text for text in detailed), reasons
    assert any("soak of matrix" in text for text in reasons)
    lost = [one for one in told["failures"] if one["cell"] in {folder.parent.name for folder in killed}]
    assert len(lost) >= len(killed)
    (fault,) = told["burn_in"]["injected"]
    assert "found in" in fault["outcome"]
