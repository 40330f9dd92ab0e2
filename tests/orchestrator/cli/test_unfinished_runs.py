"""Which run `resume` goes on with where none is named."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator.cli import unfinished_runs
from orchestrator.config.run_configuration import StoredRun
from protocol.paths import RunPaths
from tests.fakes.runs import FakeRun

OLDEST, OLDER, NEWEST = "20260101-000000-aaaaaa", "20260102-000000-aaaaaa", "20260103-000000-aaaaaa"


def completed(run: FakeRun) -> None:
    """The run reached the end of its plan."""
    run.everything()
    run.finish()


def died(run: FakeRun) -> None:
    """Its process was killed."""
    run.interrupted(run.cell())


def stopped(run: FakeRun) -> None:
    """Somebody stopped it."""
    run.finish(interrupted=True, reason="stopped on request")


def broken(run: FakeRun) -> None:
    """The disk was full."""
    run.finish(interrupted=True, reason="disk full", broken=True)


def damaged(run: FakeRun) -> None:
    """Nobody can go on with it."""
    run.paths.journal.write_bytes(b"no journal")


def unreadable(run: FakeRun) -> None:
    """It is completed, and nobody can read what was asked of it."""
    completed(run)
    run.paths.config.write_text("not: [a run")


def without_a_journal(run: FakeRun) -> None:
    """It was deleted, and there are results."""
    completed(run)
    run.paths.journal.unlink()


def not_begun(run: FakeRun) -> None:
    """Refused, or killed, before it had written anything."""
    run.paths.journal.unlink()


Happened = Callable[[FakeRun], None]


@pytest.mark.parametrize(
    ("oldest", "older", "newest", "chosen"),
    [
        (stopped, stopped, died, NEWEST),
        (stopped, completed, stopped, NEWEST),
        (stopped, completed, broken, NEWEST),
        (completed, completed, not_begun, NEWEST),
        (died, completed, damaged, NEWEST),
        (died, stopped, completed, OLDER),
        (died, completed, completed, OLDEST),
        (stopped, damaged, completed, OLDEST),
        (broken, without_a_journal, completed, OLDEST),
        (completed, damaged, completed, NEWEST),
        (completed, stopped, unreadable, OLDER),
        (completed, completed, unreadable, NEWEST),
        (completed, completed, completed, NEWEST),
    ],
)
def test_the_newest_that_is_not_over_is_gone_on_with(
    tmp_path: Path, oldest: Happened, older: Happened, newest: Happened, chosen: str
) -> None:
    """An older one with a note that names both; one that cannot be gone on with is refused by name, if the newest."""
    for name, happened in ((OLDEST, oldest), (OLDER, older), (NEWEST, newest)):
        happened(FakeRun(tmp_path / name))
    paths, note = unfinished_runs.choose(None, str(tmp_path))
    assert paths.folder == tmp_path / chosen
    named = [str(tmp_path / name) for name in (NEWEST, chosen) if chosen != NEWEST]
    assert (bool(note), re.findall(rf"{tmp_path}/[^ ,]+", note)) == (bool(named), named)


def test_a_run_that_is_named_is_the_one(tmp_path: Path) -> None:
    """Over or not, and without a word."""
    died(FakeRun(tmp_path / OLDER))
    completed(FakeRun(tmp_path / NEWEST))
    named = str(tmp_path / NEWEST)
    assert unfinished_runs.choose(named, str(tmp_path)) == (RunPaths(Path(named)), "")


def test_resume_goes_on_with_it_and_says_so(
    tmp_path: Path, invoke: Callable[..., Result], executed: list[tuple[StoredRun, RunPaths]]
) -> None:
    """The older run, where the newest is over."""
    died(FakeRun(tmp_path / OLDER))
    completed(FakeRun(tmp_path / NEWEST))
    shown = invoke("resume", "--runs-folder", str(tmp_path))
    assert [paths.folder.name for _, paths in executed] == [OLDER], shown.output
    assert f"note: {tmp_path / NEWEST} is over, so {tmp_path / OLDER} " in shown.output
