"""What the page says: the same as the other formats, within its size, and what is missing where nothing is known."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from click.testing import Result

from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.report_formats import ReportFormat
from orchestrator.figures.comparisons import Standing
from orchestrator.figures.report import GpuInfo, Report
from orchestrator.figures.table import LimitName
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report import render
from orchestrator.report.charts import Box, Heat, Kind
from orchestrator.report.html import to_html
from orchestrator.report.html.page import page
from orchestrator.report.html.render import bound
from orchestrator.report.html.size_limit import LEAST_CELLS, MOST_BYTES, _few, fitted
from orchestrator.report.numbers import number
from orchestrator.report.sections import (
    MOST_CELLS,
    MOST_ROWS,
    Badge,
    Chart,
    Finding,
    Log,
    Section,
    Tone,
    shortened,
    table,
    texts,
)
from orchestrator.stats.siblings import SiblingVerdict
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category
from tests.fakes.pages import SLOW, many, timeline
from tests.fakes.runs import FakeRun, gpus

Invoke = Callable[..., Result]


def section(report: Report, name: str) -> Section:
    """A chapter of the page."""
    return next(one for one in page(report, NOTHING_KEPT).sections if one.id == name)


def test_eight_gpus_and_all_models_fit(zoo: Report) -> None:
    """With as many readings as are kept, the page stays below 3 MB."""
    node = many(zoo, 8)
    assert len(node.cells) > 700
    assert len(to_html(node, timeline(node))) < MOST_BYTES


def test_a_huge_run_fits_as_well(zoo: Report) -> None:
    """Of 40,000 cells the page has those that are not well, and as many others as it holds; it says what is missing."""
    huge = msgspec.structs.replace(
        zoo,
        cells=zoo.cells * 400,
        results=tuple(
            msgspec.structs.replace(one, model_name=f"model-{number}") for number in range(300) for one in zoo.results
        ),
        failures=zoo.failures * 400,
    )
    made = page(huge, NOTHING_KEPT)
    assert len(made.cells.table.rows) == MOST_CELLS
    assert "more cells are in report.csv" in made.cells.table.note
    assert str(made.cells.table.rows[0][7]) == "failed"
    assert len(to_html(huge, timeline(zoo))) < MOST_BYTES


def test_every_chapter_at_once_fits_as_well(zoo: Report) -> None:
    """Eight GPUs, four precisions, thresholds and costs for each cell: the table of all cells has what they leave."""
    node = many(zoo, 8)
    precisions = ("fp32", "tf32", "fp16", "bf16")
    wide = msgspec.structs.replace(
        node,
        cells=node.cells * len(precisions),
        results=tuple(
            msgspec.structs.replace(one, precision=precision) for precision in precisions for one in node.results
        ),
    )
    limit = Threshold(name="a limit for each cell", figure=LimitName.FORWARD_TIME, phase=Workload.INFERENCE, below=5.0)
    held = references.hold(wide, Against(thresholds=(limit,) * 3, price_per_hour=2.5))
    made = {name: to_html(report, timeline(node)).decode() for name, report in (("plain", wide), ("held", held))}
    rows = {name: text.partition('id="cells-table"')[2].count("<tr><td>") for name, text in made.items()}
    assert all(len(text.encode()) <= MOST_BYTES for text in made.values())
    assert LEAST_CELLS < rows["held"] < rows["plain"] <= MOST_CELLS
    cells = page(held, NOTHING_KEPT).cells.table
    beyond = cells.beyond + len(cells.rows) - rows["held"]
    assert f"{beyond} more cells are in report.csv and report.json" in made["held"]
    assert made["held"].partition('id="cells-table"')[2].count(">failed</span>") == 32
    assert "more rows are in report.json" in made["held"]


def test_long_logs_leave_room_for_the_rest(zoo: Report) -> None:
    """A hundred failures with the longest logs there are: the first have them, and the others say where theirs lie."""
    (failure,) = zoo.failures
    line = "x" * 1900
    loud = msgspec.structs.replace(failure, evidence={"stderr": f"{line}\n" * 40, "stdout": f"{line}\n" * 40})
    several = tuple(msgspec.structs.replace(loud, launch=number) for number in range(150))
    made = to_html(msgspec.structs.replace(zoo, failures=several), timeline(zoo))
    assert len(made) <= MOST_BYTES
    text = made.decode()
    assert (line in text, "50 more are in report.json" in text) == (True, True)
    assert text.count("There is no room for its logs on this page.") > 50
    assert text.count("Logs: ") == 100


def test_cells_are_left_out_where_everything_else_takes_the_room(zoo: Report) -> None:
    """Fewer than are wanted otherwise; none where what cannot be left out is too much by itself."""
    whole = replace(page(many(zoo, 8), NOTHING_KEPT), sections=())
    bare = len(bound(replace(whole, cells=_few(whole.cells, 0))))

    def made(left: int) -> tuple[int, int]:
        """Bytes of the page and rows of the table, where so many bytes are left."""
        filler = Finding(None, "much to say", ("x" * 1900,) * ((MOST_BYTES - bare - left) // 1940))
        text = fitted(replace(whole, sections=(Section("loud", "Loud", findings=(filler,)),))).decode()
        return len(text.encode()), text.partition('id="cells-table"')[2].count("<tr><td>")

    size, rows = made(left=80_000)
    assert size <= MOST_BYTES
    assert 0 < rows < LEAST_CELLS < len(whole.cells.table.rows)
    assert made(left=-100_000)[1] == 0


def test_choices_of_a_chart_are_left_out_last(zoo: Report) -> None:
    """Where the charts alone are too large, as many as fit are drawn, and how many there are is said."""
    whole = page(zoo, NOTHING_KEPT)
    heat = Heat("a map", ("a",), ("b",), tuple(Box(0, 0, 1.0, "", "x" * 1000) for _ in range(20)))
    chart = Chart("many", "Many", Kind.HEAT, "Says.", (heat,) * 200, choice="Map")
    made = fitted(replace(whole, sections=(*whole.sections, Section("many", "Many", charts=(chart,)))))
    assert len(made) <= MOST_BYTES
    assert re.search(r"Says\. Of 200 charts the first (40|12) are here\.", made.decode())


def test_medians_are_over_identical_devices(tmp_path: Path) -> None:
    """Three GPUs of one kind make one bar, another kind of GPU one of its own; the choice says which."""
    devices = (*gpus(3), msgspec.structs.replace(gpus(4)[3], name="NVIDIA L40S"))
    run = FakeRun(tmp_path, devices=devices, batch_sizes=(8,))
    for place, milliseconds in enumerate((10.0, 11.0, 30.0, 20.0)):
        run.measured(run.cell(batch_size=8, device=place), forward_ms=milliseconds, noise=0.0)
    run.finish()
    table = section(run.report(), "performance").table("throughput")
    assert table is not None
    assert [(row[0], row[3]) for row in table.rows] == [
        ("inference, fp32, NVIDIA H200 (GPU 0 to GPU 2)", number(8 / 0.011)),
        ("inference, fp32, NVIDIA L40S (GPU 3)", number(8 / 0.020)),
    ]


def standing(device: GpuInfo, verdict: SiblingVerdict) -> Standing:
    """What is said of a device beside its siblings, without the figures that led to it."""
    figures = dict.fromkeys(("percent", "low_percent", "high_percent", "p", "reason", "launches_wanted"))
    empty: dict[str, Any] = {"why": "", "reason_text": "", "next_step": "", "effects": (), "slowest_cells": ()}
    return Standing(
        gpu_uuid=device.gpu_uuid,
        gpu_id=device.gpu_id,
        gpu_name=device.gpu_name,
        verdict=verdict,
        identical=4,
        not_comparable={},
        **figures,
        **empty,
    )


def framed(report: Report) -> list[set[str]]:
    """The devices that have a frame, of each heat map."""
    (chart,) = section(report, "spread").charts
    maps = [plot for plot in chart.plots if isinstance(plot, Heat)]
    return [{one.columns[box.column] for box in one.boxes if box.marked} for one in maps]


def test_frames_follow_the_verdicts(node: Report) -> None:
    """Where there are verdicts, a frame marks the devices that they name, whatever their figures; it is said."""
    first, *others = node.cross_gpu[:40]
    unknown = msgspec.structs.replace(first.values[0], percent_of_median=None)
    spreads = (*others, msgspec.structs.replace(first, values=(unknown, *first.values[1:])))

    def told(*verdicts: SiblingVerdict) -> Report:
        standings = tuple(map(standing, node.gpu_info, verdicts))
        return msgspec.structs.replace(node, cross_gpu=spreads, stragglers=standings)

    def says(report: Report) -> str:
        return section(report, "spread").charts[0].says

    for report in (node, told(*[SiblingVerdict.NONE] * 4)):
        assert framed(report) == [{f"GPU {SLOW}"}]
        assert "A frame marks what is slower than the median by more than 3 %;" in says(report)
    judged = told(SiblingVerdict.STRAGGLER, SiblingVerdict.SUSPECT, SiblingVerdict.OK, SiblingVerdict.NONE)
    assert framed(judged) == [{"GPU 0", "GPU 1"}]
    (plot,) = section(judged, "spread").charts[0].plots
    assert isinstance(plot, Heat)
    assert {(box.value is None, box.marked) for box in plot.boxes if box.column < 2} == {(False, True), (True, False)}
    assert "A frame marks the devices that are called STRAGGLER or SUSPECT;" in says(judged)
    assert "3 %" not in says(judged)
    assert framed(told(*[SiblingVerdict.OK] * 4)) == [set()]


def test_groups_of_devices_are_framed_each_by_its_own_rule(node: Report) -> None:
    """A group without verdicts keeps the rule of figures beside one that has them, and the legend has both."""
    paced = next(one for one in node.cross_gpu if one.metric == "throughput_samples_per_sec")
    pair = msgspec.structs.replace(paced, values=paced.values[SLOW:])
    others = [msgspec.structs.replace(one, values=one.values[:SLOW]) for one in node.cross_gpu]
    told = tuple(standing(one, SiblingVerdict.STRAGGLER) for one in node.gpu_info[:1])
    report = msgspec.structs.replace(node, cross_gpu=(pair, *others), stragglers=told)
    assert framed(report) == [{f"GPU {SLOW}"}, {"GPU 0"}]
    says = section(report, "spread").charts[0].says
    assert "STRAGGLER or SUSPECT; among devices without a verdict, what is slower than the median" in says


def test_the_root_cause_comes_first(tmp_path: Path) -> None:
    """A lost GPU explains what else went wrong: it is opened, with its evidence and what to do; others are folded."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.failed(run.cell(batch_size=1), Category.EXCEPTION, message="some mistake")
    run.failed(
        run.cell(batch_size=8), Category.DEVICE_LOST, message="gone", evidence={"xids": "79", "stderr": "a\n\nb"}
    )
    run.finish()
    first, second = section(run.report(), "failures").findings
    assert (first.badge, first.opened) == (Badge("root cause", Tone.BAD), True)
    assert (first.lines[0], first.details[0]) == ("gone", "Xid: 79")
    assert any(line.startswith("What to do: ") for line in first.details)
    assert first.logs == (Log("End of stderr", ("a", "b"), end=True),)
    assert (second.opened, second.lines[0]) == (False, "some mistake")


