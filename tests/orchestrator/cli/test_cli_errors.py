"""Bad input: each mistake with its message and its exit code, before anything is run or written."""

import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from protocol.exit_codes import ExitCode
from tests.fakes.commands import python
from tests.fakes.cuda import beside
from tests.fakes.nvml import ROOT, FakeNvml

Invoke = Callable[..., Result]


def test_a_report_is_rendered_without_its_run(invoke: Invoke, tmp_path: Path) -> None:
    """A report sent by mail, of any version: as text, or into the named file. Samples are not in it."""
    (tmp_path / "old.json").write_bytes((ROOT / "tests/golden/reports/v1/benchmark.json").read_bytes())
    for words, file in (((), None), (("-o", "page.html"), "page.html"), (("-o", "x", "-f", "csv,md"), "x.csv")):
        ended = invoke("report", "old.json", *words)
        assert ended.exit_code == 0
        assert (tmp_path / file).stat().st_size if file else "resnet50" in ended.stdout
    refused = {
        ("-f", "html"): "-o old.html",
        ("-f", "html,csv"): "-o old -f html,csv",
        ("-o", "x.samples.csv"): "launches/",
        ("--price", "2"): "--price needs a run",
        ("--history",): "--history needs a run",
    }
    for words, what in refused.items():
        ended = invoke("report", "old.json", *words)
        assert (ended.exit_code, what in ended.stderr) == (ExitCode.USAGE, True), ended.stderr


def test_a_file_that_is_no_report_is_refused_by_report(invoke: Invoke, tmp_path: Path) -> None:
    """A baseline too, which has no figures to show but for comparisons."""
    (tmp_path / "none.json").write_text("{}")
    (tmp_path / "base.json").write_text('{"baseline_version": 1}')
    for name, what in (("none", "`gpubench-orchestrate run -o "), ("base", "a baseline")):
        ended = invoke("report", f"{name}.json")
        assert (ended.exit_code, what in ended.stderr) == (ExitCode.USAGE, True), ended.stderr


def a_socket(path: Path) -> None:
    """One that nobody listens to."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("--config night.yaml", os.mkfifo),
        ("--models-file night.yaml", a_socket),
        ("-m night.py:Net", lambda path: path.symlink_to("/dev/zero")),
    ],
)
def test_what_is_no_file_is_refused_and_not_waited_for(
    invoke: Invoke, executed: list[object], tmp_path: Path, words: str, make: Callable[[Path], None]
) -> None:
    """A pipe that nobody writes to, a socket, a device without end."""
    option, file = words.split()
    make(tmp_path / file.partition(":")[0])
    ended = invoke("--gpu-ids", "cpu:0", option, file, "--allow-code")
    assert "a regular file" in " ".join(ended.stderr.split())
    assert (ended.exit_code, executed) == (ExitCode.USAGE, [])
    assert not [*tmp_path.glob("runs/*"), *tmp_path.glob("*.json")]


def test_a_folder_that_was_removed_is_no_place_to_start(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Somebody cleaned up under an open shell."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    ended = invoke("--gpu-ids", "cpu:0")
    monkeypatch.chdir(tmp_path)
    assert ended.exit_code == ExitCode.USAGE
    assert f"({os.strerror(errno.ENOENT)})" in ended.stderr


def test_without_its_libraries_it_says_how_to_install(tmp_path: Path) -> None:
    """A checkout in a Python that has nothing: one line, no traceback."""
    ended = python("-S", "-m", "orchestrator", cwd=tmp_path)
    assert ended.returncode == ExitCode.INTERNAL
    assert re.match(r"error: click .*`make install`", ended.stderr)
    assert ended.stderr.count("\n") == 1


def test_a_library_that_is_missed_late_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are imported only when they are needed."""
    monkeypatch.setitem(sys.modules, "orchestrator.config.catalogue", None)
    monkeypatch.delattr("orchestrator.config.catalogue")
    ended = invoke("list-models")
    assert (ended.exit_code, ended.stderr.count("\n")) == (ExitCode.INTERNAL, 1)
    assert "`make install`" in ended.stderr


def test_busy_gpus_are_not_measured(tmp_path: Path) -> None:
    """Somebody else's process is named, and nothing is started beside it unless that is asked for."""
    fake = FakeNvml(tmp_path, gpus=2)
    fake.set({"gpu.1.compute": f"{os.getpid()} 13207024435"})
    environment = {name: fake.environment[name] for name in ("LD_LIBRARY_PATH", "GPUBENCH_FAKE_NVML")}
    refused = python("-m", "orchestrator", "-m", "lstm", cwd=tmp_path, **environment, CUDA_VISIBLE_DEVICES="0,1")
    assert refused.returncode == ExitCode.USAGE
    assert f"(PID {os.getpid()}" in refused.stderr
    assert "--gpu-ids 0," in refused.stderr
    assert not (tmp_path / "runs").exists()


def on_broken_cuda(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program on two GPUs that NVML shows and that CUDA cannot use."""
    nvml = FakeNvml(folder, gpus=2)
    names = ("LD_LIBRARY_PATH", "GPUBENCH_FAKE_NVML")
    environment = {name: nvml.environment[name] for name in names} | beside(nvml, init=802)
    return python("-m", "orchestrator", *arguments, "-m", "lstm", cwd=folder, CUDA_VISIBLE_DEVICES="0,1", **environment)


def test_a_broken_cuda_is_refused_and_nothing_is_run(tmp_path: Path) -> None:
    """NVML is well; cuInit says that the fabric manager is not running. Never a silent fall-back to the CPU."""
    refused = on_broken_cuda(tmp_path)
    assert refused.returncode == ExitCode.USAGE
    assert re.search("^error: CUDA .* 802 ", refused.stderr, re.MULTILINE)
    assert "systemctl start nvidia-fabricmanager" in refused.stderr
    assert not list(tmp_path.glob("runs/*"))
    assert not list(tmp_path.glob("*.json"))


def test_a_plan_is_shown_where_cuda_is_broken(tmp_path: Path) -> None:
    """--dry-run shows it all the same, and says that a run would be refused, and why."""
    shown = on_broken_cuda(tmp_path, "--dry-run")
    assert shown.returncode == ExitCode.PASSED, shown.stderr
    told = " ".join(shown.stdout.split())
    assert "GPU 1" in told
    assert re.search("Note: .*not start.*: CUDA .* 802 ", told)
    assert not list(tmp_path.glob("runs/*"))
