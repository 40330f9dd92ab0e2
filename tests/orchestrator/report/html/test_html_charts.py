"""Contents of charts and tables: each figure with its name, size, unit and time."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT, DeviceTimeline, Span, Timeline
from orchestrator.report.charts.performance import MOST_MODELS, performance
from orchestrator.report.charts.roofline import roofline
from orchestrator.report.charts.timeline import course
from orchestrator.report.charts.types import Bars, Curves, Heat, Roofline
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.html import to_html
from orchestrator.report.html.page import page
from orchestrator.report.html.render import bound
from orchestrator.report.sections import Chart, Section, shortened
from orchestrator.run_reports import report_reader, reporting
from protocol.cell import AUTO, Mode, Precision, Workload
from protocol.failure import Category
from tests.fakes.nvml import ROOT
from tests.fakes.runs import CREATED, FakeRun, gpus, shipped


def chart(report: Report, name: str) -> Chart:
    """A chart of the models' chapter."""
    return next(one for one in models(report).charts if one.id == name)


def models(report: Report) -> Section:
    """The models' chapter."""
    made = performance(report)
    assert made is not None
    return made


def rows(section: Section, name: str) -> Sequence[Sequence[str]]:
    """The table of a chart."""
    table = section.table(next(one for one in section.charts if one.id == name).table)
    assert table is not None
    return [[str(entry) for entry in row] for row in table.rows]


def memory(report: Report) -> list[tuple[str, str, str]]:
    """The boxes of a single memory map: model, column, text."""
    (plot,) = chart(report, "memory").plots
    assert isinstance(plot, Heat)
    return [(plot.rows[box.row], plot.columns[box.column], box.text) for box in plot.boxes]


def lines(report: Report) -> list[tuple[str, str, str, list[float]]]:
    """The curves: choice, unit, name, batch sizes."""
    plots = [plot for plot in chart(report, "batches").plots if isinstance(plot, Curves)]
    drawn = [(plot, line) for plot in plots for line in plot.lines]
    return [(plot.name, plot.unit, line.name, [batch for batch, _ in line.points]) for plot, line in drawn]


