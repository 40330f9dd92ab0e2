"""`compare`, `make-baseline`, --compare-baseline, --thresholds and --price, as people call them."""

import json
import os
import random
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator import report as reports
from orchestrator.config.run_configuration import ReportFormat
from protocol.result import SteadyState
from tests.fakes.commands import TINY, python
from tests.fakes.nvml import ROOT
from tests.fakes.runs import FakeRun, gpus, shipped

Called = subprocess.CompletedProcess[str]
MODELS = ("resnet50", "bert-base", "lstm")


def made(folder: Path, *, slow: float = 1.0, seed: int = 1, driver: str = "570.86", launches: int = 3) -> Path:
    """A run on a GPU, whose launches repeat to 0.3 %."""
    chance = random.Random(seed)
    run = FakeRun(
        folder,
        devices=gpus(1, driver_version=driver),
        models=shipped(*MODELS),
        batch_sizes=(1, 8),
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
    """A folder of runs of different speed."""
    runs = tmp_path_factory.mktemp("two") / "runs"
    made(runs / "20260401-213000-aaaaaa")
    made(runs / "20260402-213000-aaaaaa", slow=1.05, seed=2, driver="580.95")
    return runs


@pytest.fixture
def compare(two_runs: Path, tmp_path: Path) -> Callable[..., Called]:
    """Calls the program in a folder with a copy of those runs, to be changed, and nothing else."""
    shutil.copytree(two_runs, tmp_path / "runs")
    return lambda *words: python("-m", "orchestrator", *words, cwd=tmp_path)


def test_a_regression_ends_with_one_in_every_format(compare: Callable[..., Called], tmp_path: Path) -> None:
    """From folders, reports and @last; all formats say the same."""
    text = compare("compare", "@last~1", "@last", "--junit", "out.xml")
    assert (text.returncode, text.stderr) == (1, "")
    assert text.stdout.splitlines()[1] == "driver 570.86 -> 580.95"
    told = json.loads(compare("compare", "runs/20260401-213000-aaaaaa", "@last", "--format", "json").stdout)
    assert told["exit_code"] == 1
    (one,) = told["comparisons"]
    assert one["counts"] == {"SLOWER": 6}
    assert one["mean"]["ratio"] == pytest.approx(1 / 1.05, abs=0.005)
    markdown = compare("compare", "@last~1", "runs/20260402-213000-aaaaaa/report.json", "--format", "md")
    assert markdown.returncode == 1
    assert markdown.stdout.startswith("### driver 570.86 -> 580.95: 6 of 6 cells SLOWER")
    suite = ET.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("6", "6")


def test_a_page_is_printed_or_written(compare: Callable[..., Called], tmp_path: Path) -> None:
    """The same page in UTF-8 whatever the locale says; -o keeps what was there, and its suffix names the format."""
    words = ("-m", "orchestrator", "compare", "@last~1", "@last", "--format", "html")
    printed = python(*words, cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert (printed.returncode, printed.stderr) == (1, "")
    page = tmp_path / "page.html"
    page.write_text("older")
    done = compare("compare", "@last~1", "@last", "-o", "page.html")
    assert (done.returncode, done.stdout, done.stderr) == (1, "page.html\n", "")
    assert page.read_text(encoding="utf-8") == printed.stdout
    assert printed.stdout.startswith("<!DOCTYPE html>")
    assert "driver 570.86 -&gt; 580.95" in printed.stdout
    assert (tmp_path / "page.1.html").read_text() == "older"
    for name, begins in (("x.json", "{"), ("x", "====")):
        assert compare("compare", "@last~1", "@last", "-o", name).returncode == 1
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_exit_codes_are_for_ci(compare: Callable[..., Called], tmp_path: Path) -> None:
    """0 without a regression, 1 for what --fail-on names, 4 where nothing is conclusive, 2 for what is no run."""
    made(tmp_path / "one", launches=1)
    expected = {
        ("@last", "@last~1"): 0,
        ("@last", "@last~1", "--fail-on", "faster"): 1,
        ("@last~1", "@last", "--fail-on", "none"): 0,
        ("@last~1", "@last", "--threshold", "10"): 0,
        ("@last~1", "20260401-213000-aaaaaa"): 2,
        ("@last~1", "one", "@last"): 1,
        ("one", "@last"): 4,
        ("one", "@last", "--fail-on", "slower,inconclusive"): 1,
        ("@last",): 2,
        ("@last", "none.json"): 2,
    }
    found = {words: compare("compare", *words) for words in expected}
    assert {words: done.returncode for words, done in found.items()} == expected
    assert not any("Traceback" in done.stderr for done in found.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.json",), "error: expected two runs or more to compare, got 1"),
        (("a.json", "b.json"), "error: a.json: there is no such file, nor a run's folder of that name"),
        (("@last", "@last", "-o", "x.pdf"), "error: -o/--output: x.pdf: no format has the suffix '.pdf'; say which"),
        (("@last", "@last", "-o", "x.md", "--format", "html"), "error: -o/--output: x.md has the suffix of md, and "),
        (("@last", "@last", "-o", "none/x.md"), "error: -o/--output: none/x.md cannot be written: no such folder"),
        (("@last", "@last", "--format", "jsn"), "error: --format: there is no format 'jsn'. Did you mean json?"),
        (("@last", "@last", "--fail-on", "slow"), "error: --fail-on: there is no verdict 'slow'. Did you mean slower?"),
        (("@last", "@last", "--threshold", "0"), "error: --threshold: expected more than 0 and less than 100, got 0"),
        (("@last", "@last", "--threshold", "nan"), "error: --threshold: expected more than 0 and less than 100"),
        (("@last", "@last", "--junit", "none/x.xml"), "error: --junit: none/x.xml cannot be written: no such folder"),
        (("@last", "@last", "-o", "/proc/x.md"), "error: -o/--output: /proc: cannot be written: "),
        (("@last", "@last", "--junit", "/proc/x.xml"), "error: --junit: /proc: cannot be written: "),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    compare: Callable[..., Called], words: tuple[str, ...], message: str
) -> None:
    """Exit code 2, nothing on standard output."""
    done = compare("compare", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_a_baseline_is_made_and_compared_with(compare: Callable[..., Called], tmp_path: Path) -> None:
    """Never replaced; a run's folder is held against it again with `report`, and `compare` takes it as a side."""
    done = compare("make-baseline", "@last~1", "-o", "mine.json")
    assert (done.returncode, done.stdout) == (0, "mine.json\n")
    assert "profile quick" in done.stderr
    again = compare("make-baseline", "@last~1", "-o", "mine.json")
    assert (again.returncode, again.stderr) == (
        2,
        "error: -o/--output: mine.json is there already; choose another name\n",
    )
    shown = compare("report", "runs/20260402-213000-aaaaaa", "--compare-baseline", "mine.json", "-o", "out.json")
    assert shown.returncode == 0, shown.stderr
    report = json.loads((tmp_path / "out.json").read_bytes())
    assert report["baseline_comparison"]["baseline_gpu"] == "NVIDIA H200"
    assert report["baseline_comparison"]["improvement_percent"].keys() == {
        *(f"{model}_throughput" for model in MODELS),
        "overall",
    }
    assert report["summary"]["overall_score"] == pytest.approx(100 / 1.05, abs=0.5)
    assert compare("compare", "mine.json", "@last").returncode == 1
    assert compare("compare", "@last", "mine.json").stderr.startswith("error: mine.json is a baseline, and @last is no")


def test_nothing_is_built_on_times_that_were_not_steady(compare: Callable[..., Called], tmp_path: Path) -> None:
    """No limit, no score and no baseline; `make-baseline` names such cells, and makes no baseline of nothing."""
    run = FakeRun(tmp_path / "some", devices=gpus(1), models=shipped(*MODELS), batch_sizes=(1, 8))
    for one in run.stored.plan.cells:
        unsteady = one.model == "lstm" or (one.model, one.batch_size) == ("resnet50", 8)
        run.measured(one, steady_state=SteadyState.NONE if unsteady else SteadyState.REACHED)
    run.finish()
    done = compare("make-baseline", "some", "-o", "mine.json")
    assert (done.returncode, done.stdout) == (0, "mine.json\n")
    assert done.stderr.splitlines()[0] == (
        "note: left out, 3 cells of 6: GPU 0 resnet50 inference fp32 b8, GPU 0 lstm inference fp32 b1, GPU 0 lstm "
        "inference fp32 b8: times were not steady after warm-up: measure longer, as with --profile rigorous"
    )
    assert len(json.loads((tmp_path / "mine.json").read_bytes())["cells"]) == 3
    limit = "thresholds:\n  - {name: x, figure: forward_time_ms, phase: inference, below: 50, models: [lstm]}\n"
    (tmp_path / "limits.yaml").write_text(limit)
    base = ("--compare-baseline", "runs/20260401-213000-aaaaaa")
    held = compare("report", "some", "--thresholds", "limits.yaml", *base, "-o", "out.txt")
    assert held.returncode == 4
    told = " ".join((tmp_path / "out.txt").read_text(encoding="utf-8").split())
    assert "any figure: x (times were not steady after warm-up: measure longer, as with --profile rigorous)" in told
    assert "- every planned cell (6) is accounted for" in told
    assert "3 cells left out: times were not steady after warm-up" in told
    many = FakeRun(tmp_path / "many", devices=gpus(1), batch_sizes=tuple(range(1, 11)))
    for one in many.stored.plan.cells:
        many.measured(one, steady_state=SteadyState.REACHED if one.batch_size == 1 else SteadyState.NONE)
    many.finish()
    told = compare("make-baseline", "many", "-o", "one.json").stderr.splitlines()[0]
    assert told.startswith("note: left out, 9 cells of 10: GPU 0 resnet50 inference fp32 b2, GPU 0")
    assert "GPU 0 resnet50 inference fp32 b9 and 1 more: times were not steady" in told
    nothing = FakeRun(tmp_path / "none", devices=gpus(1), batch_sizes=(1,))
    nothing.measured(nothing.cell(), steady_state=SteadyState.NONE)
    nothing.finish()
    refused = compare("make-baseline", "none", "-o", "empty.json")
    assert refused.returncode == 2
    assert "no cell of it can be a baseline: 1 cell, times were not steady after warm-up: measure" in refused.stderr
    assert not (tmp_path / "empty.json").exists()


def test_a_report_ends_with_what_its_thresholds_say(compare: Callable[..., Called], tmp_path: Path) -> None:
    """1 for a missed one, 4 for one that nothing was held against, 0 for those that are met; and says which it was."""
    told: dict[int, list[str]] = {}
    limit = "thresholds:\n  - {{name: x, figure: forward_time_ms, phase: {phase}, below: {below}}}\n"
    for phase, below, code in (("inference", 5, 1), ("inference", 50, 0), ("training", 50, 4)):
        (tmp_path / "limits.yaml").write_text(limit.format(phase=phase, below=below))
        run = "runs/20260401-213000-aaaaaa"
        done = compare("report", run, "--thresholds", "limits.yaml", "-o", "out.json")
        assert (done.returncode, done.stdout) == (code, f"{tmp_path / 'out.json'}\n"), done.stderr
        assert json.loads((tmp_path / "out.json").read_bytes())["verdict"]["exit_code"] == code
        told[code] = [line for line in done.stderr.splitlines() if "exit code" in line]
    unmeasured = "1 threshold could not be held against any figure: x"
    (missed,), (incomplete,) = told[1], told[4]
    assert missed.startswith("note: threshold missed, exit code 1: 6 thresholds missed: x; ")
    assert incomplete.startswith(f"note: incomplete, exit code 4: {unmeasured}")
    assert told[0] == []


def test_a_report_of_an_incomplete_run_is_not_made_good_by_its_thresholds(
    compare: Callable[..., Called], tmp_path: Path
) -> None:
    """Exit code 4, as the report says, though the limit of another cell is kept."""
    run = tmp_path / "runs" / "20260401-213000-aaaaaa"
    for result in run.glob("launches/lstm-*/*/result.msgpack"):
        result.unlink()
    limit = "thresholds:\n  - {name: x, models: [resnet50], figure: forward_time_ms, phase: inference, below: 50}\n"
    (tmp_path / "limits.yaml").write_text(limit)
    done = compare("report", str(run), "--thresholds", "limits.yaml", "-o", "out.json")
    assert json.loads((tmp_path / "out.json").read_bytes())["verdict"]["exit_code"] == done.returncode == 4


def test_a_report_may_limit_every_model_of_its_run_and_those_that_ship(
    compare: Callable[..., Called], tmp_path: Path
) -> None:
    """One that ships and was not measured is `not measured`; one that nobody knows is a mistake, and so is a probe."""
    models = shipped("resnet50")[0], msgspec.structs.replace(shipped("lstm")[0], name="net.py:Net")
    run = FakeRun(tmp_path / "runs" / "mine", devices=gpus(1), models=models, batch_sizes=(1,))
    run.everything()
    run.finish()
    limit = "thresholds:\n  - {name: x, figure: forward_time_ms, phase: inference, below: 50, models: ['%s']}\n"
    where = "error: limits.yaml, line 2, thresholds[0].models[0]: "
    mistakes = {
        "net.py:Nat": f"{where}no model named 'net.py:Nat'.",
        "gemm": f"{where}gemm is a probe, and only models have limits\n",
    }
    for name, code in (("net.py:Net", 0), ("bert-base", 4), *((mistyped, 2) for mistyped in mistakes)):
        (tmp_path / "limits.yaml").write_text(limit % name)
        done = compare("report", "runs/mine", "--thresholds", "limits.yaml", "-o", "out.json")
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith(mistakes.get(name, ""))


@pytest.mark.slow
def test_a_run_is_held_against_what_was_asked_for(tmp_path: Path) -> None:
    """On a CPU device: score, costs, a missed threshold; the same when its report is made again; no verdict on it."""
    fixed = (*TINY, "-w", "3")  # nobody asks whether times became steady on a CPU that others work on
    first = python("-m", "orchestrator", *fixed, "-o", "first.json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    (tmp_path / "limits.yaml").write_text(
        "thresholds:\n  - {name: impossible, figure: throughput_per_sec, phase: inference, at_least: 1.0e+12}\n"
    )
    held = ("--compare-baseline", "first.json", "--thresholds", "limits.yaml", "--price", "2.5")
    done = python("-m", "orchestrator", *fixed, *held, "-o", "second.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Verdict: THRESHOLD MISSED" in done.stdout
    report = json.loads((tmp_path / "second.json").read_bytes())
    assert report["baseline_comparison"]["improvement_percent"].keys() == {"lstm_throughput", "overall"}
    assert report["costs"][0]["price_per_million"] > 0
    (tmp_path / "first.json").unlink()
    (tmp_path / "limits.yaml").unlink()
    folder = sorted((tmp_path / "runs").iterdir())[-1]
    again = python("-m", "orchestrator", "report", str(folder), "-f", "json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads((folder / "report.json").read_bytes())["summary"] == report["summary"]
    compared = python("-m", "orchestrator", "compare", "@last~1", "@last", cwd=tmp_path)
    assert compared.returncode == 4
    assert "a CPU device gets no performance verdict" in " ".join(compared.stdout.split())


def test_what_a_run_cannot_be_held_against_is_refused_before_it_begins(tmp_path: Path) -> None:
    """Exit code 2, and no folder of a run."""
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.yaml").write_text("thresholds: []\n")
    limit = "thresholds:\n  - {name: x, figure: latency_ms, phase: inference, below: 5, models: [%s]}\n"
    (tmp_path / "typo.yaml").write_text(limit % "lstn")
    (tmp_path / "probe.yaml").write_text(limit % "gemm")
    for words, message in (
        (("--compare-baseline", "bad.json"), "error: bad.json: damaged: it is cut off"),
        (("--compare-baseline", "h200"), "error: --compare-baseline: there is no file h200, and no baseline"),
        (("--thresholds", "bad.yaml"), "error: bad.yaml: there is no threshold in it"),
        (
            ("--thresholds", "typo.yaml"),
            "error: typo.yaml, line 2, thresholds[0].models[0]: no model named 'lstn'. Did",
        ),
        (("--thresholds", "typo.yaml", "--dry-run"), "error: typo.yaml, line 2, thresholds[0].models[0]: no model "),
        (
            ("--thresholds", "probe.yaml"),
            "error: probe.yaml, line 2, thresholds[0].models[0]: gemm is a probe, and only models",
        ),
        (("--price", "0"), "error: --price: expected a price above 0 and at most 1,000,000,000, got 0"),
        (("--price", "nan"), "error: --price: expected a price above 0 and at most 1,000,000,000, got nan"),
        (("--price", "1", "--burn-in", "1m"), "error: --compare-baseline, --thresholds and --price are about"),
    ):
        done = python("-m", "orchestrator", *TINY, *words, cwd=tmp_path)
        assert (done.returncode, done.stderr[: len(message)]) == (2, message)
    assert not (tmp_path / "runs").exists()


def test_comparing_imports_nothing_slow(tmp_path: Path) -> None:
    """Neither pandas nor scipy, nor numpy: 2 reports are compared before a person notices."""
    made(tmp_path / "a")
    made(tmp_path / "b")
    code = (
        "import sys; from orchestrator.cli.commands import benchmark\n"
        "try: benchmark(['compare', 'a/report.json', 'b/report.json'])\n"
        "except SystemExit as end: print(end.code, sorted({'pandas', 'scipy', 'numpy', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
