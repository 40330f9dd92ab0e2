"""Bad input: each mistake with its message and its exit code, before anything is run or written."""

import os
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
from tests.fakes.nvml import FakeNvml
from tests.fakes.runs import FakeRun, shipped

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-m resnet5", "error: -m/--models: no model named 'resnet5'. Did you mean resnet50, resnet"),
        ("-m=", "-m/--models: no model named '='"),
        ("--models=", "-m/--models: a name is empty"),
        ("-p fp33", "-p/--precision: there is no precision 'fp33'. Did you mean fp32?"),
        ("-b 0", "-b/--batch-sizes: expected a whole number of at least 1, got 0"),
        ("-b -1", "-b/--batch-sizes: expected a whole number of at least 1, got -1"),
        ("-b 1,,2", '-b/--batch-sizes: expected a whole number of at least 1, got ""'),
        ("-b 8,1 -b 8", "-b/--batch-sizes: 8 is given twice"),
        ("-b auto,8", "-b/--batch-sizes: auto stands alone, it finds the sizes; leave the others out"),
        ("-b 8,auto", "-b/--batch-sizes: auto stands alone"),
        ("-b auto,auto", "-b/--batch-sizes: auto stands alone"),
        ("-m lstm -m all", "-m/--models: 'all' stands alone"),
        ("--gpu-ids cpu:0 --gpu-ids cpu:0", "--gpu-ids: cpu:0 is named twice"),
        ("-i 0", "-i/--iterations: expected a whole number of at least 1, got 0"),
        ("--seed -1", "--seed: expected a whole number of at least 0, got -1"),
        ("--log-format xml", "error: --log-format: 'xml' is not one of 'text', 'json'. `gpubench-orchestrate --help`"),
        ("--phases generation -m resnet50", "cpu:0: nothing is to be measured there. resnet50: writes no text, so"),
        ("--input-size=", '--input-size: expected a whole number of at least 1, got ""'),
        ("-m bert-base --seq-len 128,513", "--seq-len: bert-base takes 1 to 512 tokens, not 513. Leave the size or"),
        ("-o report.pdf", "-o/--output: there is no format 'pdf'. There is json, txt, md, csv"),
        ("--output=", "-o/--output: expected a path, got an empty text"),
        ("--runs-folder=", "--runs-folder: expected a path, got an empty text"),
        ("--runs-folder night.yaml", "--runs-folder: {folder}/night.yaml is a file, not a folder"),
        ("--config=", "--config: expected a file, got an empty text"),
        ("-v --quiet", "-v/--verbose and --quiet contradict each other; leave one of them out"),
        ("-o .", "is a folder; name the report's file"),
        ("-o /proc/report.json", "/proc: cannot be written"),
        ("--runs-folder /proc/runs", "/proc/runs: cannot be written"),
        (
            "--compare-baseline old.json",
            "error: old.json: there is no such file, nor a run's folder of that name",
        ),
        ("--config none.yaml", "none.yaml: cannot be read: No such file or directory"),
        (
            "--config night.yaml",
            "night.yaml, line 2, benchmark.precison: there is no such key. Did you mean precision?",
        ),
        ("--batch-size 1", "error: there is no option --batch-size. Did you mean --batch-sizes"),
        ("--qqqqqq", "error: there is no option --qqqqqq. `gpubench-orchestrate --help` shows what there is."),
        ("-b", "error: option '-b' requires an argument. `gpubench-orchestrate --help` shows what there is."),
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
        ("--gpu-ids 7", "No NVIDIA GPU was found: no NVIDIA driver on this machine. To try it on the CPU, use --gpu"),
        ("", "No NVIDIA GPU was found: no NVIDIA driver on this machine. To try it on the CPU, use --gpu-ids cpu:0"),
        ("--gpu-ids x", "--gpu-ids: 'x' is no device"),
        ("--config night.yaml", "error: night.yaml, line 2, gpu.ids: 'seven' is no device"),
        ("--gpu-ids=", "a device is missing between commas"),
        ("selftest --gpu-ids cpu:0 --gpu-ids cpu:0", "--gpu-ids: cpu:0 is named twice"),
        (
            "selftest --gpu-ids=",
            "error: --gpu-ids: '': a device is missing between commas. Give all, or a list like 0,1",
        ),
        (
            "reprot",
            "error: there is no command 'reprot'. Did you mean report? There is compare, completion, doctor, explain,",
        ),
        (
            "run --gpu-ids cpu:0 --solo extra",
            "error: got unexpected extra argument (extra). `gpubench-orchestrate run --help` shows what there is.",
        ),
        ("-b 1 8", "error: there is no command '8'. Did you mean -b 1,8? `gpubench-orchestrate --help` shows"),
        (
            "run --gpu-ids cpu:0 -b 1 8",
            "extra argument (8). Did you mean -b 1,8? `gpubench-orchestrate run --help` shows",
        ),
        ("-m lstm resnet50 -b 1", "there is no command 'resnet50'. Did you mean -m lstm,resnet50?"),
        ("run -p fp32 bf16 --solo", "extra argument (bf16). Did you mean -p fp32,bf16?"),
        ("selftest --gpu-ids 0 1", "extra argument (1). Did you mean --gpu-ids 0,1?"),
        ("-b 1 reprot", "there is no command 'reprot'. Did you mean report?"),
        (
            "--burn-in --gpu-ids cpu:0",
            "--burn-in DURATION has no value: --gpu-ids stands in its place. `gpubench-orchestrate --help`",
        ),
        ("run -o --quiet", "-o FILE has no value: --quiet stands in its place. `gpubench-orchestrate run --help`"),
        ("--burn-in --help", "--burn-in DURATION has no value: --help stands in its place."),
        ("burn-in 60s", "there is no command 'burn-in'. Did you mean --burn-in?"),
        ("--level= --steps --on-finish=--steps reprot", "there is no command 'reprot'"),
        ("run --gpu-ids cpu:7 -- --burn-in --gpu-ids", "unexpected extra arguments (--burn-in --gpu-ids)"),
        ("-m lstm run", "--models stands before run; options go behind a command"),
        ("resume none", "none: there is no such folder"),
        ("resume", "there is no run in it"),
        ("resume -v --quiet .", "-v/--verbose and --quiet contradict each other"),
        ("resume --on-finis x", "there is no option --on-finis. Did you mean --on-finish"),
        ("resume night.yaml", "night.yaml: is a file, not the folder of a run"),
        ("resume --runs-folder night.yaml", "--runs-folder: night.yaml is a file, not a folder"),
        ("report night.yaml -f json,samples.csv", "night.yaml: is a file, not the folder of a run. samples.csv holds"),
        ("report . -o x.samples.csv", "are in launches/ of the run's folder. Name that folder"),
        ("report", "error: RUN is missing. `gpubench-orchestrate report --help` shows what there is."),
        ("make-baseline night", "error: -o/--output FILE is missing. `gpubench-orchestrate make-baseline --help`"),
        ("make-baseline night -o base.yaml", "base.yaml: a baseline is JSON, so its suffix is .json, and not '.yaml'"),
        ("make-baseline night -o /proc/base.json", "-o/--output: /proc: cannot be written: "),
        (
            "list-models --type rnn",
            "error: --type: there is no type 'rnn'. Did you mean cnn? There is transformer, cnn,",
        ),
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_a_bad_command_is_refused_before_anything_happens(
    invoke: Invoke, executed: list[object], tmp_path: Path, arguments: str, message: str
) -> None:
    """Devices that do not exist, commands that do not, runs that are none."""
    (tmp_path / "night.yaml").write_text("gpu:\n  ids: seven\n")
    assert_refused(invoke(*arguments.split()), message, executed, tmp_path)