def test_logs_stand_as_they_were(tmp_path: Path) -> None:
    """A traceback keeps its indentation; of endless logs the end is shown, of stacks the innermost calls."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    stderr = "\n".join([*(f"noise {number}" for number in range(60)), "Traceback:", '  File "x"', "    boom()"])
    stacks = "\n".join(f"  call {number}" for number in range(60))
    run.failed(run.cell(), Category.EXCEPTION, evidence={"stderr": stderr, "stacks": stacks})
    run.finish()
    report = run.report()
    logs = {log.title: log.lines for log in section(report, "failures").findings[0].logs}
    assert (logs["End of stderr"][0], logs["End of stderr"][-1]) == ("noise 23", "    boom()")
    assert (logs["Stacks"][0], logs["Stacks"][-1]) == ("  call 0", "  call 39")
    text = to_html(report, NOTHING_KEPT).decode()
    assert "Traceback:\n  File &#34;x&#34;\n    boom()\n</pre>" in text
    assert '<pre tabindex="0">  call 0\n  call 1\n' in text


def test_long_tables_say_what_they_leave_out() -> None:
    """A table beside a chart ends at MOST_ROWS, with the number of the others after its own note."""
    whole = table("numbers", texts("Number"), [(str(number),) for number in range(MOST_ROWS + 3)], "Of a kind.")
    made = shortened(whole, MOST_ROWS)
    assert made.rows[-1] == (str(MOST_ROWS - 1),)
    assert made.note == "Of a kind. 3 more rows are in report.json."
    assert table("numbers", texts("Number"), [("1",)]).note == ""


def test_the_command_makes_the_page(invoke: Invoke, tmp_path: Path) -> None:
    """`report RUN -f html` renders it into the run's folder, -o x.html where it is wanted, both with what was read."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell())
    run.samples()
    run.finish()
    for options, path in ((("-f", "html"), run.paths.report("html")), (("-o", "x.html"), tmp_path / "x.html")):
        done = invoke("report", str(run.paths.folder), *options)
        assert (done.exit_code, done.stdout.split()) == (ExitCode.PASSED, [str(path)]), done.output
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<!DOCTYPE html>")
        assert '"Utilisation"' in text


def test_without_a_timeline_the_page_is_whole(tmp_path: Path) -> None:
    """A report of which no folder is at hand is rendered as well."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.everything()
    assert b"No readings were kept" in render(run.report(), ReportFormat.HTML)
