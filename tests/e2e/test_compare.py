"""`compare`, `make-baseline`, --compare-baseline, --thresholds and --price, as people call them."""

import json
import random
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from orchestrator import report as reports
from orchestrator.cli.commands import orchestrate
from orchestrator.config.report_formats import ReportFormat
from protocol.result import SteadyState
from tests.fakes.commands import TINY, python
from tests.fakes.runs import FakeRun, gpus, shipped

MODELS = ("resnet50", "bert-base", "lstm")
BATCH_SIZES = (1, 8)
CELLS = len(MODELS) * len(BATCH_SIZES)
OLDER, NEWER = "20260401-213000-aaaaaa", "20260402-213000-aaaaaa"
LIMIT = "thresholds:\n  - {{name: x, figure: forward_time_ms, phase: {phase}, below: {below}, models: [{models}]}}\n"


def made(folder: Path, *, slow: float = 1.0, seed: int = 1, driver: str = "570.86", launches: int = 3) -> Path:
    """A run on a GPU, whose launches repeat to 0.3 %."""
    chance = random.Random(seed)
    run = FakeRun(
        folder,
        devices=gpus(1, driver_version=driver),
        models=shipped(*MODELS),
        batch_sizes=BATCH_SIZES,
        launches=launches,
        run_id=folder.name,
    )
    cells = {cell.id: cell for cell in run.stored.plan.cells}
    for queue in run.stored.plan.order.values():
        for cell, number in queue:
            run.measured(cells[cell], number=number, forward_ms=10 * slow * (1 + chance.gauss(0, 0.003)), noise=0.001)
    run.samples()
    run.finish()
    reports.write(run.report(), run.paths, [ReportFormat.JSON])
    return folder


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("two") / "runs"
    made(runs / OLDER)
    made(runs / NEWER, slow=1.05, seed=2, driver="580.95")
    return runs


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(orchestrate, words, prog_name="gpubench-orchestrate")


@pytest.fixture
def compare(call: Callable[..., Result], two_runs: Path, tmp_path: Path) -> Callable[..., Result]:
    shutil.copytree(two_runs, tmp_path / "runs")
    return call


def test_a_regression_ends_with_one_in_every_format(compare: Callable[..., Result], tmp_path: Path) -> None:
    """From folders, reports and @last; all formats say the same."""
    text = compare("compare", "@last~1", "@last", "--junit", "out.xml")
    assert (text.exit_code, text.stderr) == (1, "")
    assert text.stdout.startswith(f"REGRESSION: {CELLS} SLOWER\n")
    assert "driver 570.86 -> 580.95" in text.stdout.splitlines()
    found = json.loads(compare("compare", f"runs/{OLDER}", "@last", "--format", "json").stdout)
    assert found["exit_code"] == 1
    (one,) = found["comparisons"]
    assert one["counts"] == {"SLOWER": CELLS}
    assert [mean["ratio"] for mean in one["means"]] == [pytest.approx(1 / 1.05, abs=0.005)]
    markdown = compare("compare", "@last~1", f"runs/{NEWER}/report.json", "--format", "md")
    assert markdown.exit_code == 1
    assert markdown.stdout.startswith(f"### REGRESSION: {CELLS} SLOWER\n")
    suite = ET.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == (str(CELLS + 1), str(CELLS + 1))  # all together, too


def test_a_page_is_printed_or_written(compare: Callable[..., Result], tmp_path: Path) -> None:
    """The same page in UTF-8 whatever the locale says; -o keeps what was there, and its suffix names the format."""
    words = ("-m", "orchestrator", "compare", "@last~1", "@last", "--format", "html")
    printed = python(*words, cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert (printed.returncode, printed.stderr) == (1, "")
    page = tmp_path / "page.html"
    page.write_text("older")
    done = compare("compare", "@last~1", "@last", "-o", "page.html")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "page.html\n", "")
    assert page.read_text(encoding="utf-8") == printed.stdout
    assert printed.stdout.startswith("<!DOCTYPE html>")
    assert (tmp_path / "page.1.html").read_text() == "older"
    for name, begins in (("x.json", "{"), ("x", "REGRESSION: ")):
        assert compare("compare", "@last~1", "@last", "-o", name).exit_code == 1
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_exit_codes_are_for_ci(compare: Callable[..., Result], tmp_path: Path) -> None:
    """0 without a regression, 1 for what --fail-on names, 4 where a cell is missing, 2 for what is no run."""
    made(tmp_path / "one", launches=1)
    few = FakeRun(tmp_path / "few", devices=gpus(1), models=shipped("lstm"), batch_sizes=BATCH_SIZES)
    few.everything()
    few.finish()
    expected = {
        ("@last", "@last~1"): 0,
        ("@last", "@last~1", "--fail-on", "faster"): 1,
        ("@last~1", "@last", "--fail-on", "none"): 0,
        ("@last~1", "@last", "--threshold", "10"): 0,
        ("@last~1", OLDER): 2,
        ("@last~1", "one", "@last"): 1,
        ("one", "@last"): 1,
        ("@last~1", "few"): 4,
        ("@last~1", "few", "--fail-on", "slower,not-comparable"): 1,
        ("@last",): 2,
        ("@last", "none.json"): 2,
    }
    found = {words: compare("compare", *words) for words in expected}
    assert {words: done.exit_code for words, done in found.items()} == expected


