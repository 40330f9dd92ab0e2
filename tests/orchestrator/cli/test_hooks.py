"""Commands that are told how a run ended: what they get, what they cannot change, and how long they may take."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.cli import hooks
from orchestrator.cli.exit_notification import Ending
from orchestrator.errors import ConfigError
from orchestrator.system import log_files
from orchestrator.system.stop_signals import StopSignals
from protocol.paths import RunPaths
from tests.fakes.commands import TINY, python

END = {
    "GPUBENCH_EXIT_CODE": "4",
    "GPUBENCH_VERDICT": "incomplete",
    "GPUBENCH_SUMMARY": "it ended",
    "GPUBENCH_RUN_FOLDER": "/runs/one",
    "GPUBENCH_REPORT": "/a.json",
}
SHOW = "import os; print(*sorted(k + '=' + v for k, v in os.environ.items() if k.startswith('GPUBENCH_')), sep='|')"


def test_a_command_is_told_through_its_environment(tmp_path: Path) -> None:
    """Exit code, verdict, summary, run folder and report; what it prints is in the log."""
    log = tmp_path / "on-finish.log"
    assert hooks.call((sys.executable, "-c", SHOW), END, log) == ""
    assert log.read_text() == (
        "GPUBENCH_EXIT_CODE=4|GPUBENCH_REPORT=/a.json|GPUBENCH_RUN_FOLDER=/runs/one|"
        "GPUBENCH_SUMMARY=it ended|GPUBENCH_VERDICT=incomplete\n"
    )


def test_the_paths_that_are_told_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may change its folder, and `-o report.json` is seen from the one that gpubench was started in."""
    monkeypatch.chdir(tmp_path)
    with StopSignals() as stop_signals:
        ending = Ending(stop_signals)
    ending.paths, ending.report_path = RunPaths(Path("runs/one")), Path("a.json")
    told = ending.environment(None)
    assert (told["GPUBENCH_RUN_FOLDER"], told["GPUBENCH_REPORT"]) == (f"{tmp_path}/runs/one", f"{tmp_path}/a.json")


def test_no_shell_reads_the_words(tmp_path: Path) -> None:
    """Quotes keep words together; variables, pipes and semicolons are plain characters."""
    words = hooks.parse("echo 'a  b' $HOME ; | x", "--on-finish")
    assert words == ("echo", "a  b", "$HOME", ";", "|", "x")
    assert hooks.call(words, END, tmp_path / "log") == ""
    assert (tmp_path / "log").read_text() == "a  b $HOME ; | x\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mail 'me", "No closing quotation"),
        ("  ", "empty"),
        ("no-such-program --now", "'no-such-program'"),
    ],
)
def test_a_command_that_cannot_be_called_is_refused_at_once(line: str, words: str) -> None:
    """Before the burn-in, with the option's name."""
    with pytest.raises(ConfigError, match=f"--on-failure: .*{words}"):
        hooks.parse(line, "--on-failure")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit(7)", "exit code 7"),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", "SIGKILL"),
    ],
)
def test_a_command_that_fails_is_a_sentence(tmp_path: Path, source: str, words: str) -> None:
    """With its cause, and no exception."""
    assert words in hooks.call((sys.executable, "-c", source), END, tmp_path / "log")


