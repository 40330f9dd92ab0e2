"""Bad input and bad ends: each with its message and its exit code, before or without a run."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from orchestrator import devices, reporting, run
from orchestrator.cli import program
from protocol.exit_codes import ExitCode
from tests.fakes.commands import python
from tests.fakes.nvml import ROOT, FakeNvml

TINY = ("--gpu-ids", "cpu:0", "-m", "lstm", "-b", "1", "--profile", "quick", "--phases", "inference")

Invoke = Callable[..., Result]


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-m resnet5", "error: -m/--models: no model named 'resnet5'. Did you mean resnet50? `torch-gpu-benchmark"),
        ("-m lstm,lstm", "-m/--models: lstm is given twice"),
        ("-m=", "-m/--models: no model named '='"),
        ("--models=", "-m/--models: a name is empty"),
        ("-m lstm,,resnet50", "-m/--models: a name is empty"),
        ("-p fp16", "-p/--precision: fp16 comes with a later version; now there is fp32 and bf16"),
        ("-p tf32", "-p/--precision: tf32 comes with a later version"),
        ("-p fp33", "-p/--precision: there is no precision 'fp33'. Did you mean fp32?"),
        ("-p fp32,fp32", "-p/--precision: fp32 is given twice"),
        ("-b 0", "-b/--batch-sizes: expected a whole number of at least 1, got 0"),
        ("-b -1", '-b/--batch-sizes: expected a whole number of at least 1, got "-1"'),
        ("-b many", '-b/--batch-sizes: expected a whole number of at least 1, got "many"'),
        ("-b 1,,2", '-b/--batch-sizes: expected a whole number of at least 1, got ""'),
        ("-b 8,1,8", "-b/--batch-sizes: 8 is given twice"),
        ("-b 99999999999", "-b/--batch-sizes: 99999999999 is too large"),
        ("-i 0", "-i/--iterations: expected a whole number of at least 1, got 0"),
        ("-w 0", "-w/--warmup: expected a whole number of at least 1, got 0"),
        ("-w -5", "-w/--warmup: expected a whole number of at least 1, got -5"),
        ("--launches 0", "--launches: expected a whole number of at least 1, got 0"),
        ("--seed -1", "--seed: expected a whole number of at least 0, got -1"),
        ("-i many", "Invalid value for '-i' / '--iterations': 'many' is not a valid integer"),
        ("--profile fast", "--profile: there is no profile 'fast'. There is quick, standard and rigorous."),
        ("--phases generation", "--phases: there is no phase 'generation'"),
        ("--isolation none", "Invalid value for '--isolation': 'none' is not one of 'fork', 'exec'."),
        ("-f html", "-f/--format: html comes with a later version; now there is json, csv and txt"),
        ("-f pdf", "-f/--format: there is no format 'pdf'"),
        ("-o report.html", "-o/--output: html comes with a later version"),
        ("-o .", "is a folder; name the report's file"),
        ("-o /proc/report.json", "/proc: cannot be written"),
        ("--runs-folder /proc/runs", "/proc/runs: cannot be written"),
        ("--compare-baseline old.json", "--compare-baseline comes with a later version"),
        ("--config none.yaml", "none.yaml: cannot be read: No such file or directory"),
        (
            "--config night.yaml",
            "night.yaml, line 2, benchmark.precison: there is no such key. Did you mean precision?",
        ),
        ("--no-such-option", "No such option '--no-such-option'"),
    ],
)
def test_a_bad_option_is_refused_before_anything_happens(
    invoke: Invoke, executed: list[object], tmp_path: Path, arguments: str, message: str
) -> None:
    """A message that says what is wrong, exit code 2, nothing run, no run or report written."""
    (tmp_path / "night.yaml").write_text("benchmark:\n  precison: fp32\n")
    assert_refused(invoke("--gpu-ids", "cpu:0", *arguments.split()), message, executed, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--gpu-ids 7",
            "No NVIDIA GPU was found: no NVIDIA driver on this machine. To try it on the CPU, use --gpu-ids",
        ),
        ("--gpu-ids x", "--gpu-ids: 'x' is no device"),
        ("--gpu-ids cpu:0,cpu:0", "cpu:0"),
        ("--gpu-ids=", "a device is missing between commas"),
        ("bench", "No such command 'bench'"),
        ("run --gpu-ids cpu:0 extra", "Got unexpected extra argument (extra)"),
        ("-m lstm run", "--models stands before run; options go behind a command"),
        ("resume none", "none: there is no such folder"),
        ("resume", "there is no run in it"),
        ("resume .", "not the folder of a run"),
        ("report .", "not the folder of a run"),
        ("report", "Missing argument 'RUN'"),
        ("list-models --type rnn", "Invalid value for '--type': 'rnn' is not one of"),
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_a_bad_command_is_refused_before_anything_happens(
    invoke: Invoke, executed: list[object], tmp_path: Path, arguments: str, message: str
) -> None:
    """Devices that do not exist, commands that do not, runs that are none."""
    assert_refused(invoke(*arguments.split()), message, executed, tmp_path)


def assert_refused(ended: Result, message: str, executed: list[object], folder: Path) -> None:
    """Exit code 2 with the message, and nothing happened."""
    assert message in " ".join(ended.stderr.split())
    assert ended.exit_code == ExitCode.USAGE
    assert executed == []
    assert not list(folder.glob("runs/*"))
    assert not list(folder.glob("*.json"))


def test_without_a_gpu_the_plain_command_says_how_to_try_it(invoke: Invoke) -> None:
    """Never a silent fall-back to the CPU."""
    refused = invoke()
    assert refused.exit_code == ExitCode.USAGE
    assert "No NVIDIA GPU was found" in refused.stderr
    assert "--gpu-ids cpu:0,cpu:1" in refused.stderr


def test_a_file_cannot_steer_the_terminal(invoke: Invoke, tmp_path: Path) -> None:
    """Control characters in a key are not printed as such."""
    (tmp_path / "bad.yaml").write_text('"\\e[31mred": 1\n')
    assert "\x1b" not in invoke("--config", "bad.yaml").stderr


def test_busy_gpus_are_not_measured(tmp_path: Path) -> None:
    """Somebody else's process is named, and nothing is started beside it unless that is asked for."""
    fake = FakeNvml(tmp_path, gpus=2)
    fake.set({"gpu.1.compute": f"{os.getpid()} 13207024435"})
    environment = {name: fake.environment[name] for name in ("LD_LIBRARY_PATH", "GPUBENCH_FAKE_NVML")}
    refused = python("-m", "orchestrator", "-m", "lstm", cwd=tmp_path, **environment, CUDA_VISIBLE_DEVICES="0,1")
    assert refused.returncode == ExitCode.USAGE
    assert f"is used by another process (PID {os.getpid()}" in refused.stderr
    assert "--gpu-ids 0," in refused.stderr
    assert not (tmp_path / "runs").exists()


