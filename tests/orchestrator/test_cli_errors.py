"""Bad input and bad ends: each with its message and its exit code, before or without a run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator import devices, run
from orchestrator.cli import program
from protocol.exit_codes import ExitCode
from tests.fakes.commands import python
from tests.fakes.nvml import ROOT, FakeNvml
from tests.fakes.runs import FakeRun, shipped

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
        ("-o report.pdf", "-o/--output: there is no format 'pdf'. There is json, csv and txt"),
        ("-o r.csv -f json,txt", "-o/--output: r.csv ends in .csv, but -f/--format asks for json and txt. Leave the"),
        ("--output=", "-o/--output: expected a path, got an empty text"),
        ("--runs-folder=", "--runs-folder: expected a path, got an empty text"),
        ("--runs-folder night.yaml", "--runs-folder: {folder}/night.yaml is a file, not a folder"),
        ("--config=", "--config: expected a file, got an empty text"),
        ("-v --quiet", "-v/--verbose and --quiet contradict each other; leave one of them out"),
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
    message = message.format(folder=tmp_path)
    assert_refused(invoke("--gpu-ids", "cpu:0", *arguments.split()), message, executed, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--gpu-ids 7",
            "No NVIDIA GPU was found: no NVIDIA driver on this machine. To try it on the CPU, use --gpu-ids",
        ),
        ("--gpu-ids x", "--gpu-ids: 'x' is no device"),
        ("--gpu-ids cpu:0,cpu:0", "--gpu-ids: cpu:0 is named twice"),
        ("--config night.yaml", "error: night.yaml, line 2, gpu.ids: 'seven' is no device"),
        ("--gpu-ids=", "a device is missing between commas"),
        ("bench", "No such command 'bench'"),
        ("run --gpu-ids cpu:0 extra", "Got unexpected extra argument (extra)"),
        ("-m lstm run", "--models stands before run; options go behind a command"),
        ("resume none", "none: there is no such folder"),
        ("resume", "there is no run in it"),
        ("resume -v --quiet .", "-v/--verbose and --quiet contradict each other"),
        ("resume night.yaml", "night.yaml: is a file, not the folder of a run"),
        ("resume --runs-folder night.yaml", "--runs-folder: night.yaml is a file, not a folder"),
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
    (tmp_path / "night.yaml").write_text("gpu:\n  ids: seven\n")
    assert_refused(invoke(*arguments.split()), message, executed, tmp_path)


def assert_refused(ended: Result, message: str, executed: list[object], folder: Path) -> None:
    """Exit code 2 with the message, and nothing happened."""
    assert message in " ".join(ended.stderr.split())
    assert ended.exit_code == ExitCode.USAGE
    assert executed == []
    assert not list(folder.glob("runs/*"))
    assert not list(folder.glob("*.json"))


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
    assert "the current folder cannot be used (No such file or directory); change to one that exists" in ended.stderr


@pytest.mark.parametrize("command", ["resume", "report"])
def test_a_changed_plan_is_refused_in_the_same_words(invoke: Invoke, tmp_path: Path, command: str) -> None:
    """run.yaml is no place for second thoughts."""
    made = FakeRun(tmp_path, models=shipped("lstm"), batch_sizes=(8,))
    made.finish()
    text = made.paths.config.read_text()
    made.paths.config.write_text(text.replace("batch_size: 8", "batch_size: 9"))
    ended = invoke(command, str(made.paths.folder))
    assert ended.exit_code == ExitCode.USAGE
    assert "run.yaml and journal.gpj belong to different plans" in ended.stderr


def test_without_its_libraries_it_says_how_to_install(tmp_path: Path) -> None:
    """A checkout in a Python that has nothing: one line, no traceback."""
    ended = python("-S", "-m", "orchestrator", cwd=tmp_path)
    assert ended.returncode == ExitCode.INTERNAL
    assert ended.stderr.startswith("error: click is not installed. `make install` in the checkout")
    assert ended.stderr.count("\n") == 1


def test_a_library_that_is_missed_late_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are imported only when they are needed."""
    monkeypatch.setitem(sys.modules, "orchestrator.catalogue", None)
    monkeypatch.delattr("orchestrator.catalogue")
    ended = invoke("list-models")
    assert (ended.exit_code, ended.stderr.count("\n")) == (ExitCode.INTERNAL, 1)
    assert "`make install` in the checkout" in ended.stderr


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
    """A storage error is told without a traceback, and with what to do about the run."""
    ended = invoke(*TINY, "--quiet")
    [(_, paths)] = executed
    assert ended.exit_code == ExitCode.INTERNAL
    assert ended.stderr == (
        f"error: disk full. Free space, then `gpubench-orchestrate report {paths.folder}` makes the report of what was "
        f"measured, and `gpubench-orchestrate resume {paths.folder}` measures the rest.\n"
    )


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


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Replaces the loop by the report of a run that never ran, with these counts of cells."""

    def end(**cells: int) -> None:
        made = FakeRun(tmp_path / "pretended", models=shipped("lstm"))
        made.finish()
        report = made.report()
        summary = replace(report.summary, cells=replace(report.summary.cells, **cells))
        passed = replace(report.verdict, exit_code=int(ExitCode.PASSED))
        monkeypatch.setattr(run, "execute", lambda *_: replace(report, summary=summary, verdict=passed))

    return end


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
    invoke: Invoke, pretend: Callable[..., None], counts: dict[str, int], strict: bool, code: ExitCode
) -> None:
    """A degraded result, or one that does not fit, passes unless --strict is given."""
    pretend(**{"degraded": 0, "referred": 0, "does_not_fit": 0} | counts)
    assert invoke(*TINY, "--quiet", *(["--strict"] if strict else [])).exit_code == code


# ── standard streams ──────────────────────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_errors_that_nobody_can_read_keep_their_exit_code(tmp_path: Path, where: str) -> None:
    """Standard error may be closed, or full: a mistake ends with 2 all the same."""
    for mistake in ("--gpu-ids cpu:0 -m resnet5", "--gpu-ids x"):
        assert in_shell(f"{mistake} {where}", tmp_path).returncode == ExitCode.USAGE
    assert in_shell("--no-such-option 2>&-", tmp_path).returncode == ExitCode.USAGE


@pytest.mark.parametrize(("where", "why"), [(">&-", "it is closed"), (">/dev/full", "No space left on device")])
@pytest.mark.parametrize("command", ["info", "list-models", "list-models --json", "completion bash"])
def test_what_cannot_be_printed_is_an_error_of_one_line(tmp_path: Path, command: str, where: str, why: str) -> None:
    """These commands have no other purpose."""
    ended = in_shell(f"{command} {where}", tmp_path)
    assert (ended.returncode, ended.stderr) == (5, f"error: standard output cannot be written: {why}\n")


@pytest.mark.parametrize("command", ["--help", "run --help", "--version"])
def test_help_that_cannot_be_printed_is_an_error_of_one_line(tmp_path: Path, command: str) -> None:
    """And help that nobody reads to its end is none."""
    ended = in_shell(f"{command} >/dev/full", tmp_path)
    assert (ended.returncode, ended.stderr) == (
        5,
        "error: standard output cannot be written: No space left on device\n",
    )
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
    assert ended.stderr == ""


def test_a_run_ends_as_it_would_have_without_its_streams(tmp_path: Path) -> None:
    """Measured and published; where the summary cannot go, standard error names the report."""
    tiny = f"{' '.join(TINY)} -i 3 -w 1"
    full = in_shell(f"{tiny} -o a.json >/dev/full", tmp_path)
    assert full.returncode == ExitCode.PASSED, full.stderr
    warning = f"standard output cannot be written: No space left on device. The report is in {tmp_path / 'a.json'}\n"
    assert full.stderr.endswith(f"warning: {warning}")
    silent = in_shell(f"{tiny} -o b.json >&- 2>&-", tmp_path)
    assert (silent.returncode, silent.stdout, silent.stderr) == (ExitCode.PASSED, "", "")
    assert {path.name for path in tmp_path.glob("*.json")} == {"a.json", "b.json"}


def test_a_log_collector_is_told_how_a_run_begins_and_ends(invoke: Invoke, tmp_path: Path) -> None:
    """One object a line: what will be measured, each launch with figures as numbers, and what came of it."""
    ended = in_shell(f"{' '.join(TINY)} -i 3 -w 1 -o out.json -f json,txt --log-format json", tmp_path)
    events = {event["event"]: event for event in map(json.loads, ended.stderr.splitlines())}
    [folder] = (tmp_path / "runs").iterdir()
    begun, cell, over = events["run_started"], events["cell_ended"], events["run_ended"]
    assert (begun["run_id"], begun["folder"], begun["cells"], begun["launches"]) == (folder.name, str(folder), 1, 1)
    assert [device["device"] for device in begun["devices"]] == [cell["device"]] == ["cpu:0"]
    assert cell["iteration_ms"] > 0
    assert cell["items_per_second"] == pytest.approx(1000 / cell["iteration_ms"])
    assert (over["exit_code"], over["verdict"], over["cells"]["planned"]) == (0, "complete", 1)
    assert over["reports"] == [str(tmp_path / "out.json"), str(tmp_path / "out.txt")]


def test_a_log_collector_is_told_of_a_run_that_broke_off(invoke: Invoke, executed: list[object]) -> None:
    """Without a report there is still an exit code."""
    first, *_ = invoke(*TINY, "--log-format", "json").stderr.splitlines()[1:]
    over = json.loads(first)
    assert (over["event"], over["exit_code"], over["verdict"]) == ("run_ended", 5, None)
