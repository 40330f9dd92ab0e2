"""What is measured in both modes, and at several sizes, has a name of its own wherever it is told."""

from pathlib import Path

from orchestrator.report.as_text import to_text
from orchestrator.report.html.page import page
from orchestrator.report.timeline import NOTHING_KEPT
from protocol.cell import Mode, Workload
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
