"""Folders that a run writes to: chosen, checked and made before anything starts."""

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import pytest

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue, settings
from orchestrator.config import resolution as config
from orchestrator.config.report_formats import ReportFormat
from orchestrator.errors import ConfigError, StorageError
from orchestrator.store import folders
from protocol.exit_codes import ExitCode
from tests.fakes import faults
from tests.fakes.commands import python
from tests.fakes.configurations import DEFAULTS
from tests.fakes.node import ROOT


def test_weights_are_kept_where_caches_are(tmp_path: Path) -> None:
    """XDG_CACHE_HOME, else HOME, else the temporary folder."""
    home = str(tmp_path)
    assert folders.default_cache({"XDG_CACHE_HOME": "/x", "HOME": home}, 7) == Path("/x/gpubench")
    assert folders.default_cache({"XDG_CACHE_HOME": "relative", "HOME": home}, 7) == tmp_path / ".cache/gpubench"
    assert folders.default_cache({"HOME": home}, 7) == tmp_path / ".cache/gpubench"
    for environment in ({}, {"HOME": ""}, {"HOME": str(tmp_path / "none")}):
        assert folders.default_cache(environment, 7).name == "gpubench-cache-7"


@pytest.mark.parametrize("home", [None, "/home/none"])
def test_a_run_needs_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """The default folder for weights is still named, so that other commands work."""

    def full() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    environment = {} if home is None else {"HOME": home}
    assert folders.default_cache(environment, 7) == Path("/tmp/gpubench-cache-7")
    with pytest.raises(ConfigError, match=r"^no temporary folder .*TMPDIR"):
        require_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_start_leaves_no_folder(tmp_path: Path) -> None:
    """Neither if its first file is refused nor if its folder is; the message has advice."""
    now = datetime(2026, 4, 1)

    def begin(runs: Path, origin: str) -> None:
        with folders.new_run(runs, origin, now) as paths:
            paths.plan.write_text("{}")
            raise StorageError("run.yaml: full")

    with pytest.raises(ConfigError, match=r"^run\.folder: run\.yaml: full\. .*Free"):
        begin(tmp_path, "run.folder")
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=rf"^--runs-folder: .*/file: .*{os.strerror(errno.ENOTDIR)}. Nothing"):
        begin(file, "--runs-folder")


def require_writable(tmp_path: Path, *, make: bool = True, **changes: str) -> None:
    """Check a configuration that writes into `tmp_path` only."""
    values = {"path": "out/deep/report.json", "folder": "runs", "cache": "cache"} | changes
    keys = {"output.path": values["path"], "run.folder": values["folder"], "run.cache": values["cache"]}
    origins = {"output.path": "-o/--output", "run.folder": "night.yaml, line 7, run.folder"}
    everything = config.gather(OPTIONS, DEFAULTS, None, settings.from_options(keys, origins, OPTIONS))
    resolved = config.resolve(everything, catalogue.load(), config.Places(tmp_path, tmp_path))
    folders.require_writable(resolved, everything, make=make)


def test_missing_folders_are_made_unless_it_is_a_dry_run(tmp_path: Path) -> None:
    """A dry run checks the nearest existing folder."""
    require_writable(tmp_path, make=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"/proc/none/deeper: cannot be written"):
        require_writable(tmp_path, make=False, folder="/proc/none/deeper")
    require_writable(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "runs", "cache"}
    assert list((tmp_path / "out/deep").iterdir()) == []


def test_resume_finds_the_newest_run(tmp_path: Path) -> None:
    """By the second in its name, then by the time of its run.yaml, without which a folder is no run."""
    for at_ns, name in enumerate(("20260102-000000-bbbbbb", "20260102-000000-aaaaaa", "20260101-000000-cccccc")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.yaml").touch()
        os.utime(tmp_path / name / "run.yaml", ns=(at_ns, at_ns))
    (tmp_path / "20260103-000000-ffffff").mkdir()
    assert folders.existing_run(None, str(tmp_path)).folder.name == "20260102-000000-aaaaaa"


@pytest.mark.parametrize("name", ["pipe", "link", "/dev/null", "/dev/stdout", "/dev/gpubench.json"])
def test_no_report_takes_the_place_of_a_device(tmp_path: Path, name: str) -> None:
    """As root, `-o /dev/null` would replace it for the whole machine."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    path = tmp_path / name
    with pytest.raises(ConfigError, match=r"^-o: .*a pipe"):
        folders.require_file(path, "-o")
    with pytest.raises(ConfigError, match=r"^-o: .*a pipe"):
        folders.require_place(path, (ReportFormat.JSON,), "-o", make=True)


def test_a_file_is_refused_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """With option and reason; the check leaves nothing behind."""
    with pytest.raises(ConfigError, match=r"^--junit: /proc: .* x\.xml"):
        folders.require_file(Path("/proc/x.xml"), "--junit")
    folders.require_file(tmp_path / "x.xml", "--junit")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "message"), [(0o755, "may not write"), (0o000, f"read: {os.strerror(errno.EACCES)}")])
def test_the_run_of_another_user_is_refused(tmp_path: Path, mode: int, message: str) -> None:
    """If a process without root may not write or not read it."""
    run = tmp_path / "run"
    run.mkdir()
    for name in ("run.yaml", "lock"):
        (run / name).touch(mode=0o444)
    run.chmod(mode)
    source = """
import os
from orchestrator import errors
from orchestrator.store import folders
if os.geteuid() == 0:
    os.chown("run", 65533, 65533)
    os.chmod(".", 0o755)
    os.seteuid(65534)
try:
    folders.require_ours(folders.existing_run("run", "runs"))
except errors.RunFolderError as error:
    print(error)
"""
    told = python("-c", source, cwd=tmp_path)
    run.chmod(0o755)
    assert message in told.stdout, told.stderr


def test_a_run_on_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    """Also for root and the owner, with advice."""
    run = tmp_path / "run"
    faults.prepare(run, faults.model("good"))
    script = f'mount --bind {run} {run} && mount -o remount,bind,ro {run} && exec "$@"'
    unshared = ("unshare", "--mount", "sh", "-c", script, "sh")
    if shutil.which("unshare") is None or subprocess.run([*unshared, "true"], check=False).returncode:
        pytest.skip("mounts cannot be made here (no CAP_SYS_ADMIN)")
    command = (*unshared, sys.executable, "-m", "orchestrator", "resume", str(run))
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == ExitCode.USAGE
    assert re.match(rf"error: {run}: .*{os.strerror(errno.EROFS)}.*report {run} -o FILE`", ended.stderr)
