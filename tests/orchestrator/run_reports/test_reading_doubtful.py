"""Files that would make a comparison say what nobody measured: cells given twice, or on no device, a run and itself.

And how a run ended, which is told beside what it measured.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.compare import baselines, run_figures
from orchestrator.compare.comparison import compare
from orchestrator.config import margins
from orchestrator.errors import ConfigError
from orchestrator.figures.report import Report
from orchestrator.run_reports import report_reader
from protocol.exit_codes import ExitCode
from tests.fakes import sides
from tests.fakes.runs import FakeRun


@pytest.mark.parametrize("read", [report_reader.read, report_reader.baseline])
def test_a_doubtful_report_or_baseline_is_refused(
    tmp_path: Path, report: Path, read: Callable[[str, str], object]
) -> None:
    """A cell that is there twice, of which nobody knows which was measured, or on none of the devices."""
    twice, gone = json.loads(report.read_bytes()), json.loads(report.read_bytes())
    twice["results"].append({**twice["results"][0], "load_metrics": None})
    gone["probes"][0]["gpu_uuid"] = "GPU-gone"
    file = tmp_path / "bad.json"
    for content, words in (
        (twice, r"gpt2 inference fp32 b1 on GPU-[-0-9]+ .*2 times"),
        (sides.baseline(sides.cell("a"), sides.cell("a", 9.0)), "a inference bf16 b8 on GPU-0 .*2 times"),
        (gone, "hbm probe fp32 on GPU-gone"),
        (sides.baseline(sides.cell("a", gpu_uuid="GPU-9")), "a inference bf16 b8 on GPU-9"),
    ):
        file.write_bytes(msgspec.json.encode(content))
        with pytest.raises(ConfigError, match=rf"bad\.json: .*{words}"):
            read(str(file), "runs")


def test_a_run_is_not_compared_with_itself(tmp_path: Path, report: Path) -> None:
    """Its folder, its report, a copy of it, a baseline of it alone: the same run, and SAME for ever."""
    folder, copy, own = report.parent, tmp_path / "copy.json", tmp_path / "own.json"
    copy.write_bytes(report.read_bytes())
    mine = report_reader.read(str(report), "runs")
    own.write_bytes(msgspec.json.encode(baselines.reduced(mine, "own")))
    for first, second in ((folder, report), (report, copy), (own, report), (own, own)):
        with pytest.raises(ConfigError, match=f"the same run, {mine.run_id}"):
            report_reader.sides([str(first), str(second)], "runs")
    other = tmp_path / "other.json"
    other.write_bytes(msgspec.json.encode(sides.baseline(run_id="20260101-000000-000000")))
    with pytest.raises(ConfigError, match=rf"{other.name} and .*{other.name} .*the same run"):
        report_reader.sides([str(other), str(report), str(other)], "runs")
    names = [found.name for found in report_reader.sides([str(other), str(report), str(copy)], "runs")]
    assert names == [str(other), str(report), str(copy)]


def test_a_run_is_not_compared_with_a_baseline_that_it_is_a_part_of(tmp_path: Path, report: Path) -> None:
    """Nor is that baseline against one of a part of it; baselines that share a run and have others too are."""
    mine = report_reader.read(str(report), "runs").run_id

    def holding(name: str, *runs: str) -> str:
        file = tmp_path / name
        file.write_bytes(msgspec.json.encode(sides.baseline(run_id=run_figures.RUNS_APART.join(runs))))
        return str(file)

    more, most, others = holding("more", mine, "b"), holding("most", mine, "b", "c"), holding("others", mine, "d")
    for first, second, both in ((more, str(report), f"run, {mine}"), (more, most, "runs, "), (most, more, "runs, ")):
        with pytest.raises(ConfigError, match=f"{first} and {second} hold the same {both}"):
            report_reader.sides([first, second], "runs")
    assert [found.name for found in report_reader.sides([more, others], "runs")] == [more, others]


def test_a_baseline_is_named_first(tmp_path: Path, report: Path) -> None:
    """After a run it would be told backwards, a slow run as FASTER; after another baseline it may stand."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for file, run_id in ((first, "20260101-000000-000000"), (second, "20260102-000000-000000")):
        file.write_bytes(msgspec.json.encode(sides.baseline(run_id=run_id)))
    with pytest.raises(ConfigError, match=re.escape(f"{first} is a baseline, but {report} is not")):
        report_reader.sides([str(report), str(first)], "runs")
    assert len(report_reader.sides([str(first), str(report), str(second)], "runs")) == 3


def test_how_a_run_ended_is_told_beside_what_it_measured(tmp_path: Path) -> None:
    """Of one that died, or has cells without a result; a baseline made of it has its sound cells."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    died = run.report()
    for found in (run_figures.of_report(died, "died"), run_figures.of_report(_only_missed(died), "died")):
        assert found.ended.startswith("incomplete: ")
        assert baselines.reduced(found, "base").ended == ""
        for pair in ((sides.side(), found), (found, sides.side())):
            assert any(found.ended in note for note in compare(*pair, margins.load()).notes)
    well = sides.measured(tmp_path / "well").report()
    assert run_figures.of_report(well, "well").ended == ""
    assert b"ended" not in msgspec.json.encode(run_figures.of_report(well, "well"))


def _only_missed(report: Report) -> Report:
    """The same run, where a missed threshold decides the exit code."""
    return msgspec.structs.replace(
        report, verdict=msgspec.structs.replace(report.verdict, exit_code=int(ExitCode.MISSED), reasons=())
    )
