"""What is refused although nothing would have gone wrong before the end, or anything would have used it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from protocol.exit_codes import ExitCode
from tests.fakes.commands import python

Invoke = Callable[..., Result]
LONG = "a" * 300
"""Longer than the 255 bytes that a file's name may have."""
ALMOST = "a" * 245
"""With its suffix a name that a file may have, and that none may have while it is written."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"--gpu-ids cpu:0 -o {LONG}.json", "-o/--output: {folder}/LONG.json: the name is too long"),
        (f"--gpu-ids cpu:0 --dry-run -o {ALMOST}.json", "it has 13 bytes more; choose another"),
        (f"--gpu-ids cpu:0 --dry-run -o {ALMOST} -f txt", "it has 13 bytes more; choose another"),
        ("--gpu-ids cpu:0 --price 1e308", "--price: expected a price above 0 and at most 1,000,000,000, got 1e+308"),
        (f"--gpu-ids cpu:0 --runs-folder {LONG}", "--runs-folder: {folder}/LONG: cannot be written: File name too"),
        (f"--gpu-ids cpu:0 --pythonpath {LONG}", "--pythonpath: {folder}/LONG: there is no such folder"),
        (f"--gpu-ids cpu:0 -m {LONG}.b:C", "-m/--models: LONG.b:C: there is no package 'LONG'"),
        (f"--gpu-ids cpu:0 --compare-baseline {LONG}", "--compare-baseline: there is no file LONG, and no baseline"),
        (
            f"explain {LONG}",
            "'LONG' is neither a kind of failure, an exit code, a signal or an Xid, nor",
        ),
        (f"compare {LONG} {LONG}", "LONG: cannot be read: File name too long"),
        (f"make-baseline run -o {ALMOST}.json", "-o/--output: ALMOST.json: the name is too long"),
        (f"resume {LONG}", "LONG: cannot be read: File name too long"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(
    invoke: Invoke, executed: list[object], tmp_path: Path, arguments: str, message: str
) -> None:
    """Before anything is measured, also where the name is too long only while the file is written."""
    ended = invoke(*arguments.split())
    told = " ".join(ended.stderr.split()).replace(LONG, "LONG").replace(ALMOST, "ALMOST")
    assert message.format(folder=tmp_path) in told
    assert (ended.exit_code, executed, list(tmp_path.glob("*"))) == (ExitCode.USAGE, [], [])


def test_the_longest_name_that_is_not_refused_can_be_written(tmp_path: Path) -> None:
    """One byte more is refused: the limit is that of the temporary name, by the largest number of a process."""
    code = (
        "import sys; from pathlib import Path; from orchestrator.store import folders, journal\n"
        "path = Path(sys.argv[1]); folders.require_name(path, '-o'); journal.write_durably(path, b'x')"
    )
    for length, refused in ((255 - 13, False), (255 - 12, True)):
        done = python("-c", code, str(tmp_path / ("a" * length)), cwd=tmp_path)
        assert ("too long" in done.stderr) is refused, done.stderr
    assert [len(path.name) for path in tmp_path.iterdir()] == [242]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (("models: [resnet5]", "-m lstm"), "models[0]: no model named 'resnet5'. Did you mean resnet50"),
        (("models: []", "-m lstm"), "models: the list is empty; name at least one model"),
        (("benchmark: {precision: fp8}", "-p fp32"), "benchmark.precision: there is no precision 'fp8'"),
        (("benchmark: {mode: alone}", "--solo"), "benchmark.mode: there is no mode 'alone'"),
        (("batch_sizes: [1, 1]", "-b 2"), "batch_sizes: 1 is given twice"),
        (("output: {path: x.pdf}", "-o y.json"), "output.path: there is no format 'pdf'"),
        (("gpu: {ids: [foo]}", ""), "gpu.ids: 'foo' is no device. Give all, or a list of indices"),
        (("gpu: {ids: []}", ""), "gpu.ids: '': a device is missing between commas"),
    ],
)
def test_a_file_must_be_right_where_the_command_line_says_something_else(
    invoke: Invoke, executed: list[object], tmp_path: Path, written: tuple[str, str], message: str
) -> None:
    """The value would not be used today: it is wrong all the same, and named with file, line and key."""
    text, options = written
    (tmp_path / "night.yaml").write_text(text + "\n")
    ended = invoke("run", "--gpu-ids", "cpu:0", "--config", "night.yaml", *options.split())
    assert f"error: night.yaml, line 1, {message}" in " ".join(ended.stderr.split())
    assert (ended.exit_code, executed) == (ExitCode.USAGE, [])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("gpu: {ids: [5, GPU-5317350e]}", ""),
        ("models: [net.py:Net]", "-m lstm"),
        ("input_sizes: [31]", "-m lstm"),
        ("output: {format: csv}", "-o y.json -f json"),
    ],
)
def test_what_another_machine_or_another_option_would_make_right_may_stand(
    invoke: Invoke, tmp_path: Path, text: str, options: str
) -> None:
    """A GPU that is elsewhere, code that nobody runs, sizes of other models, a format with another name."""
    (tmp_path / "night.yaml").write_text(text + "\n")
    ended = invoke("run", "--gpu-ids", "cpu:0", "--config", "night.yaml", "--dry-run", *options.split())
    assert ended.exit_code == ExitCode.PASSED, ended.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--burn-in", "60s"), "--burn-in"),
        (("--profile=quick",), "--profile"),
        (("--gpu-ids", "cpu:0"), "--gpu-ids"),
        (("run", "-m", "lstm"), "-m"),
        (("--no-monitor-gpu",), "--no-monitor-gpu"),
    ],
)
def test_an_option_of_a_new_run_is_not_guessed_at_in_a_resume(
    invoke: Invoke, words: tuple[str, ...], option: str
) -> None:
    """Whoever wants a night to be longer learns that a resume changes nothing of it, not that the word is unknown."""
    ended = invoke("resume", *words)
    assert ended.exit_code == ExitCode.USAGE
    assert ended.stderr.startswith(
        f"error: {option} belongs to a new run: a resume goes on with what the run was begun with, and changes nothing "
    )
