"""A disk that is full before, in or after a run: a real file system of few KiB, in a mount namespace of its own."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import ROOT

FULL = os.strerror(errno.ENOSPC)
MOUNT = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'

LAST_WORD = """
import json, sys
from pathlib import Path
from orchestrator.store import journal
from orchestrator.errors import StorageError
from orchestrator.store.journal_records import Finished, Start
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
from orchestrator.store import journal
from orchestrator.store.journal_records import End, Finished
from protocol.paths import RunPaths
from tests.fakes import faults
folder = Path(sys.argv[1], "run")
CELLS = 12
faults.prepare(folder, *[faults.model(f"m{number}") for number in range(CELLS)])
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
    "measured": sum(one.failure is None for one in ends), "planned": CELLS,
    "again": again.returncode, "files": [one.name for one in folder.iterdir()],
    "results": len(list(folder.glob("launches/*/*/result.msgpack"))),
}))
"""


REPORTS = """
import json, subprocess, sys
from pathlib import Path
from protocol.paths import RunPaths
from tests.fakes import faults
disk = Path(sys.argv[1])
folder, told = disk / "run", disk / "told"
faults.prepare(folder, *[faults.model(f"m{number}") for number in range(8)])
def called(command, *options):
    words = [sys.executable, "-m", "orchestrator", command, str(folder), *options]
    done = subprocess.run(words, capture_output=True, text=True)
    files = {str(one.relative_to(disk)): one.stat().st_ino for one in [*folder.glob("report.*"), *folder.glob("out/*")]}
    return done.returncode, done.stdout, done.stderr, files
hook = "sh -c 'echo $GPUBENCH_EXIT_CODE $GPUBENCH_REPORT > " + str(told) + "'"
said = [called("resume", "--quiet", "--on-failure", hook), told.read_text(), called("status")]
said.append(called("resume", "--quiet"))
subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
launches = list(folder.glob("launches/*/*"))
said += [called("resume", "--quiet"), called("status")]
print(json.dumps([*said, launches == list(folder.glob("launches/*/*"))]))
"""

BEGINNING = """
import json, subprocess, sys
from pathlib import Path
disk = Path(sys.argv[1])
runs = disk / "runs"
runs.mkdir()
(disk / "fill").write_bytes(bytes(int(sys.argv[2])))
from tests.fakes.commands import TINY
words = [sys.executable, "-m", "orchestrator", *TINY, "--quiet", "--runs-folder", str(runs), "-o", sys.argv[3]]
done = subprocess.run(words, capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr, len(list(runs.iterdir()))]))
"""

NO_TEMPORARY = """
import json, os, subprocess, sys
from pathlib import Path
disk, elsewhere = Path(sys.argv[1]), sys.argv[3]
(disk / "fill").write_bytes(bytes(int(sys.argv[2])))
for folder in [Path(name) for name in ("/var/tmp", "/usr/tmp", "/tmp") if Path(name).is_dir()]:  # /tmp hides the disk
    subprocess.run(["mount", "--bind", str(disk), str(folder)], check=True)
