"""A disk that is full in the middle of a run: a real file system of 64 KiB, in a mount namespace of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import ROOT

MOUNT = 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"'

LAST_WORD = """
import json, sys
from pathlib import Path
from orchestrator.disk import journal
from orchestrator.errors import StorageError
from orchestrator.disk.records import Finished, Start
path = Path(sys.argv[1], "journal.gpj")
written = 0
with journal.Journal(path) as opened:
    kept = path.with_suffix(".reserve").stat().st_blocks * 512
    try:
        while True:
            opened.append(Start(launch=written, cell="c" * 900, round=0, attempt=1, batch_size=1, device="d", at_ns=1))
            written += 1
    except StorageError as error:
        message = str(error)
    torn = path.stat().st_size % 4096 == 0  # the last record was written up to the end of a page
    reason = f"stopped: {message}; " + "more than what was cut short left free" * 40
    said = opened.last_word(Finished(at_ns=2, interrupted=True, reason=reason, broken=True))
records = journal.read(path)
files = [one.name for one in path.parent.iterdir()]
print(json.dumps([kept, written, torn, said, len(records), records[-1].reason, files]))
"""

RUN = """
import json, subprocess, sys
from pathlib import Path
from orchestrator.disk import journal
from orchestrator.disk.records import End, Finished
from protocol.paths import RunPaths
from tests.fakes import faults
folder = Path(sys.argv[1], "run")
faults.prepare(folder, *[faults.model(f"m{number}") for number in range(12)])
resume = [sys.executable, "-m", "orchestrator", "resume", str(folder)]
run = subprocess.run(resume, capture_output=True, text=True)
records = journal.read(RunPaths(folder).journal)
ends = [one for one in records if isinstance(one, End)]
status = subprocess.run([*resume[:-2], "status", str(folder)], capture_output=True, text=True)
subprocess.run(["mount", "-o", "remount,size=16m", sys.argv[1]], check=True)
again = subprocess.run(resume, capture_output=True, text=True)
print(json.dumps({
    "code": run.returncode, "said": run.stderr, "status": status.stdout,
    "finished": [one.reason for one in records if isinstance(one, Finished)],
    "blamed": [one.failure.message for one in ends if one.failure],
    "measured": sum(one.failure is None for one in ends),
    "again": again.returncode, "files": [one.name for one in folder.iterdir()],
    "results": len(list(folder.glob("launches/*/*/result.msgpack"))),
}))
"""


def on_a_small_disk(folder: Path, script: str) -> Any:
    """Run a script whose first argument is a folder in which 64 KiB can be written."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(disk)]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here (unshare --map-root-user --mount)")
    done = subprocess.run(
        [*command, sys.executable, "-c", script, str(disk)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_room_that_was_kept_holds_the_last_word(tmp_path: Path) -> None:
    """Records until the disk is full, without the one that was cut short, then why it stopped; no file is left over."""
    kept, written, torn, said, records, reason, files = on_a_small_disk(tmp_path, LAST_WORD)
    assert kept >= 16 * 1024
    assert written > 10
    assert torn is True
    assert said is True
    assert records == written + 1
    assert reason.startswith("stopped: ")
    assert "journal.gpj: cannot be written: No space left on device" in reason
    assert files == ["journal.gpj"]


def test_a_run_on_a_disk_that_is_full_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Exit code 5 with what to do; no cell is blamed; `status` knows why; with room, resume measures the rest."""
    told = on_a_small_disk(tmp_path, RUN)
    assert told["code"] == 5
    disk = tmp_path / "disk"
    advice = f"Free space on the file system at {disk}, but not in {disk}/run, where everything measured is, then"
    assert f"No space left on device. {advice} `gpubench-orchestrate report" in told["said"]
    assert told["measured"] > 0
    assert told["blamed"] == []
    (reason,) = told["finished"]
    assert "No space left on device" in reason
    assert "No space left on device" in told["status"]
    assert told["again"] == 0
    assert told["results"] == 12
    assert "journal.reserve" not in told["files"]
    assert "journal.asked" not in told["files"]