def test_a_log_that_cannot_be_written_keeps_nobody_from_being_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder of the run is gone, or its disk read-only: that is when somebody should be told."""
    source = "import sys; print('heard'); open(sys.argv[1], 'w')"
    assert hooks.call((sys.executable, "-c", source, str(tmp_path / "told")), END, tmp_path / "gone" / "log") == ""
    assert (tmp_path / "told").exists()
    assert capfd.readouterr().err == "heard\n"


def test_what_a_command_prints_is_held_below_a_cap(tmp_path: Path) -> None:
    """One that prints without end fills no disk: the middle is given back while it goes on."""
    source = "import os, sys\nblock = b'x' * 65536\nfor _ in range(1600): os.write(1, block)\nopen(sys.argv[1], 'w')"
    log = tmp_path / "log"
    assert hooks.call((sys.executable, "-c", source, str(tmp_path / "done")), END, log) == ""
    assert (tmp_path / "done").exists()
    assert log.stat().st_blocks * 512 <= log_files.CAP_BYTES


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Nothing of it is left after its time."""
    pids = tmp_path / "pids"
    source = (
        "import os, subprocess, time; child = subprocess.Popen(['sleep', '1000']);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); time.sleep(1000)"
    )
    began = time.monotonic()
    assert "3 s" in hooks.call((sys.executable, "-c", source), END, tmp_path / "log", limit_s=3.0)
    assert time.monotonic() - began < 3.0 + 10.0
    left = [psutil.Process(pid) for pid in map(int, pids.read_text().split()) if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs([process for process in left if process.status() != psutil.STATUS_ZOMBIE], timeout=5)
    assert alive == []


@pytest.mark.parametrize(("moment", "limit_s", "said"), [("started", 60.0, "interrupted"), ("ended", 0.2, "0.2 s")])
def test_a_signal_in_the_wrong_moment_leaves_no_command_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, limit_s: float, said: str
) -> None:
    """Between the start of a process and the first line that knows its number, or while it is ended already."""
    begun: list[int] = []
    start, kill = hooks._started, os.killpg

    def started(*told: Any) -> subprocess.Popen[bytes]:
        process = start(*told)
        begun.append(process.pid)
        if moment == "started":
            signal.raise_signal(signal.SIGINT)
        return process

    def killpg(pid: int, number: int) -> None:
        if moment == "ended":
            signal.raise_signal(signal.SIGINT)
        kill(pid, number)

    monkeypatch.setattr(hooks, "_started", started)
    monkeypatch.setattr(os, "killpg", killpg)
    assert said in hooks.call(("sleep", "1000"), END, tmp_path / "log", limit_s)
    assert not psutil.pid_exists(begun[0])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# From the command line.


def hook(folder: Path) -> str:
    """A command that appends what it was told to a file, and then fails."""
    script = folder / "hook.py"
    script.write_text(
        "import os, sys\n"
        "names = ('EXIT_CODE', 'VERDICT', 'RUN_FOLDER', 'REPORT', 'SUMMARY')\n"
        f"with open({str(folder / 'told')!r}, 'a') as file:\n"
        "    print(sys.argv[1], *(os.environ['GPUBENCH_' + name] for name in names), sep='|', file=file)\n"
        "print('words of it')\n"
        "sys.exit(9)\n"
    )
    return f"{sys.executable} {script}"


def calls(folder: Path) -> list[list[str]]:
    """What the command was told, call by call."""
    file = folder / "told"
    return [line.split("|") for line in file.read_text().splitlines()] if file.exists() else []


