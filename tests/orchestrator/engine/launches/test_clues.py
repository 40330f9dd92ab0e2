"""The part of stderr that is kept with a failure: its explanation, not the noise after it."""

from pathlib import Path

import pytest

from orchestrator.engine.launches.live import Concluded
from orchestrator.store import journal
from orchestrator.store.journal_records import End
from protocol.failure import Category, Failure, Phase
from tests.fakes.conducting import conducting
from tests.fakes.faults import cpu

THEIRS = 'Traceback (most recent call last):\n  File "net.py", line 10, in forward\n    self.mine()\nValueError: not so'
FROM = "\n\nThe above exception was the direct cause of the following exception:\n\n"
OURS = (
    "Traceback (most recent call last):\n"
    + "  File of ours\n" * 200
    + "worker.errors.ModelCodeError: net.py cannot be run"
)
NOISE = "\nsomething that is torn down" * 100


def kept(folder: Path, printed: str, exception: str | None, traceback: str | None) -> str:
    """The journal's part of what a launch printed before it failed."""
    failure = Failure(
        category=Category.EXCEPTION, message="it", phase=Phase.MEASURE, exception=exception, traceback=traceback
    )
    with conducting(folder / "run", (cpu(0),)) as held:
        live = held.live["cpu:0"]
        live.paths.stderr.parent.mkdir(parents=True, exist_ok=True)
        live.paths.stderr.write_text("a warning\n" + printed)
        held.conductor.carry_out([Concluded(live, failure)])
        (end,) = [one for one in journal.read(held.paths.journal) if isinstance(one, End)]
    return end.failure.evidence["stderr"]


@pytest.mark.parametrize("noise", ["", NOISE])
def test_the_users_traceback_is_kept(tmp_path: Path, noise: str) -> None:
    """Neither ours, which was raised from it, nor later noise hides it."""
    printed = THEIRS + FROM + OURS
    found = kept(tmp_path, printed + noise, "worker.errors.ModelCodeError", printed + "\n")
    assert found == "a warning\n" + THEIRS


def test_chained_exceptions_of_the_user_are_kept(tmp_path: Path) -> None:
    """Only our own wrapping exception is removed."""
    printed = THEIRS + FROM + THEIRS.replace("ValueError", "KeyError")
    assert kept(tmp_path / "raised", printed + NOISE, "KeyError", printed + "\n").endswith("KeyError: not so")
    found = kept(tmp_path / "blamed", printed + FROM + OURS, "worker.errors.ModelCodeError", printed + FROM + OURS)
    assert found.endswith("KeyError: not so")


@pytest.mark.parametrize("traceback", [None, "Traceback of something else\nValueError: another"])
def test_without_a_traceback_the_end_is_kept(tmp_path: Path, traceback: str | None) -> None:
    """A process that crashed printed the reason last."""
    found = kept(tmp_path, THEIRS + NOISE + "\nFatal Python error", None, traceback)
    assert found.endswith("Fatal Python error")
    assert len(found) == 2_000
