"""What is refused although nothing would have gone wrong before the end, or anything would have used it."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from protocol.exit_codes import ExitCode
from tests.fakes.commands import python
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]
LONG = "a" * 300
"""Longer than the 255 bytes that a file's name may have."""
ALMOST = "a" * 245
"""With its suffix a name that a file may have, and that none may have while it is written."""
TOO_LONG = os.strerror(errno.ENAMETOOLONG)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"--gpu-ids cpu:0 -o {LONG}.json", "-o/--output: {folder}/LONG.json: .*too long"),
        (f"--gpu-ids cpu:0 --dry-run -o {ALMOST}.json", "13 bytes longer"),
        (f"--gpu-ids cpu:0 --dry-run -o {ALMOST} -f txt", "13 bytes longer"),
        ("--gpu-ids cpu:0 --price 1e308", r"--price: .* 1,000,000,000, .*1e\+308"),
        (f"--gpu-ids cpu:0 --runs-folder {LONG}", f"--runs-folder: {{folder}}/LONG: .*{TOO_LONG[:13]}"),
        (f"--gpu-ids cpu:0 --pythonpath {LONG}", "--pythonpath: {folder}/LONG: .*no such"),
        (f"--gpu-ids cpu:0 -m {LONG}.b:C", "-m/--models: LONG.b:C: .*'LONG'"),
        (f"--gpu-ids cpu:0 --compare-baseline {LONG}", "--compare-baseline: .*LONG"),
        (f"explain {LONG}", "'LONG' is unknown"),
        (f"compare {LONG} {LONG}", f"LONG: .*{TOO_LONG}"),
        (f"make-baseline run -o {ALMOST}.json", "-o/--output: ALMOST.json: .*too long"),
        (f"resume {LONG}", f"LONG: .*{TOO_LONG}"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(
    invoke: Invoke, executed: list[object], tmp_path: Path, arguments: str, message: str
) -> None:
    """Before anything is measured, also where the name is too long only while the file is written."""
    ended = invoke(*arguments.split())
    told = " ".join(ended.stderr.split()).replace(LONG, "LONG").replace(ALMOST, "ALMOST")
    assert re.search(message.format(folder=tmp_path), told)
    assert (ended.exit_code, executed, list(tmp_path.glob("*"))) == (ExitCode.USAGE, [], [])


ODD = os.fsdecode(b"od\xff")
"""A file's name that is no UTF-8, as Python has it."""
ODD_SHOWN = r"od\xff"


@pytest.mark.parametrize(
    ("arguments", "variables", "shown"),
    [
        (("run", "--gpu-ids", "cpu:0", "--runs-folder", ODD), {}, r"'od\xff'"),
        (("run", "--gpu-ids", "cpu:0", "-o", f"{ODD}.json"), {}, r"'od\xff.json'"),
        (("run", "--gpu-ids", "cpu:0", "--history-db", ODD), {}, r"'od\xff'"),
        (("--gpu-ids", "cpu:0", "--history-db", ODD), {}, r"'od\xff'"),
        (("run", "--gpu-ids", "cpu:0", "-m", f"{ODD}.py:Net", "--allow-code"), {}, r"'od\xff.py:Net'"),
        (("report", ODD), {}, r"'od\xff'"),
        (("run", "--gpu-ids", "cpu:0"), {"TMPDIR": f"/{ODD}"}, r"TMPDIR='/od\xff'"),
        (("run", "--gpu-ids", "cpu:0"), {"XDG_CACHE_HOME": f"/{ODD}"}, r"XDG_CACHE_HOME='/od\xff'"),
        (("doctor",), {"TMPDIR": f"/{ODD}"}, r"TMPDIR='/od\xff'"),
        (("run", "--gpu-ids", "cpu:0", "-o", "a\nb.json"), {}, r"-o/--output: 'a\nb.json'"),
        (("run", "--gpu-ids", "cpu:0", "--runs-folder", "a\nb"), {}, r"--runs-folder: 'a\nb'"),
        (("make-baseline", "run", "-o", "a\nb.json"), {}, r"-o/--output: 'a\nb.json'"),
    ],
)
def test_a_path_that_is_no_text_is_refused(
    invoke: Invoke,
    executed: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    shown: str,
) -> None:
    """Stored, sent and shown it would end in a traceback or in two lines: exit code 2, and it is shown escaped."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ended = invoke(*arguments)
    assert shown in ended.stderr
    assert (ended.exit_code, executed, list(tmp_path.glob("*"))) == (ExitCode.USAGE, [], [])


def test_a_folder_that_is_no_text_is_no_place_to_begin_a_run(
    invoke: Invoke, executed: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its absolute path would be stored with the run, and is sent to workers."""
    FakeRun(tmp_path / ODD / "run")
    monkeypatch.chdir(tmp_path / ODD)
    for words in (("run", "--gpu-ids", "cpu:0"), ("resume", "run"), ("report", "run", "-o", "r.json")):
        ended = invoke(*words)
        assert rf"/{ODD_SHOWN}" in ended.stderr
        assert (ended.exit_code, executed) == (ExitCode.USAGE, [])
    monkeypatch.chdir(tmp_path)


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
    ("arguments", "remedy"),
    [
        ("run --extensive", "`gpubench-orchestrate quick --extensive`?"),
        ("run -m bert_base", "Did you mean bert-base?"),
        ("run -m ResNet-50", "Did you mean resnet50?"),
        ("run -m gpt2-small", "Did you mean gpt2?"),
        ("run -m bert-base-uncased", "Did you mean bert-base?"),
        ("run --config mine.yaml", "--models-file mine.yaml"),
        ("run --junit x.xml", "mean `gpubench-orchestrate gate BASELINE --junit`?"),
        ("report --junit x.xml", "mean `gpubench-orchestrate compare A B --junit`?"),
        ("run --compare-baseline other.json", "`gpubench-orchestrate run -o report.json`"),
        ("run --model resnet50", "mean --models?"),
        ("run --batch-size 1", "mean --batch-sizes?"),
        ("run --dtype half", "mean --precision?"),
        ("run --device cuda:0", "mean --gpu-ids?"),
        ("run --gpu-ids cuda:1", "mean 1?"),
        ("run --gpu-ids cpu", "mean cpu:0?"),
    ],
)
def test_what_people_type_by_habit_is_answered_by_the_one_thing_to_type(
    invoke: Invoke, executed: list[object], tmp_path: Path, arguments: str, remedy: str
) -> None:
    """One suggestion, not three."""
    (tmp_path / "other.json").write_text('{"metadata": {}, "results": []}')
    (tmp_path / "mine.yaml").write_text("models:\n  - name: net\n    class: torchvision.models.resnet18\n")
    ended = invoke(*arguments.split(), *([] if "gpu-ids" in arguments else ["--gpu-ids", "cpu:0"]))
    assert remedy in ended.stderr
    assert (ended.exit_code, executed) == (ExitCode.USAGE, [])
