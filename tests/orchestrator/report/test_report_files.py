"""Writing reports: impossible places, refusing disks, and several processes at once."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator import report
from orchestrator.config.report_formats import ReportFormat
from orchestrator.report import files
from protocol.exit_codes import ExitCode
from tests.fakes.nvml import ROOT
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]


def finished(folder: Path) -> FakeRun:
    """A finished run of one cell."""
    run = FakeRun(folder, batch_sizes=(1,))
    run.measured(run.cell())
    run.finish()
    return run


def test_report_renews_every_file(invoke: Invoke, tmp_path: Path) -> None:
    """A plain `report` renews every file of the run, -f the named ones only."""
    paths = finished(tmp_path / "run").paths
    files = [paths.report(kind) for kind in report.by_importance(ReportFormat)]
    for options, renewed in (((), files), (("-f", "txt"), [paths.report("txt")])):
        for file in files:
            file.write_text("of long ago")
        done = invoke("report", str(paths.folder), *options)
        assert (done.exit_code, done.stdout.split()) == (ExitCode.PASSED, [str(file) for file in renewed]), done.output
        assert [file for file in files if file.read_text() != "of long ago"] == renewed


def test_the_folder_of_a_run_may_be_read_only(tmp_path: Path) -> None:
    """The report can be written elsewhere with -o, as the message says."""
    run = finished(tmp_path / "run").paths.folder
    script = f'mount --bind {run} {run} && mount -o remount,bind,ro {run} && exec "$@"'
    unshared = ("unshare", "--mount", "sh", "-c", script, "sh")
    if shutil.which("unshare") is None or subprocess.run([*unshared, "true"], check=False).returncode:
        pytest.skip("mounts cannot be made here (no CAP_SYS_ADMIN)")

    def made(*options: str) -> subprocess.CompletedProcess[str]:
        command = (*unshared, sys.executable, "-m", "orchestrator", "report", str(run), *options)
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    refused = made()
    assert refused.returncode == ExitCode.USAGE
    assert re.fullmatch(rf"error: {run}: .*: {os.strerror(errno.EROFS)}\. .*`-o FILE`.*\n", refused.stderr)
    assert made("-o", str(tmp_path / "out.json")).stdout == f"{tmp_path / 'out.json'}\n"


PUBLISHER = """
import os, sys, time
from pathlib import Path
from orchestrator.config.report_formats import ReportFormat
from orchestrator.report import files
number, begin, place = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
print(flush=True)
while not begin.exists():
    time.sleep(0.001)
for turn in range(20):
    files.parts = lambda *_: (f"{number} {turn}".encode(),)
    files.publish(None, place, (ReportFormat.JSON,))
"""


def test_reports_of_several_processes_to_one_name_are_all_kept(tmp_path: Path) -> None:
    """Six processes, each with twenty reports at the same time."""
    begin, place = tmp_path / "begin", tmp_path / "out" / "report.json"
    command = (sys.executable, "-c", PUBLISHER)
    processes = [
        subprocess.Popen([*command, str(number), begin, place], cwd=ROOT, stdout=subprocess.PIPE) for number in range(6)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    begin.touch()
    assert [process.communicate(timeout=60) and process.returncode for process in processes] == [0] * 6
    contents = [path.read_text() for path in place.parent.iterdir()]
    assert sorted(contents) == sorted(f"{number} {turn}" for number in range(6) for turn in range(20))


def test_a_disk_without_links_takes_reports_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As exFAT and some network mounts; the older report is kept."""

    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    made = finished(tmp_path / "run").report()
    for words in (b"first", b"second"):
        monkeypatch.setattr(files, "parts", lambda *_, words=words: (words,))
        report.publish(made, tmp_path / "out" / "report.json", (ReportFormat.JSON,))
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"report.1.json": b"first", "report.json": b"second"}
