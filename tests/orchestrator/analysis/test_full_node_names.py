"""What is measured in both modes has a name of its own, and one figure of what is lost, wherever it is told."""

import re
from pathlib import Path

import pytest

from orchestrator.analysis.sibling_cells import UNSTEADY
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report.chapters.stragglers import full_node
from orchestrator.report.html.page import page
from orchestrator.report.sections import Table
from protocol.cell import Mode, Workload
from protocol.result import SteadyState
from tests.fakes.runs import FakeRun, gpus, shipped

BOTH = (Mode.LOADED, Mode.SOLO)


TABLES = ("means", "devices")


def table_of(report: Report, name: str) -> Table:
    """A table of the chapter on a full node."""
    section = full_node(report)
    table = None if section is None else section.table(name)
    assert table is not None
    return table


def test_each_input_size_has_its_own_loss(tmp_path: Path) -> None:
    """The same model at two input sizes is two cells, each with its size in its name."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), input_sizes=(224, 512), modes=BOTH)
    run.everything()
    names = {f"resnet50 inference fp32 b8 input {size}" for size in (224, 512)}
    report = run.ended()
    assert {one.cell for one in report.full_node} == names
    cells = {row[0] for row in table_of(report, "means").rows}
    assert cells == {f"resnet50 infer fp32 b8 s{size}" for size in (224, 512)}


def test_probes_of_both_modes_are_told_apart_on_the_page(tmp_path: Path) -> None:
    """What gemm reaches alone, and with all at work."""
    models = shipped("gemm", "resnet50")
    run = FakeRun(tmp_path, devices=gpus(2), models=models, probes=models[:1], batch_sizes=(8,), modes=BOTH)
    for cell in run.stored.plan.cells:
        run.measured(cell, flops_per_iteration=1e12 if cell.workload is Workload.PROBE else 1e11)
    section = next(section for section in page(run.ended(), NOTHING_KEPT).sections if section.id == "performance")
    told = {row[0] for row in section.tables[-1].rows}
    assert told == {f"Matrix product, fp32, {mode}" for mode in BOTH}


def test_an_unsteady_mode_is_named_with_its_loss(tmp_path: Path) -> None:
    """In which mode and on which device; of what is not comparable, only that."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1, 8), modes=BOTH)
    for cell in run.stored.plan.cells:
        place = [device.uuid for device in gpus(3)].index(cell.devices[0])
        shaken = cell.batch_size == 8 and (place == 2 or (place == 1 and cell.mode is Mode.LOADED))
        shrunk = {"batch_size": 4} if cell.batch_size == 8 and place == 2 and cell.mode is Mode.SOLO else {}
        run.measured(cell, steady_state=SteadyState.NONE if shaken else SteadyState.REACHED, **shrunk)
    report = run.ended()
    why, cell = f"{UNSTEADY}: {Mode.LOADED}", "resnet50 inference fp32 b8"
    said = {(one.gpu_id, one.cell): one for one in report.full_node if one.notes or one.not_comparable}
    fact = said[2, cell].not_comparable or ""
    assert {place: (one.notes, bool(one.not_comparable)) for place, one in said.items()} == {
        (1, cell): ((why,), False),
        (2, cell): ((), True),
    }
    assert re.findall(r"\d+", fact) == ["4", "8"]
    section = full_node(report)
    assert section is not None
    assert [finding.lines for finding in section.findings] == [
        (f"GPU 2, {cell}: not comparable ({fact})",),
        (f"resnet50 infer fp32 b8, GPU 1: {why}",),
    ]
    remarks = {row[0]: row[-1] for row in table_of(report, "devices").rows if row[1] == cell}
    assert remarks == {"GPU 0": "", "GPU 1": why, "GPU 2": f"not comparable ({fact})"}


def figures(row: str) -> list[float]:
    """The three figures after the name of the cell: alone, with all at work, and what is lost in percent."""
    return [float(found) for found in re.findall(r"(?<![\w.])\d+\.\d+", row)][:3]


def test_the_loss_is_the_ratio_of_the_figures_beside_it(tmp_path: Path) -> None:
    """Also of launches of two kinds, some ten times as slow: one kind of mean for all of them."""
    times_ms = {Mode.SOLO: (10.0, 10.0, 100.0), Mode.LOADED: (10.0, 150.0, 100.0)}
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), launches=3, modes=BOTH)
    for cell in run.stored.plan.cells:
        for number, time_ms in enumerate(times_ms[cell.mode]):
            crowded = cell.mode is Mode.LOADED and cell.devices == (run.stored.devices[1].uuid,)
            run.measured(cell, number=number, forward_ms=time_ms * (1.3 if crowded else 1.0), noise=0.0)
    report = run.ended()
    told = {"json": [(one.solo, one.loaded, one.lost_percent) for one in report.full_node]}
    told |= {name: [figures(" ".join(map(str, row))) for row in table_of(report, name).rows] for name in TABLES}
    assert {name: len(rows) for name, rows in told.items()} == {"json": 2, "means": 1, "devices": 2}
    for name, rows in told.items():
        for alone, together, lost in rows:
            assert lost == pytest.approx((1 - together / alone) * 100, abs=0.1), name
    (one,) = told["means"]
    assert one[2] > 50
