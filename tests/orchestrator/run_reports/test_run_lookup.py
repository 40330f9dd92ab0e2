"""run_reports/run_lookup.py: which run a person means, by the same words in every command."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.errors import ConfigError, HistoryError, RunFolderError, UserError
from orchestrator.run_reports import reporting, run_lookup
from protocol.exit_codes import ExitCode
from tests.fakes import histories
from tests.fakes.runs import FakeRun

Invoke = Callable[..., Result]

OLD, NEW = "20260401-213000-aaaaaa", "20260402-213000-bbbbbb"
FAR = "20260403-213000-cccccc"
"""A run in another folder, which the history alone knows."""


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """Two runs that are over, and a third elsewhere."""
    for folder in (tmp_path / "runs" / OLD, tmp_path / "runs" / NEW, tmp_path / "far" / FAR):
        run = FakeRun(folder, batch_sizes=(1,), run_id=folder.name)
        run.measured(run.cell(batch_size=1))
        run.finish()
        reporting.write(run.stored, run.paths)
    return str(tmp_path / "runs")


@pytest.fixture
def history(tmp_path: Path, runs: str) -> str:
    """The history, which knows the third; of the others, one that has another folder there."""
    records = [
        histories.record(3, run_id=FAR, folder=str(tmp_path / "far" / FAR)),
        histories.record(1, run_id=OLD, folder=str(tmp_path / "gone" / OLD)),
    ]
    return str(histories.kept(tmp_path / "kept", records).path)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (None, NEW),
        ("@last", NEW),
        ("@last~0", NEW),
        ("@last~1", OLD),
        (OLD, OLD),
        (OLD[:8], OLD),
        (NEW[:-1], NEW),
        (FAR, FAR),
        (FAR[:8], FAR),
    ],
)
def test_a_run_is_found_by_each_of_its_words(runs: str, history: str, name: str | None, meant: str) -> None:
    """The runs folder is asked before the history, which knows those that are elsewhere."""
    assert run_lookup.find(name, runs, history).folder.name == meant


def test_its_folder_comes_before_its_id(
    runs: str, history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies there under the name is meant."""
    monkeypatch.chdir(tmp_path)
    Path(OLD).symlink_to(Path(runs) / NEW)
    assert run_lookup.find(OLD, runs, history).folder == Path(OLD)
    assert run_lookup.find(str(Path(runs) / OLD), runs, history).folder.name == OLD


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("@last~2", RunFolderError, "2 runs"),
        ("@first", ConfigError, "@last, or @last~1"),
        ("@last~-1", ConfigError, "@last, or @last~1"),
        ("20991231", HistoryError, "`history` lists"),
        (OLD[:7], RunFolderError, "no such folder"),
        ("nobody", RunFolderError, "no such folder"),
    ],
)
def test_what_means_no_run_is_refused(runs: str, history: str, name: str, kind: type[UserError], words: str) -> None:
    """In words that name it."""
    with pytest.raises(kind, match=words) as caught:
        run_lookup.find(name, runs, history)
    assert name in str(caught.value)


def test_a_beginning_of_several_is_refused(tmp_path: Path, runs: str, history: str) -> None:
    """With all of them; the whole id of one of them is enough, also where another one begins with it."""
    FakeRun(Path(runs) / f"{OLD}0")
    with pytest.raises(RunFolderError, match=f"several runs in {runs} .*: {OLD}, {OLD}0. Name one"):
        run_lookup.find(OLD[:8], runs, history)
    assert run_lookup.find(OLD, runs, history).folder.name == OLD


def test_every_command_takes_them(invoke: Invoke, tmp_path: Path, runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the newest but one, and a beginning of its id: each command does what it does with the folder."""
    monkeypatch.chdir(tmp_path)
    for word in ("@last~1", OLD[:8]):
        assert f"{OLD}: complete" in invoke("status", word).stdout
        assert f"{OLD}: complete" in invoke("watch", word, "--runs-folder", runs).stdout
        stopped = invoke("stop", word)
        assert (stopped.exit_code, OLD in stopped.stderr) == (ExitCode.USAGE, True)
        assert f"{OLD}: complete" in invoke("resume", word, "--no-history").stdout
        assert "Verdict: " in invoke("explain", word).stdout
        assert invoke("report", word, "-o", "out.txt", "--runs-folder", runs).exit_code == 0
        assert invoke("compare", word, "@last").exit_code in (ExitCode.PASSED, ExitCode.INCOMPLETE)
