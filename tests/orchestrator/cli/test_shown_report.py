"""What is printed of a report: its answer, or all of it, and in colours on a terminal alone."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.commands import orchestrate
from orchestrator.cli.shown_report import shown
from orchestrator.figures.report import Report
from orchestrator.report.as_json import to_json
from orchestrator.report.as_text import to_text
from orchestrator.report.default_layout import DEFAULT
from tests.fakes.runs import FakeRun


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    run = FakeRun(tmp_path_factory.mktemp("run") / "run", batch_sizes=(8,))
    run.everything()
    return run.ended()


@pytest.mark.parametrize(
    ("terminal", "no_colour", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colours_are_for_terminals(
    report: Report, monkeypatch: pytest.MonkeyPatch, *, terminal: bool, no_colour: str, coloured: bool
) -> None:
    """And not where NO_COLOR is set. Coloured text is bytes, which `say` prints unchanged."""
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert isinstance(shown(report, DEFAULT, (), full=False), bytes) is coloured
    assert isinstance(shown(report, DEFAULT, (), full=True), str)


@pytest.mark.parametrize(("words", "whole"), [((), False), (("--full",), True), (("-f", "text"), True)])
def test_a_report_file_is_answered_or_printed_whole(
    report: Report, tmp_path: Path, words: tuple[str, ...], *, whole: bool
) -> None:
    """A report that somebody sent, without its run."""
    file = tmp_path / "sent.json"
    file.write_bytes(to_json(report))
    done = CliRunner().invoke(orchestrate, ["report", str(file), *words])
    assert done.exit_code == 0, done.output
    assert (done.stdout.strip() == to_text(report, DEFAULT).strip()) is whole
    assert ("RESULT    COMPLETE" in done.stdout) is not whole
    assert (f"report {file} --full" in done.stdout) is not whole


def test_an_answer_takes_the_place_of_the_report(report: Report) -> None:
    """Of a gate, whose comparison is the answer."""
    assert shown(report, DEFAULT, ("Run: x",), full=False, answer="SLOWER") == "SLOWER\nRun: x"
