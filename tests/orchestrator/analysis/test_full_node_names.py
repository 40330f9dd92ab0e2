"""What is measured in both modes has a name of its own, and one figure of what is lost, wherever it is told."""

import re
from pathlib import Path

import pytest

from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_text import to_text
from orchestrator.report.html.page import page
from protocol.cell import Mode, Workload
from protocol.result import SteadyState
from tests.fakes.runs import FakeRun, gpus, shipped

BOTH = (Mode.LOADED, Mode.SOLO)


def test_what_a_full_node_loses_is_told_of_each_size(tmp_path: Path) -> None:
    """The same model at two input sizes is two rows, each with its size."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), input_sizes=(224, 512), modes=BOTH)
    run.everything()
    run.finish()
    report = run.report()
    names = {f"resnet50 inference fp32 b8 input {size}" for size in (224, 512)}
    assert {one.cell for one in report.full_node} == names
    chapter = to_text(report).split("What a Full Node Loses")[1].split("Spread Between")[0]
    rows = [line.split("|")[1].strip() for line in chapter.splitlines() if line.startswith("| resnet50")]
    assert sorted(rows) == [f"resnet50 infer fp32 b8 s{size}" for size in (224, 512)]


def test_probes_of_both_modes_are_told_apart_on_the_page(tmp_path: Path) -> None:
    """What gemm reaches alone, and with all at work."""
    models = shipped("gemm", "resnet50")
    run = FakeRun(tmp_path, devices=gpus(2), models=models, probes=models[:1], batch_sizes=(8,), modes=BOTH)
    for cell in run.stored.plan.cells:
        run.measured(cell, flops_per_iteration=1e12 if cell.workload is Workload.PROBE else 1e11)
    run.finish()
    section = next(section for section in page(run.report(), NOTHING_KEPT).sections if section.id == "performance")
    told = {row[0] for row in section.tables[0].rows}
    assert told == {f"Matrix product, fp32, {mode}" for mode in BOTH}


def test_what_was_not_steady_is_told_beside_what_is_lost(tmp_path: Path) -> None:
    """In which mode and on which device, in every format; of what is not comparable, that stands there alone."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1, 8), modes=BOTH)
    for cell in run.stored.plan.cells:
        place = [device.uuid for device in gpus(3)].index(cell.devices[0])
        shaken = cell.batch_size == 8 and (place == 2 or (place == 1 and cell.mode is Mode.LOADED))
        shrunk = {"batch_size": 4} if cell.batch_size == 8 and place == 2 and cell.mode is Mode.SOLO else {}
        run.measured(cell, steady_state=SteadyState.NONE if shaken else SteadyState.REACHED, **shrunk)
    run.finish()
    report = run.report()
    why, fact = "not steady after warm-up: loaded", "ran at batch size 4 alone, 8 with all at work"
    told = {(one.gpu_id, one.cell): one for one in report.full_node if one.notes or one.not_comparable}
    cell = "resnet50 inference fp32 b8"
    assert {place: (one.notes, one.not_comparable) for place, one in told.items()} == {
        (1, cell): ((why,), None),
        (2, cell): ((), fact),
    }
    chapter = to_text(report).split("What a Full Node Loses")[1].split("Spread Between")[0]
    bullets = [line.strip() for line in chapter.splitlines() if line.startswith("  ") and line.strip()]
    assert " ".join(bullets) == f"- GPU 2, {cell}: not comparable ({fact}) - resnet50 infer fp32 b8, GPU 1: {why}"
    remarks = ["", why, f"not comparable ({fact})"]
    chapter = to_markdown(report).split("What a full node loses:")[1].strip().split("\n\n")[0]
    rows = [line.strip("|").split("|") for line in chapter.splitlines() if " b8 " in line]
    assert [row[-1].strip() for row in rows] == remarks
    section = next(section for section in page(report, NOTHING_KEPT).sections if section.id == "spread")
    (table,) = [one for one in section.tables if one.caption == "What a full node loses"]
    assert {row[-1] for row in table.rows if row[1] == cell} == {*remarks}


def figures(row: str) -> list[float]:
    """The three figures after the name of the cell: alone, with all at work, and what is lost in percent."""
    return [float(found) for found in re.findall(r"(?<![\w.])\d+\.\d+", row)][:3]


def test_what_is_lost_is_what_the_figures_beside_it_say(tmp_path: Path) -> None:
    """Also of launches of two kinds, some ten times as slow: one kind of mean in each column of each format."""
    times_ms = {Mode.SOLO: (10.0, 10.0, 100.0), Mode.LOADED: (10.0, 150.0, 100.0)}
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), launches=3, modes=BOTH)
    for cell in run.stored.plan.cells:
        for number, time_ms in enumerate(times_ms[cell.mode]):
            crowded = cell.mode is Mode.LOADED and cell.devices == (run.stored.devices[1].uuid,)
            run.measured(cell, number=number, forward_ms=time_ms * (1.3 if crowded else 1.0), noise=0.0)
    run.finish()
    report = run.report()
    told = {"json": [(one.solo, one.loaded, one.lost_percent) for one in report.full_node]}
    chapter = to_text(report).split("What a Full Node Loses")[1].split("Spread Between")[0]
    told["text"] = [figures(line) for line in chapter.splitlines() if line.startswith("| resnet50")]
    chapter = to_markdown(report).split("What a full node loses:")[1].strip().split("\n\n")[0]
    told["markdown"] = [figures(line) for line in chapter.splitlines() if "resnet50" in line]
    section = next(section for section in page(report, NOTHING_KEPT).sections if section.id == "spread")
    (table,) = [one for one in section.tables if one.caption == "What a full node loses"]
    told["page"] = [figures(" ".join(map(str, row))) for row in table.rows]
    assert {name: len(rows) for name, rows in told.items()} == {"json": 2, "text": 1, "markdown": 2, "page": 2}
    for name, rows in told.items():
        for alone, together, lost in rows:
            assert lost == pytest.approx((1 - together / alone) * 100, abs=0.1), name
    (one,) = told["text"]
    assert one[2] > 50