def test_a_baseline_is_made_and_compared_with(compare: Callable[..., Result], tmp_path: Path) -> None:
    """Never replaced; `report` compares a run's folder with it, and `compare` takes it as a side."""
    done = compare("make-baseline", "@last~1", "-o", "mine.json")
    assert (done.exit_code, done.stdout) == (0, "mine.json\n")
    assert "profile quick" in done.stderr
    assert compare("make-baseline", "@last~1", "-o", "mine.json").exit_code == 2
    shown = compare("report", f"runs/{NEWER}", "--compare-baseline", "mine.json", "-o", "out.json")
    assert shown.exit_code == 0, shown.stderr
    report = json.loads((tmp_path / "out.json").read_bytes())
    assert report["baseline_comparison"]["baseline_gpu"] == "NVIDIA H200"
    improved = {*(f"{model}_throughput" for model in MODELS), "overall"}
    assert report["baseline_comparison"]["improvement_percent"].keys() == improved
    assert report["summary"]["overall_score"] == pytest.approx(100 / 1.05, abs=0.5)
    assert compare("compare", "mine.json", "@last").exit_code == 1
    assert compare("compare", "@last", "mine.json").exit_code == 2  # a baseline is no newer side


def test_nothing_is_built_on_times_that_were_not_steady(compare: Callable[..., Result], tmp_path: Path) -> None:
    """No limit, no score and no baseline; `make-baseline` names such cells, and makes no baseline of nothing."""
    run = FakeRun(tmp_path / "some", devices=gpus(1), models=shipped(*MODELS), batch_sizes=BATCH_SIZES)
    unsteady = [
        one for one in run.stored.plan.cells if one.model == "lstm" or (one.model, one.batch_size) == ("resnet50", 8)
    ]
    for one in run.stored.plan.cells:
        run.measured(one, steady_state=SteadyState.NONE if one in unsteady else SteadyState.REACHED)
    run.finish()
    done = compare("make-baseline", "some", "-o", "mine.json")
    assert (done.exit_code, done.stdout) == (0, "mine.json\n")
    note = done.stderr.splitlines()[0]
    assert f" {len(unsteady)} cells of {CELLS}: " in note
    assert all(f"GPU 0 {one.model} inference fp32 b{one.batch_size}" in note for one in unsteady)
    assert len(json.loads((tmp_path / "mine.json").read_bytes())["cells"]) == CELLS - len(unsteady)
    (tmp_path / "limits.yaml").write_text(LIMIT.format(phase="inference", below=50, models="lstm"))
    base = ("--compare-baseline", f"runs/{OLDER}")
    held = compare("report", "some", "--thresholds", "limits.yaml", *base, "-o", "out.json")
    assert held.exit_code == 4
    report = json.loads((tmp_path / "out.json").read_bytes())
    assert report["summary"]["cells"]["ok"] == report["summary"]["cells"]["planned"] == CELLS
    many = FakeRun(tmp_path / "many", devices=gpus(1), batch_sizes=tuple(range(1, 11)))
    for one in many.stored.plan.cells:
        many.measured(one, steady_state=SteadyState.REACHED if one.batch_size == 1 else SteadyState.NONE)
    many.finish()
    note = compare("make-baseline", "many", "-o", "one.json").stderr.splitlines()[0]
    assert (" 9 cells of 10: " in note, " and 1 more: " in note) == (True, True)
    nothing = FakeRun(tmp_path / "none", devices=gpus(1), batch_sizes=(1,))
    nothing.measured(nothing.cell(), steady_state=SteadyState.NONE)
    nothing.finish()
    assert compare("make-baseline", "none", "-o", "empty.json").exit_code == 2
    assert not (tmp_path / "empty.json").exists()


def limited(folder: Path, compare: Callable[..., Result], phase: str, below: int, models: str) -> tuple[Result, Any]:
    """What `report` of a run says with a limit for these models, and the report."""
    limits, made = folder.parent / "limits.yaml", folder.parent / "out.json"
    limits.write_text(LIMIT.format(phase=phase, below=below, models=models))
    done = compare("report", str(folder), "--thresholds", str(limits), "-o", str(made))
    return done, json.loads(made.read_bytes()) if made.exists() else None