from tests.fakes.commands import TINY
environment = {name: os.environ[name] for name in ("PATH",)} | {"PYTHONPATH": os.getcwd()}
def called(*words, **more):
    done = subprocess.run([sys.executable, "-m", "orchestrator", *words], env=environment | more, cwd="/tmp",
        capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
run = (*TINY, "--quiet", "--runs-folder", elsewhere + "/runs", "-o", elsewhere + "/r.json")
print(json.dumps([called("doctor"), called("selftest", "--gpu-ids", "cpu:0"), called(*run),
    called(*run, "--dry-run", TMPDIR="/dev/shm")]))
"""


def on_a_small_disk(folder: Path, script: str, *more: str, size: int = 64 * 1024) -> Any:
    """Run a script whose first argument is a folder in which so many bytes can be written; more: the further ones."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", str(size), str(disk)]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here (unshare --map-root-user --mount)")
    done = subprocess.run(
        [*command, sys.executable, "-c", script, str(disk), *more],
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
    assert (torn, said, records) == (True, True, written + 1)
    assert written > 10
    assert re.search(rf"journal\.gpj: .*{FULL}", reason)
    assert files == ["journal.gpj"]


def test_a_run_on_a_disk_that_is_full_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Exit code 5 with what to do; no cell is blamed; `status` knows why; with room, resume measures the rest."""
    told = on_a_small_disk(tmp_path, RUN)
    assert told["code"] == 5
    assert re.search(rf"{FULL}\. Free .* {tmp_path / 'disk'}", told["said"])
    assert told["measured"] > 0
    assert told["blamed"] == []
    (reason,) = told["finished"]
    assert FULL in reason
    assert FULL in told["status"]
    assert (told["again"], told["results"]) == (0, told["planned"])
    assert not {"journal.reserve", "journal.asked"} & {*told["files"]}


def test_a_report_that_does_not_fit_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    """The page alone is missing; who is told gets the others; `resume` ends with 0 only once nothing is missing."""
    first, told, status, full, room, after, unlaunched = on_a_small_disk(tmp_path, REPORTS, size=900 * 1024)
    run = tmp_path / "disk" / "run"
    page = "run/report.html"
    small = {f"run/{place}report.{kind}" for place in ("", "out/") for kind in ("json", "csv", "txt")}
    refusal = f"{run}/report.html: cannot be written: {FULL}. "
    code, line, error, files = first
    assert (code, set(files)) == (5, small), first
    assert re.search(" 8 of 8 .*, exit code 5", line)
    assert refusal in error
    assert f"`gpubench-orchestrate resume {run}`" in error
    assert told == f"5 {run}/out/report.json\n"
    assert [f"{run}/report.html" in line for line in status[1].splitlines() if line.startswith("Missing")] == [True]
    assert (full[0], full[3]) == (5, files)
    assert refusal in full[2]
    assert room[0] == 0, room
    assert {name: number for name, number in room[3].items() if name != page} == files
    assert page in room[3]
    assert "Missing" not in after[1]
    assert unlaunched is True


@pytest.mark.parametrize("free_kib", [4, 24, 40])
def test_a_run_for_which_there_is_no_room_leaves_no_folder(tmp_path: Path, free_kib: int) -> None:
    """Refused with exit code 2 and what to do, where its run.yaml does not fit, or its journal and first logs."""
    size = 128 * 1024
    filled, report = str(size - free_kib * 1024), f"{tmp_path}/r.json"
    code, line, error, folders = on_a_small_disk(tmp_path, BEGINNING, filled, report, size=size)
    assert (code, line, folders) == (2, "", 0), error
    assert error.startswith(f"error: --runs-folder: {tmp_path}/disk/runs")
    assert f": cannot be written: {FULL}. Nothing was started. " in error


def test_without_a_temporary_folder_everybody_says_what_to_do(tmp_path: Path) -> None:
    """All of /tmp, /var/tmp and the current folder are full: `doctor` finds it, selftest and run are refused."""
    hidden = [Path(name) for name in ("/var/tmp", "/usr/tmp", "/tmp")]
    if {*hidden} & {*ROOT.parents, *Path(sys.prefix).parents}:
        pytest.skip("gpubench itself lies in a temporary folder, which is hidden here")
    elsewhere = Path("/dev/shm", f"gpubench-{tmp_path.parent.name}-{tmp_path.name}")
    size = 64 * 1024
    doctor, selftest, run, fixed = on_a_small_disk(tmp_path, NO_TEMPORARY, str(size), str(elsewhere), size=size)
    assert doctor[0] == 4
    assert re.search(r"broken +Disk .*\n.*TMPDIR", doctor[1])
    for code, output, error in (selftest, run):
        assert (code, output, "TMPDIR" in error) == (2, "", True), error
    assert fixed[0] == 0, fixed
    assert not elsewhere.exists()