def test_times_of_day_reach_the_script_whole(tmp_path: Path) -> None:
    """Thirteen digits are not rounded to six."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell())
    run.samples()
    run.finish()
    text = to_html(*reporting.make_all(run.paths)[:2]).decode()
    found = re.search('id="plots">(.*?)</script>', text)
    assert found is not None
    plots: dict[str, Any] = json.loads(found[1])
    began = {plots[name]["plots"][0]["began_ms"] for name in ("launches", "readings")}
    assert began == {round(CREATED * 1000)}


def test_models_not_drawn_are_counted(tmp_path: Path) -> None:
    """The first sixty of each choice are drawn; the table has all."""
    (model,) = shipped("resnet50")
    several = [msgspec.structs.replace(model, name=f"model-{number}") for number in range(MOST_MODELS + 2)]
    run = FakeRun(tmp_path, models=several, workloads=(Workload.INFERENCE, Workload.TRAINING), batch_sizes=(8,))
    for cell in run.stored.plan.cells:
        if (cell.model, cell.workload) != ("model-0", Workload.TRAINING):
            run.measured(cell)
    run.finish()
    report = run.report()
    beyond = {"throughput-inference": "2 more of batch 8", "throughput-training": "1 more of batch 8"}
    beyond["memory"] = "2 more of inference, fp32; 2 more of training, fp32"
    beyond["iterations"] = "1 more of training, fp32, batch 8"
    text = to_html(report, NOTHING_KEPT).decode()
    for name, words in beyond.items():
        said_below = chart(report, name).not_shown
        assert re.fullmatch(rf".* 60 .*: {words}\.", said_below)
        below = text.partition(f'id="plot-{name}"')[2].partition("<details>")[0]
        assert re.search(f"{re.escape(said_below)} The table .*</p>", below)
        drawn = [plot for plot in chart(report, name).plots if isinstance(plot, Bars | Heat)]
        assert {len(plot.rows if isinstance(plot, Heat) else plot.categories) for plot in drawn} == {60}
        listed = [row[1] for row in rows(models(report), name) if not row[0].startswith("training") or name != "memory"]
        without_first = name in ("iterations", "throughput-training")
        assert listed == [one.name for one in several][without_first:]
    assert {box.row for plot in chart(report, "memory").plots if isinstance(plot, Heat) for box in plot.boxes} == set(
        range(60)
    )
    drawn_bars = chart(report, "throughput-inference").plots[0]
    assert isinstance(drawn_bars, Bars)
    assert [len(one.values) for one in drawn_bars.series] == [60]
    whole = page(report, NOTHING_KEPT)
    chapter_of_models = models(report)
    cut = replace(chapter_of_models, tables=tuple(shortened(one, 5) for one in chapter_of_models.tables))
    text = bound(replace(whole, sections=(cut,))).decode()
    assert re.search(r"Not drawn: [^<]*\. The table", text) is None
    assert "Not drawn: " in text
    few = msgspec.structs.replace(report, results=report.results[:60])
    assert {chart(few, name).not_shown for name in beyond} == {""}


def scanned(folder: Path) -> Report:
    """Scans at two input sizes and in two modes on two GPUs, each with sizes of its own."""
    modes = (Mode.SOLO, Mode.LOADED)
    run = FakeRun(folder, devices=gpus(2), batch_sizes=(AUTO,), input_sizes=(128, 224), modes=modes)
    for place, cell in enumerate(run.stored.plan.cells):
        run.measured(cell, batch_size=1)
        run.measured(cell, batch_size=2 + place)
    return run.report()


def test_scans_of_a_model_stand_apart(tmp_path: Path) -> None:
    """Each input size and mode is a line of its own."""
    report = scanned(tmp_path)
    found = {(name, line): points for name, _, line, points in lines(report)}
    expected = {
        (f"scan, inference, fp32, {scan.mode}, GPU {scan.gpu_id}", f"resnet50@{scan.input_size}"): [
            float(point.batch_size) for point in scan.points
        ]
        for scan in report.batch_scans
    }
    assert len(report.batch_scans) == len(expected) == 8
    assert found == expected


def test_a_scan_counts_sequences_and_a_measurement_tokens(tmp_path: Path) -> None:
    """Generation has two units."""
    run = FakeRun(tmp_path, devices=gpus(2), models=shipped("gpt2"), workloads=(Workload.GENERATION,))
    run.everything()
    report = run.report()
    (plot,) = chart(report, "throughput-generation").plots
    assert isinstance(plot, Bars)
    assert plot.unit == "tok/s"
    scans = tuple(
        msgspec.structs.replace(scan, model_name="generation", workload=Workload.GENERATION)
        for scan in scanned(tmp_path / "scan").batch_scans
    )
    report = msgspec.structs.replace(report, batch_scans=scans)
    units = {unit for name, unit, *_ in lines(report) if name.startswith("scan, generation")}
    assert units == {"smp/s"}
    assert {row[4] for row in rows(models(report), "batches") if row[0].startswith("scan")} == {"smp/s"}


def test_sizes_that_do_not_fit_are_in_the_memory_map(tmp_path: Path) -> None:
    """Each such size has a column, each model a row, with a word."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "lstm"), batch_sizes=(4, 8))
    run.measured(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    for size in (4, 2, 1):
        run.failed(run.cell("lstm", batch_size=4), Category.OUT_OF_MEMORY, batch_size=size)
    run.failed(run.cell("lstm", batch_size=8), Category.OUT_OF_MEMORY)
    run.finish()
    first, *others = memory(run.report())
    assert first[2].isdecimal()
    assert others == [("resnet50", "b8", "ref"), ("lstm", "b4", "oom"), ("lstm", "b8", "oom")]


def test_no_memory_at_all_is_a_figure(tmp_path: Path) -> None:
    """Zero is drawn as zero."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.everything()
    report = run.report()
    (result,) = report.results
    metric = msgspec.structs.replace(result.inference_metrics["batch_size_1"], peak_memory_mb=0.0)
    changed = msgspec.structs.replace(result, inference_metrics={"batch_size_1": metric})
    assert memory(msgspec.structs.replace(report, results=(changed,))) == [("resnet50", "b1", "0")]


def launches(report: Report, *spans: Span, unseen: int = 0) -> Section:
    """The launches chapter of a run with these spans."""
    device = DeviceTimeline(report.gpu_info[0].gpu_uuid, spans, unseen, ())
    made = course(report, Timeline(CREATED, (device,)), DEFAULT)
    assert made is not None
    return made


def test_the_last_to_end_need_not_be_the_last_to_begin(tmp_path: Path) -> None:
    """A long launch may outlast a later one."""
    report = FakeRun(tmp_path).report()
    long, short = Span(0.0, 100.0, "load", failed=False, words="a"), Span(50.0, 60.0, "load", failed=True, words="b")
    assert rows(launches(report, long, short), "launches") == [["GPU 0", "1", "0:00:00", "0:01:40"]]


def test_failures_not_drawn_are_counted(tmp_path: Path) -> None:
    """The table counts them, and the chart says how many are missing."""
    report = FakeRun(tmp_path).report()
    one = Span(0.0, 1.0, "load", failed=True, words="a")
    made = launches(report, one, unseen=7)
    assert rows(made, "launches")[0][1] == "8"
    assert re.search(": 7 more ", made.charts[0].says)
    assert not re.search(r"\d more ", launches(report, one).charts[0].says)


def chapter(report: Report, name: str) -> Section:
    """A chapter of the page."""
    return next(one for one in page(report, NOTHING_KEPT).sections if one.id == name)


def test_findings_of_earlier_runs_are_on_the_page(tmp_path: Path) -> None:
    """In the table of verdicts."""
    report = FakeRun(tmp_path).report()
    (health,) = report.health.gpus
    known = msgspec.structs.replace(health, earlier="FAIL on 2026-04-01")
    report = msgspec.structs.replace(report, health=msgspec.structs.replace(report.health, gpus=(known,)))
    verdicts = chapter(report, "devices").tables[0]
    assert f"earlier: {known.earlier}" in str(verdicts.rows[0][3])


def test_precisions_stand_side_by_side(tmp_path: Path) -> None:
    """One chart for each phase, a series for each precision, the largest batch first."""
    precisions = (Precision.FP32, Precision.BF16)
    run = FakeRun(
        tmp_path, precisions=precisions, workloads=(Workload.INFERENCE, Workload.TRAINING), batch_sizes=(1, 8)
    )
    for cell in run.stored.plan.cells:
        run.measured(cell, forward_ms=10.0 if cell.precision == Precision.FP32 else 5.0, noise=0.0)
    run.finish()
    report = run.report()
    assert [one.id for one in models(report).charts][:2] == ["throughput-inference", "throughput-training"]
    plots = [plot for plot in chart(report, "throughput-inference").plots if isinstance(plot, Bars)]
    assert [plot.name for plot in plots] == ["batch 8", "batch 1"]
    assert [(one.name, *map(round, filter(None, one.values))) for one in plots[0].series] == [
        ("fp32", 800),
        ("bf16", 1600),
    ]


def roofs(report: Report) -> list[Roofline]:
    """The plots of the roofline."""
    return [plot for plot in roofline(report)[0].plots if isinstance(plot, Roofline)]


def test_a_model_lies_below_the_roof_of_its_precision() -> None:
    """By the probes of the run: operations per byte are those of its weights, and the share is that of the roof."""
    report = report_reader.report(ROOT / "docs" / "measurements" / "h200-x2-main-job.json")
    inference, training = roofs(report)
    assert (inference.name, training.name) == ("inference, GPU 0", "training, GPU 0")
    assert {roof.name: (round(roof.tflops), round(roof.tb_per_sec, 1)) for roof in inference.roofs} == {
        "fp32": (51, 4.4),
        "bf16": (647, 4.4),
    }
    point = next(one for one in inference.points if (one.name, one.roof) == ("bert-base b8", "fp32"))
    # 8 x 128 tokens, 2 operations and 4 bytes for each weight
    assert (round(point.intensity / 512, 1), round(point.tflops, 1), point.open) == (1.0, 29.3, False)
    assert all(
        one.tflops < next(of for of in inference.roofs if of.name == one.roof).tflops for one in inference.points
    )


def test_without_probes_there_is_no_roofline() -> None:
    """Nothing is known of the limits of that GPU then."""
    report = report_reader.report(ROOT / "docs" / "measurements" / "h200-x4-quick.json")
    assert roofs(report) == []
    assert "roofline" not in {one.id for one in models(report).charts}
