"""What was asked for and not measured, as text."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from orchestrator.figures.report import CellEntry, Report
from orchestrator.report.text_exclusions import dropped_lines
from protocol.cell import Workload
from tests.fakes.runs import FakeRun, gpus, shipped


class Counted(tuple[CellEntry, ...]):
    """Cells that count how often somebody looks through all of them."""

    looks = 0

    def __iter__(self) -> Iterator[CellEntry]:
        """From the first, once more."""
        self.looks += 1
        return super().__iter__()


def dropped(folder: Path) -> Report:
    """A run of two GPUs with one model at two sizes and one at its own, of which there was time for nothing."""
    run = FakeRun(
        folder,
        devices=gpus(2),
        models=shipped("resnet50", "bert-base"),
        workloads=(Workload.LOAD, Workload.INFERENCE),
        input_sizes=(128, 224),
    )
    for cell in run.stored.plan.cells:
        run.dropped(cell, "no time: 5 s")
    run.finish()
    return run.report()


def test_what_was_dropped_is_named_once_with_its_size_where_there_are_several(tmp_path: Path) -> None:
    """However many GPUs it was dropped on; batch sizes where there are any."""
    report = dropped(tmp_path)
    assert list(dropped_lines(report.cells, report)) == [
        "resnet50: load fp32",
        "resnet50@128: inference fp32 b1, inference fp32 b8",
        "resnet50@224: inference fp32 b1, inference fp32 b8",
        "bert-base: load fp32, inference fp32 b1, inference fp32 b8",
    ]


def test_all_cells_are_looked_through_once_for_all_that_were_dropped(tmp_path: Path) -> None:
    """Of a run of 40,000 cells nearly all may be dropped."""
    report = dropped(tmp_path)
    cells = Counted(report.cells)
    assert list(dropped_lines(report.cells, msgspec.structs.replace(report, cells=cells)))
    assert cells.looks == 1
