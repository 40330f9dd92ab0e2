"""`history`: its list, its trends, its files, and what it refuses."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from orchestrator.cli.commands import benchmark
from orchestrator.history.location import find
from protocol.exit_codes import ExitCode
from tests.fakes.histories import UUID, kept, record, recorded, run_id
from tests.fakes.runs import FakeRun, shipped

Invoke = Callable[..., Result]


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The history that holds here, of three runs; the last one failed its burn-in."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    records = [record(1), record(2, 90.0), record(3, burn_in="FAIL", burn_in_words="wrong bits")]
    return kept(tmp_path / "data" / "gpubench", records).path


@pytest.mark.usefixtures("history")
def test_the_list_has_a_line_a_run(invoke: Invoke) -> None:
    """Newest first; both programs know the command."""
    for program in (None, benchmark):
        ended = invoke("history", "--limit", "2", **({} if program is None else {"command": program}))
        assert ended.exit_code == 0
        header, *lines = ended.stdout.splitlines()
        assert header.split()[:3] == ["Run", "Host", "Devices"]
        assert [line.split()[0] for line in lines] == [run_id(3), run_id(2)]
    assert "FAIL" in lines[0]


@pytest.mark.usefixtures("history")
def test_the_list_can_be_had_as_json(invoke: Invoke) -> None:
    """As one run and trends, which the golden files have."""
    listed = json.loads(invoke("history", "--gpu", UUID[:8], "--json").stdout)
    assert [one["run_id"] for one in listed] == [run_id(3), run_id(2), run_id(1)]


@pytest.mark.usefixtures("history")
def test_a_run_is_shown_by_whatever_names_it(invoke: Invoke, tmp_path: Path) -> None:
    """Its id as the runs folder has it, whatever the folder is called by now, here or elsewhere."""
    for folder, number in (("runs/20260402-213000-1f2e3d", 2), ("runs/20260403-copied", 3), ("other/anything", 1)):
        run = FakeRun(tmp_path / folder, models=shipped("lstm"), batch_sizes=(1,))
        run.store(replace(run.stored, run_id=run_id(number)))
    for words, number in (
        (("@last",), 3),
        (("@last~1",), 2),
        (("runs/20260403-copied",), 3),
        (("@last", "--runs-folder", "other"), 1),
        (("20260401",), 1),
    ):
        assert json.loads(invoke("history", "show", *words, "--json").stdout)["run"]["run_id"] == run_id(number), words
    refused = invoke("history", "show", "@last~7")
    assert (refused.exit_code, re.findall(r"\d+", refused.stderr.partition(".")[0])) == (2, ["7", "2"])


def test_a_run_without_figures_says_so(invoke: Invoke, tmp_path: Path) -> None:
    """As a burn-in does in the golden files."""
    where = str(kept(tmp_path, [replace(record(2), cells=())]).path)
    told = invoke("history", "show", run_id(2), "--history-db", where).stdout
    assert told.splitlines()[-1].startswith("No figures")


def test_a_trend_is_a_plot_with_its_changes(invoke: Invoke, tmp_path: Path) -> None:
    """A line a run, with the change, and what was changed with it; bars are to scale."""
    runs = [record(number, 100.0 if number < 7 else 95.0) for number in range(1, 13)]
    runs[6] = record(7, 95.0, stack={"driver": "580"})
    runs[9] = record(10, 20.0, doubt="throttled")
    where = kept(tmp_path, runs).path
    ended = invoke("history", "trend", "resnet50", "-b", "8", "-p", "bf16", "--history-db", str(where))
    title, *lines, legend = ended.stdout.splitlines()
    assert re.match(r"resnet50 inference bf16 b8 \(.*224, .*H200, GPU-5317350e", title)
    assert [line.split()[:2] for line in lines] == [
        [run_id(number), "100" if number < 7 else "20" if number == 10 else "95"] for number in range(1, 13)
    ]
    assert [line for line in lines if "<<" in line] == [lines[6]]
    assert re.search(r"<< -5\.0 % .*; driver 570\.86 -> 580;", lines[6])
    assert [lines[number].count("█") for number in (0, 6, 9)] == [24, 24 * 95 // 100, 24 * 20 // 100]
    assert lines[9].split("  ")[-1].strip() == "not counted: throttled"
    assert legend.endswith("changes beyond 1 %")


def test_a_bar_beyond_the_scale_ends_in_an_arrow(invoke: Invoke, tmp_path: Path) -> None:
    """A run that does not count may be faster than all that do. Without such a run there is no arrow."""
    runs = [record(1, 100.0), record(2, 140.0, doubt="throttled")]
    where = str(kept(tmp_path, runs).path)
    _, within, beyond, legend = invoke("history", "trend", "resnet50", "--history-db", where).stdout.splitlines()
    assert (within.count("█"), beyond.count("█"), "arrow" in legend) == (24, 23, True)
    assert ("▶" in within, "▶" in beyond) == (False, True)


@pytest.mark.usefixtures("history")
def test_a_trend_is_written_into_a_file(invoke: Invoke) -> None:
    """In the format of its suffix, as it would be printed; an older one is kept. So is a page of it."""
    for name, options in (("t.txt", ()), ("t.json", ("--format", "json")), ("t.json", ("--json",))):
        assert invoke("history", "trend", "resnet50", "-o", name).stdout == f"{name}\n"
        assert Path(name).read_text(encoding="utf-8") == invoke("history", "trend", "resnet50", *options).stdout
    assert Path("t.1.json").read_text() == Path("t.json").read_text()
    assert invoke("history", "trend", "resnet50", "-p", "bf16", "-o", "t.html").exit_code == 0
    page = Path("t.html").read_text(encoding="utf-8")
    assert re.search("<h1 .*resnet50 .* 3 runs</h1>", page)
    assert "<dt>Precision</dt><dd>bf16</dd>" in page
    assert page == invoke("history", "trend", "resnet50", "-p", "bf16", "--format", "html").stdout


def test_no_run_yet_is_no_mistake(invoke: Invoke) -> None:
    """On a new machine the list is empty, and says so; a file that somebody named should be there."""
    ended = invoke("history")
    assert (ended.exit_code, "--no-history" in ended.stdout) == (0, True)
    assert invoke("history", "--json").stdout == "[]\n"
    for _ in range(2):
        assert invoke("history", "trend", "resnet50").exit_code == ExitCode.USAGE
        kept(find(None, os.environ).path.parent, [])
        assert invoke("history").stdout == ended.stdout


def test_large_figures_keep_their_digits(invoke: Invoke, tmp_path: Path) -> None:
    """In a trend, in a run, and to the last one in the file for other programs."""
    where = str(kept(tmp_path, [record(1, 123_456.75)]).path)
    _, line, legend = invoke("history", "trend", "resnet50", "--history-db", where).stdout.splitlines()
    assert line.split()[1] == "123,456.8"
    assert "bars from 0 to 123,456.8" in legend
    assert "123,456.8" in invoke("history", "show", run_id(1), "--history-db", where).stdout
    invoke("history", "export", "-o", "runs.csv", "--history-db", where)
    assert "123456.75;" in Path("runs.csv").read_text()


def test_every_command_understands_the_name_of_a_history_alike(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """~ is the home folder, as `run` has it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    kept(tmp_path / "home", [record(1)])
    assert invoke("history", "--history-db", "~/history.db").stdout.splitlines()[1].startswith(run_id(1))
    assert invoke("history", "prune", "--keep", "0", "--history-db", "~/history.db").exit_code == 0
    assert recorded(tmp_path / "home" / "history.db") == []