def test_commands_and_log_collectors_are_told_how_a_run_begins_and_ends(tmp_path: Path) -> None:
    """One object a line: what is measured, each launch, the outcome. Only --on-finish is called, and cannot fail it.

    Words behind the program of a command, such as a secret, are in no file of the run and in no report.
    """
    command, secret = hook(tmp_path), "Authorization: Bearer 4711"
    ended = python(
        *("-m", "orchestrator", *TINY, "-i", "3", "-w", "1", "-o", "out.json", "-f", "json,csv,txt"),
        *("--log-format", "json", "--on-finish", f"{command} finish '{secret}'", f"--on-failure=true '{secret}'"),
        cwd=tmp_path,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    events = {event["event"]: event for event in map(json.loads, ended.stderr.splitlines())}
    assert list(events)[:2] == ["run_started", "importing"]
    [folder] = (tmp_path / "runs").iterdir()
    begun, cell, over = events["run_started"], events["cell_ended"], events["run_ended"]
    assert (begun["run_id"], begun["folder"], begun["cells"], begun["launches"]) == (folder.name, str(folder), 1, 1)
    assert [device["device"] for device in begun["devices"]] == [cell["device"]] == ["cpu:0"]
    assert cell["iteration_ms"] > 0
    [metrics] = json.loads((tmp_path / "out.json").read_text())["results"][0]["inference_metrics"].values()
    assert cell["items_per_second"] == metrics["throughput_samples_per_sec"]
    assert cell["cell_id"] == metrics["cell"]
    assert (over["exit_code"], over["verdict"], over["cells"]["planned"]) == (0, "complete", 1)
    report, log = tmp_path / "out.json", folder / "on-finish.log"
    assert over["reports"] == [str(tmp_path / f"out.{suffix}") for suffix in ("json", "csv", "txt")]
    line = ended.stdout.splitlines()[-1]
    assert re.fullmatch(rf"{folder.name}: complete, 1 of 1 .* 0; .*{report}", line)
    assert calls(tmp_path) == [["finish", "0", "complete", str(folder), str(report), line]]
    assert (log.read_text(), ended.returncode) == ("words of it\n", 0)
    warning = events["notice"]["message"]
    assert [part for part in ("--on-finish", "exit code 9", str(log)) if part not in warning] == []
    kept = json.loads(report.read_text())["metadata"]["command"][-3:]
    assert kept == ["--on-finish", f"{sys.executable} …", "--on-failure=true …"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.yaml", "journal.gpj", "out.json", "out.csv", "out.txt"} <= {path.name for path in files}
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("run", "--on-finish", "notify", "-b", "1"), ("run", "--on-finish", "notify", "-b", "1")),
        (("--on-failure", "'my curl' -H key"), ("--on-failure", "my curl …")),
        (("--on-finish=curl  'key=a b'", "--seed", "5"), ("--on-finish=curl …", "--seed", "5")),
        (("--on-finish", "curl 'key", "--on-finish=true"), ("--on-finish", "…", "--on-finish=true")),
        (("-o", "on finish.json", "--models-file=a b"), ("-o", "on finish.json", "--models-file=a b")),
    ],
)
def test_a_command_line_is_kept_without_what_follows_a_program(words: tuple[str, ...], kept: tuple[str, ...]) -> None:
    """Of --on-finish and --on-failure the first word, in either way to write them, and all of the other options."""
    assert hooks.recorded(words) == kept


def test_a_run_that_never_began_is_told_too(tmp_path: Path) -> None:
    """Refused before there is a folder: both are called, the failure first, with the error for a summary."""
    command = hook(tmp_path)
    ended = python(
        *("-m", "orchestrator", "--gpu-ids", "cpu:0", "-m", "resnet5", "--quiet"),
        *("--on-finish", f"{command} finish", "--on-failure", f"{command} failure"),
        cwd=tmp_path,
    )
    assert ended.returncode == 2
    heard = calls(tmp_path)
    assert [call[:5] for call in heard] == [["failure", "2", "", "", ""], ["finish", "2", "", "", ""]]
    assert all("no model named 'resnet5'" in call[5] for call in heard)


def test_a_terminal_that_goes_at_the_very_end_changes_nothing(tmp_path: Path) -> None:
    """A hang-up while somebody is told: the command ends with its own exit code, and the next one is told too."""
    options = ("--on-failure", "sh -c 'kill -HUP $PPID'", "--on-finish", f"{hook(tmp_path)} finish")
    ended = python("-m", "orchestrator", "--gpu-ids", "cpu:0", "-m", "resnet5", *options, cwd=tmp_path)
    assert ended.returncode == 2
    assert [call[:2] for call in calls(tmp_path)] == [["finish", "2"]]


def test_a_rehearsal_tells_nobody(tmp_path: Path) -> None:
    """--dry-run runs nothing, so there is nothing to tell; a command that is not there is refused all the same."""
    command = hook(tmp_path)
    python("-m", "orchestrator", *TINY, "--dry-run", "--on-finish", command, cwd=tmp_path)
    assert calls(tmp_path) == []
    refused = python("-m", "orchestrator", *TINY, "--dry-run", "--on-finish", "no-such-program", cwd=tmp_path)
    assert refused.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["hook.py"]