@pytest.mark.parametrize(("phase", "below", "code"), [("inference", 5, 1), ("inference", 50, 0), ("training", 50, 4)])
def test_a_report_ends_with_what_its_thresholds_say(
    compare: Callable[..., Result], tmp_path: Path, phase: str, below: int, code: int
) -> None:
    """1 for a missed one, 4 for one that no figure belongs to, 0 for those that are met; a note says which it was."""
    done, report = limited(tmp_path / "runs" / OLDER, compare, phase, below, ",".join(MODELS))
    assert (done.exit_code, done.stdout) == (code, f"{tmp_path / 'runs' / 'out.json'}\n"), done.stderr
    assert report["verdict"]["exit_code"] == code
    notes = [line for line in done.stderr.splitlines() if "exit code" in line]
    assert [f"exit code {code}" in line for line in notes] == ([True] if code else [])


def test_a_report_of_an_incomplete_run_is_not_made_good_by_its_thresholds(
    compare: Callable[..., Result], tmp_path: Path
) -> None:
    """Exit code 4, as the report says, though the limit of another cell is kept."""
    run = tmp_path / "runs" / OLDER
    for result in run.glob("launches/lstm-*/*/result.msgpack"):
        result.unlink()
    done, report = limited(run, compare, "inference", 50, "resnet50")
    assert report["verdict"]["exit_code"] == done.exit_code == 4


def test_thresholds_name_models_of_the_run_and_those_that_ship(call: Callable[..., Result], tmp_path: Path) -> None:
    """A model that ships and was not measured has no figure; one that nobody knows is a mistake, and so is a probe."""
    models = shipped("resnet50")[0], msgspec.structs.replace(shipped("lstm")[0], name="net.py:Net")
    run = FakeRun(tmp_path / "mine", devices=gpus(1), models=models, batch_sizes=(1,))
    run.everything()
    run.finish()
    for model, code in (("net.py:Net", 0), ("bert-base", 4), ("net.py:Nat", 2), ("gemm", 2)):
        done, _ = limited(run.paths.folder, call, "inference", 50, f"'{model}'")
        assert done.exit_code == code, done.stderr
        wrong = f"error: {tmp_path / 'limits.yaml'}, line 2, thresholds[0].models[0]: "
        assert done.stderr.startswith(wrong) is (code == 2)


@pytest.mark.slow
def test_a_run_is_compared_with_what_was_requested(call: Callable[..., Result], tmp_path: Path) -> None:
    """On a CPU device: score, costs, a missed threshold; the same when its report is made again; no verdict on it."""
    fixed = ("-m", "orchestrator", *TINY, "-w", "3", "--launches", "3")  # with fewer, noisy times have no change
    first = python(*fixed, "-o", "first.json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    (tmp_path / "limits.yaml").write_text(
        "thresholds:\n  - {name: impossible, figure: throughput_per_sec, phase: inference, at_least: 1.0e+12}\n"
    )
    held = ("--compare-baseline", "first.json", "--thresholds", "limits.yaml", "--price", "2.5")
    done = python(*fixed, *held, "-o", "second.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "second.json").read_bytes())
    assert report["verdict"]["exit_code"] == 1
    assert report["baseline_comparison"]["improvement_percent"].keys() == {"lstm_throughput", "overall"}
    assert report["costs"][0]["price_per_million"] > 0
    (tmp_path / "first.json").unlink()
    (tmp_path / "limits.yaml").unlink()
    folder = sorted((tmp_path / "runs").iterdir())[-1]
    again = call("report", str(folder), "-f", "json")
    assert again.exit_code == 0, again.stderr
    assert json.loads((folder / "report.json").read_bytes())["summary"] == report["summary"]
    (compared,) = json.loads(call("compare", "@last~1", "@last", "-f", "json").stdout)["comparisons"]
    assert sum(compared["counts"].values()) == len(report["results"])  # verdicts are up to what else this CPU does


def test_comparing_imports_nothing_slow(two_runs: Path) -> None:
    """Neither pandas nor scipy, nor numpy: 2 reports are compared before a person notices."""
    code = (
        "import sys; from orchestrator.cli.commands import benchmark\n"
        f"try: benchmark(['compare', '{OLDER}/report.json', '{NEWER}/report.json'])\n"
        "except SystemExit as end: print(end.code, sorted({'pandas', 'scipy', 'numpy', 'torch'} & set(sys.modules)))"
    )
    done = python("-c", code, cwd=two_runs)
    assert done.stdout.splitlines()[-1] == "1 []", done.stderr