# ── how errors end ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_disk_that_refuses_ends_with_five(invoke: Invoke, executed: list[object]) -> None:
    """A storage error is told without a traceback."""
    ended = invoke(*TINY)
    assert len(executed) == 1
    assert (ended.exit_code, ended.stderr) == (ExitCode.INTERNAL, "error: disk full\n")


def test_a_mistake_of_ours_ends_with_five_and_says_where_to_report(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback, and what to do with it."""
    monkeypatch.setattr(devices, "inventory", lambda: 1 / 0)
    ended = invoke("info")
    assert ended.exit_code == ExitCode.INTERNAL
    assert "ZeroDivisionError: division by zero" in ended.stderr
    assert "CONTRIBUTING.md says how" in ended.stderr


def test_an_interruption_before_the_run_ends_with_four(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while devices are looked for is no failure of ours."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(devices, "inventory", interrupted)
    ended = invoke("info")
    assert (ended.exit_code, ended.stderr) == (ExitCode.INCOMPLETE, "error: interrupted\n")


def test_a_reader_who_leaves_changes_nothing(tmp_path: Path) -> None:
    """`| head -0`: no complaint about a broken pipe, and the exit code is the command's own."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "orchestrator", "list-models"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_messages_are_folded_only_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal to its width below "error: ", elsewhere on one line, for grep."""
    text = "error: " + "word " * 40
    assert program.wrapped(text) == text
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    lines = program.wrapped(text).splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("       word") for line in lines[1:])


@pytest.mark.parametrize(
    ("counts", "strict", "code"),
    [
        ({}, True, ExitCode.PASSED),
        ({"degraded": 1}, False, ExitCode.PASSED),
        ({"degraded": 1}, True, ExitCode.MISSED),
        ({"referred": 1}, True, ExitCode.MISSED),
        ({"does_not_fit": 1}, True, ExitCode.MISSED),
    ],
)
def test_strict_counts_what_did_not_fit(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], strict: bool, code: ExitCode
) -> None:
    """A degraded result, or one that does not fit, passes unless --strict is given."""
    cells = SimpleNamespace(**{"degraded": 0, "referred": 0, "does_not_fit": 0} | counts)
    monkeypatch.setattr(run, "execute", lambda *_: ExitCode.PASSED)
    monkeypatch.setattr(reporting, "make", lambda _: SimpleNamespace(summary=SimpleNamespace(cells=cells)))
    assert invoke(*TINY, "--quiet", *(["--strict"] if strict else [])).exit_code == code
