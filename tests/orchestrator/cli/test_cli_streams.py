"""Standard streams: closed, full, or read by a log collector; a run ends as it would have without them."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.cli import streams
from orchestrator.config.report_formats import ReportFormat
from orchestrator.engine import run
from orchestrator.errors import StorageError
from protocol.exit_codes import ExitCode
from tests.fakes import faults
from tests.fakes.commands import TINY
from tests.fakes.nvml import ROOT

Invoke = Callable[..., Result]


def in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`python -m orchestrator` with redirections."""
    return subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m orchestrator {command}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("mistake", ["--no-such-option 2>&-", "--gpu-ids cpu:0 -m resnet5 2>/dev/full"])
def test_errors_that_nobody_can_read_keep_their_exit_code(tmp_path: Path, mistake: str) -> None:
    """Standard error may be closed, or full: a mistake ends with 2 all the same."""
    assert in_shell(mistake, tmp_path).returncode == ExitCode.USAGE


HOSTILE = "\x1b]0;owned\x07\u202e\r"


@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_that_is_said_steers_the_terminal(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    """Names of files and words of others come through without control characters, lines stay."""
    with streams.with_log_format(["--log-format", "json"] if as_json else []):
        streams.complain(f"error: {HOSTILE}a\nb")
    streams.say(f"{HOSTILE}a\nb")
    said, complained = capsys.readouterr()
    assert said == "�]0;owned���a\nb\n"
    assert "�]0;owned���a" in (json.loads(complained)["message"] if as_json else complained)
    assert all(char.isprintable() or char == "\n" for char in complained)


def test_a_name_that_is_refused_steers_nothing(invoke: Callable[..., Result]) -> None:
    """A folder of that name is not there."""
    refused = invoke("resume", HOSTILE)
    assert refused.exit_code == 2
    assert "�]0;owned���: " in refused.stderr
    assert "\x1b" not in refused.output


FULL = ">/dev/full"


@pytest.mark.parametrize(("command", "where"), [("list-models", ">&-"), ("info", FULL), ("run --help", FULL)])
def test_what_cannot_be_printed_is_an_error_of_one_line(tmp_path: Path, command: str, where: str) -> None:
    """These commands have no other purpose."""
    ended = in_shell(f"{command} {where}", tmp_path)
    why = os.strerror(errno.ENOSPC) if where == FULL else "it is closed"
    assert ended.returncode == ExitCode.INTERNAL
    assert re.fullmatch(rf"error: standard output .*: {why}\n", ended.stderr)


@pytest.mark.parametrize("command", ["list-models", "--help"])
def test_a_reader_who_leaves_changes_nothing(command: str) -> None:
    """`| head -0`: no complaint about a broken pipe, and the exit code is the command's own."""
    read, write = os.pipe()
    os.close(read)
    source = f"import os; os.dup2({write}, 1); import runpy; runpy.run_module('orchestrator')"
    ended = subprocess.run(
        [sys.executable, "-c", source, *command.split()],
        cwd=ROOT,
        pass_fds=[write],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_run_ends_as_it_would_have_without_its_streams(tmp_path: Path) -> None:
    """Measured and published; where the summary cannot go, standard error names the report."""
    for name in ("a", "b"):
        faults.prepare(tmp_path / name / "run", faults.model("good"), formats=(ReportFormat.JSON,))
    first, second = (tmp_path / name / "run" / "out" / "report.json" for name in ("a", "b"))
    full = in_shell("resume a/run >/dev/full", tmp_path)
    assert full.returncode == ExitCode.PASSED, full.stderr
    assert re.search(rf"warning: standard output .*: {os.strerror(errno.ENOSPC)}\. .* {first}\n$", full.stderr)
    silent = in_shell("resume b/run >&- 2>&-", tmp_path)
    assert (silent.returncode, silent.stdout, silent.stderr) == (ExitCode.PASSED, "", "")
    for report in (first, second):
        assert json.loads(report.read_text())["summary"]["cells"]["ok"] == 1


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_a_log_collector_gets_objects_alone(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    """Warnings, errors and tracebacks of every end, and run_ended with each."""
    for raised, code in ((StorageError("full"), 5), (ZeroDivisionError("x"), 5), (KeyboardInterrupt(), 4)):

        def execute(*_: object, error: BaseException = raised, **__: object) -> None:
            raise error

        monkeypatch.setattr(run, "execute", execute)
        ended = invoke(*TINY, *quiet, "--log-format=json", "--on-failure", "false")
        assert ended.exit_code == code
        told = [json.loads(line) for line in ended.stderr.splitlines()]
        assert all({"timestamp", "level", "event"} <= set(each) for each in told)
        [over] = [each for each in told if each["event"] == "run_ended"]
        assert (over["exit_code"], over["verdict"]) == (code, None)
        assert told[-1]["level"] == "error"
        warned = [each["message"] for each in told if each["level"] == "warning"]
        assert any(re.search("--on-failure .*: exit code 1", message) for message in warned)
        assert f", exit code {code}; run: " in ended.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "--log-format", "json", "--no-such-option"), True),
        (("--log-format", "json", "-m", "resnet5", "--gpu-ids", "cpu:0"), True),
        (("--log-format", "json", "--log-format", "text", "--no-such-option"), False),
        (("--no-such-option",), False),
    ],
)
def test_what_is_refused_is_told_as_asked(invoke: Invoke, words: tuple[str, ...], expected: bool) -> None:
    """Also where the command line cannot be understood; and the next command is asked anew."""
    for asked, as_object in ((words, expected), (("no-such-command",), False)):
        ended = invoke(*asked)
        assert ended.exit_code == ExitCode.USAGE
        if as_object:
            [line] = ended.stderr.splitlines()
            told = json.loads(line)
            assert (told["event"], told["level"]) == ("notice", "error")
            assert re.match(".*no option|-m/--models: .*'resnet5'", told["message"])
        else:
            assert ended.stderr.startswith("error: ")
