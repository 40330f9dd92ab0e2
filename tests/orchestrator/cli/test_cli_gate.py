"""`gate`: what it refuses, and the run that it would make."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator.compare import references
from orchestrator.config import margins
from orchestrator.config.run_configuration import Isolation, StoredRun
from orchestrator.history import entry
from orchestrator.kinds import registry
from orchestrator.kinds.gate import planning
from orchestrator.kinds.gate.settings import LIMIT_S
from orchestrator.store import run_files
from protocol.cell import MemoryFormat, Precision
from protocol.exit_codes import ExitCode
from protocol.paths import RunPaths
from tests.fakes.histories import kept, run_id
from tests.fakes.runs import FakeRun, cpus, shipped

Invoke = Callable[..., Result]
Executed = list[tuple[StoredRun, RunPaths]]
CPU = ("--gpu-ids", "cpu:0", "--phases", "inference", "-b", "1", "--no-history")
NET = """
from torch.nn import Identity
class Old(Identity): ...
class New(Identity): ...
"""


@pytest.mark.parametrize(
    "words",
    [
        "",
        "before.json --ab net.py:Old net.py:New",
        "-m lstm --set-a compile=fast",
        "-m lstm --set-a colour=red",
        "-m lstm --set-b precision",
        "-m lstm --set-b precision=bf17",
        "-m lstm --set-b precision=fp16,bf16",
        "-m lstm --set-a precision=fp32 --set-b precision=fp32",
        "-m lstm --ab net.py:Old net.py:New --allow-code",
        "--ab net.py:Old net.py:New",
        "-m lstm --python-b /bin/true",
        "-m lstm --python-b no/such/python",
        "before.json",
        "-m lstm --set-b precision=bf16 --time-limit soon",
        "-m lstm --set-b precision=bf16 --time-limit 7s",
        "-m lstm --set-b precision=bf16 --threshold 100",
        "-m lstm --set-b precision=bf16 --format html",
        "-m lstm --set-b precision=bf16 --junit no/such/folder/gate.xml",
    ],
)
def test_what_cannot_be_compared_is_refused(invoke: Invoke, executed: Executed, tmp_path: Path, words: str) -> None:
    """Before anything is run or written: sides that are missing, contradict each other, or are the same."""
    (tmp_path / "net.py").write_text(NET)
    ended = invoke("gate", *words.split(), *CPU)
    assert ended.exit_code == ExitCode.USAGE
    assert ended.stderr.startswith("error: ")
    assert "Traceback" not in ended.stderr
    assert executed == []
    assert not (tmp_path / "runs").exists()


def run_of(invoke: Invoke, executed: Executed, *words: str) -> StoredRun:
    """The run that these words would make."""
    ended = invoke("gate", *words, *CPU)
    assert executed, ended.output
    stored, paths = executed[-1]
    assert run_files.load(paths) == stored  # it can be resumed
    assert registry.of(stored.configuration).name == "gate"
    return stored


def test_two_settings_make_one_run_with_a_limit(invoke: Invoke, executed: Executed, tmp_path: Path) -> None:
    """The first side is as the other options say. Its report is in the run's folder alone."""
    stored = run_of(
        invoke, executed, "-m", "resnet50", "--set-b", "precision=bf16", "--set-b", "memory_format=contiguous"
    )
    assert {(cell.precision, cell.memory_format) for cell in stored.plan.cells} == {
        (Precision.FP32, MemoryFormat.CHANNELS_LAST),
        (Precision.BF16, MemoryFormat.CONTIGUOUS),
    }
    assert stored.configuration.time_limit_s == LIMIT_S
    assert stored.configuration.isolation is Isolation.FORK
    assert stored.plan.launches == 2 * planning.FIRST_ROUNDS
    assert list(tmp_path.glob("*.json")) == []


def test_models_of_the_user_are_two_sides(invoke: Invoke, executed: Executed, tmp_path: Path) -> None:
    """With the permission to run them, and a number of launches of one's own."""
    (tmp_path / "net.py").write_text(NET)
    words = ("--ab", "net.py:Old", "net.py:New", "--allow-code", "--launches", "4", "--time-limit", "90s")
    stored = run_of(invoke, executed, *words)
    assert [cell.model for cell in stored.plan.cells] == ["net.py:Old", "net.py:New"]
    assert (stored.plan.launches, stored.configuration.time_limit_s) == (8, 90)


def test_two_interpreters_need_new_processes(invoke: Invoke, executed: Executed, tmp_path: Path) -> None:
    """A zygote has one interpreter. Each launch gets that of its side."""
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    stored = run_of(invoke, executed, "-m", "lstm", "--python-b", str(other))
    asked = stored.configuration
    assert asked.isolation is Isolation.EXEC
    terms = registry.of(asked).launch_terms
    found = [terms(asked, stored.devices[0], (cell.id, 0), cell).python for cell in stored.plan.cells]
    assert found == [sys.executable, str(other)]


def test_a_baseline_says_what_is_measured(invoke: Invoke, executed: Executed, tmp_path: Path) -> None:
    """Its models, precisions and sizes, which options restrict; the file may be gone when the run is resumed."""
    before = FakeRun(
        tmp_path / "before",
        devices=cpus(1),
        models=shipped("resnet50", "lstm"),
        batch_sizes=(1, 4),
        precisions=(Precision.FP32, Precision.BF16),
    )
    before.everything()
    before.finish()
    words = ("gate", str(tmp_path / "before"), "--gpu-ids", "cpu:0", "--no-history")
    invoke(*words)
    stored, paths = executed[-1]
    assert {(cell.model, cell.batch_size, cell.precision) for cell in stored.plan.cells} == {
        (model, size, precision)
        for model in ("resnet50", "lstm")
        for size in (1, 4)
        for precision in (Precision.FP32, Precision.BF16)
    }
    assert json.loads(paths.compared_with.read_bytes())["baseline"]["cells"]
    assert json.loads(paths.compared_with.read_bytes())["session"] is None
    invoke(*words, "-m", "lstm", "-p", "bf16")
    assert {(cell.model, cell.precision) for cell in executed[-1][0].plan.cells} == {("lstm", Precision.BF16)}


def test_the_history_says_how_far_sessions_lie_apart(invoke: Invoke, executed: Executed, tmp_path: Path) -> None:
    """Of runs like the baseline, which is none of them; kept with the run, for each look and for `resume`."""
    before = FakeRun(tmp_path / "before", devices=cpus(1), models=shipped("lstm"), launches=3)
    before.everything()
    like = entry.of_report(before.ended(), before.paths.folder, tainted=False)
    others = [
        replace(like, run=replace(like.run, run_id=run_id(day), test_date=f"2026-03-0{day}T10:00:00Z"))
        for day in range(1, 5)
    ]
    where = kept(tmp_path, [like, *others])
    invoke("gate", str(tmp_path / "before"), "--gpu-ids", "cpu:0", "--no-history", "--history-db", str(where.path))
    _, paths = executed[-1]
    session = references.stored(paths).session
    assert session is not None
    assert session.runs == len(others)
    assert session.host < margins.load().runs.session.host.share


def test_a_dry_run_shows_whole_names(invoke: Invoke) -> None:
    """A name that is too long for its column goes on below: the two sides differ at its end."""
    sizes = "--set-a", "memory-format=contiguous", "--set-b", "memory-format=channels_last"
    shown = invoke("gate", "-m", "efficientnet-b0", *sizes, "--dry-run", *CPU).output
    lines = shown.splitlines()
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("#")) :][:5]
    assert all(any(end in line for line in table) for end in ("contiguous)", "channels_last)"))
    assert max(map(len, table)) <= 80