def test_a_report_in_place_of_a_run_lacks_nothing_but_samples(invoke: Invoke, tmp_path: Path) -> None:
    """Whoever asks for another format of it is not told of samples."""
    (tmp_path / "report.json").write_text("{}")
    ended = invoke("report", "report.json", "-f", "json,csv")
    assert ended.stderr == "error: report.json: is a file, not the folder of a run\n"


def a_socket(path: Path) -> None:
    """One that nobody listens to."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("words", ["--config night.yaml", "--models-file night.yaml", "-m night.py:Net"])
@pytest.mark.parametrize("make", [os.mkfifo, a_socket, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_and_not_waited_for(
    invoke: Invoke, executed: list[object], tmp_path: Path, words: str, make: Callable[[Path], None]
) -> None:
    """A pipe that nobody writes to, a socket, a device without end."""
    option, file = words.split()
    make(tmp_path / file.partition(":")[0])
    message = "cannot be read: not a regular file, but a pipe, a device or a socket"
    assert_refused(invoke("--gpu-ids", "cpu:0", option, file, "--allow-code"), message, executed, tmp_path)


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
    """plan.json is no place for second thoughts."""
    made = FakeRun(tmp_path, models=shipped("lstm"), batch_sizes=(8,))
    made.finish()
    text = made.paths.plan.read_text()
    made.paths.plan.write_text(text.replace('"batch_size":8', '"batch_size":9'))
    ended = invoke(command, str(made.paths.folder))
    assert ended.exit_code == ExitCode.USAGE
    assert "run.yaml or plan.json and journal.gpj belong to different plans" in ended.stderr


def test_without_its_libraries_it_says_how_to_install(tmp_path: Path) -> None:
    """A checkout in a Python that has nothing: one line, no traceback."""
    ended = python("-S", "-m", "orchestrator", cwd=tmp_path)
    assert ended.returncode == ExitCode.INTERNAL
    assert ended.stderr.startswith("error: click is not installed. `make install` in the checkout")
    assert ended.stderr.count("\n") == 1


def test_a_library_that_is_missed_late_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are imported only when they are needed."""
    monkeypatch.setitem(sys.modules, "orchestrator.config.catalogue", None)
    monkeypatch.delattr("orchestrator.config.catalogue")
    ended = invoke("list-models")
    assert (ended.exit_code, ended.stderr.count("\n")) == (ExitCode.INTERNAL, 1)
    assert "`make install` in the checkout" in ended.stderr


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
    assert "error: CUDA cannot be used on the GPUs of this run: cuInit says 802" in refused.stderr
    assert "systemctl start nvidia-fabricmanager" in refused.stderr
    assert not list(tmp_path.glob("runs/*"))
    assert not list(tmp_path.glob("*.json"))


def test_a_plan_is_shown_where_cuda_is_broken(tmp_path: Path) -> None:
    """--dry-run shows it all the same, and says that a run would be refused, and why."""
    shown = on_broken_cuda(tmp_path, "--dry-run")
    assert shown.returncode == ExitCode.PASSED, shown.stderr
    told = " ".join(shown.stdout.split())
    assert "GPU 1" in told
    assert "Note: a run would be refused now: CUDA cannot be used on the GPUs of this run: cuInit says 802" in told
    assert not list(tmp_path.glob("runs/*"))