@pytest.mark.usefixtures("history")
def test_the_history_is_exported(invoke: Invoke) -> None:
    """CSV with a row a cell, oldest run first; JSON with all that is kept."""
    assert invoke("history", "export", "-o", "runs.csv").stdout == "runs.csv: 3 runs, 3 rows\n"
    with Path("runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["Run"], row["Burn_In"]) for row in rows] == [(run_id(1), ""), (run_id(2), ""), (run_id(3), "FAIL")]
    invoke("history", "export", "--format", "json", "-o", "runs.json")
    assert [one["run"]["run_id"] for one in json.loads(Path("runs.json").read_text())["runs"]] == [
        row["Run"] for row in rows
    ]


@pytest.mark.parametrize(
    ("option", "value", "gone"),
    [("--keep", "1", [2, 1]), ("--before", "2026-04-03", [2, 1]), ("--keep", "9", []), ("--keep", "0", [3, 2, 1])],
)
def test_old_runs_are_deleted(invoke: Invoke, history: Path, option: str, value: str, gone: list[int]) -> None:
    """Said by their ids, and with --dry-run only said."""
    words = "".join(f"{run_id(number)}\n" for number in gone)
    rehearsed = invoke("history", "prune", option, value, "--dry-run")
    assert (rehearsed.exit_code, rehearsed.stdout, len(recorded(history))) == (0, words, 3)
    assert invoke("history", "prune", option, value).stdout == words
    assert recorded(history) == [run_id(number) for number in (1, 2, 3) if number not in gone]
