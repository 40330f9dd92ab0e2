"""Identical GPUs in the text: one in full, the others where they differ."""

from pathlib import Path

import pytest

from orchestrator.report.as_text import to_text
from protocol.cell import Cell, Precision, Workload
from protocol.failure import Category
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)


def place(run: FakeRun, cell: Cell) -> int:
    """The number of the device of a cell."""
    return next(device.gpu_id for device in run.stored.devices if device.uuid == cell.devices[0])


def lines_of(text: str, cell: str) -> list[list[str]]:
    """The lines about a cell, in words: its row of the table of spreads, then its row of the matrix."""
    return [words.split() for line in text.splitlines() if (words := line.strip(" |")).startswith(f"{cell} ")]


def test_a_node_of_eight_gpus_stays_readable(tmp_path: Path) -> None:
    """Eight GPUs with 42 cells each: fewer than 400 lines, health included, though one GPU is slow in all of them."""
    run = FakeRun(
        tmp_path,
        devices=gpus(8),
        models=shipped("bert-base", "resnet50", "lstm"),
        precisions=(Precision.FP32, Precision.BF16),
        workloads=EVERYTHING,
        batch_sizes=(1, 8, 32),
    )
    for cell in run.stored.plan.cells:
        run.measured(cell, forward_ms=10.5 if place(run, cell) == 3 else 10.0, blocks=1, iterations=20)
    run.finish()
    lines = to_text(run.report()).splitlines()
    assert len(run.stored.plan.cells) == 8 * 42
    assert len(lines) < 400
    assert max(map(len, lines)) == 80
    assert lines.count("ResNet-50 (CNN, 25.6M params)") == 1


def test_only_what_deviates_is_left_to_read(tmp_path: Path) -> None:
    """Within one percent is a dot; a cell of dots alone is counted and left out; what is slow has its percentage."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1, 8), models=shipped("resnet50"))
    for cell in run.stored.plan.cells:
        slow = place(run, cell) == 2 and cell.batch_size == 8
        run.measured(cell, forward_ms=12.5 if slow else 10.0)
    text = to_text(run.report())
    assert lines_of(text, "resnet50 infer fp32 b8")[1][4:] == [".", ".", "80.0"]
    assert len(lines_of(text, "resnet50 infer fp32 b1")) == 1
    assert "cells in which every device is that near are left out: 1" in " ".join(text.split())


def test_gpus_alike_need_no_matrix(tmp_path: Path) -> None:
    """Where every device is near the median everywhere, one line says so."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    run.everything()
    assert "In every cell each device is within 1% of the median." in to_text(run.report())


@pytest.mark.parametrize("workload", [Workload.LOAD, Workload.INFERENCE])
def test_the_longest_time_is_the_slowest(tmp_path: Path, workload: Workload) -> None:
    """Load rows have times and the others rates; slowest, fastest and below 100 mean the same in both."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1,), workloads=(workload,))
    for device, forward_ms in enumerate((8.0, 10.0, 12.5)):
        run.measured(run.cell(workload=workload, device=device), forward_ms=forward_ms, noise=0.0)
    text = to_text(run.report())
    row, entries = lines_of(text, "resnet50 load fp32" if workload is Workload.LOAD else "resnet50 infer fp32 b1")
    assert " ".join(row).endswith("| GPU 2 | GPU 0")
    assert entries[-3:] == ["125.0", ".", "80.0"]
    assert "| Slowest | Fastest |" in text


def test_a_device_without_a_value_says_why(tmp_path: Path) -> None:
    """Failed, not measured, and not comparable each have a short word, which is explained below."""
    run = FakeRun(tmp_path, devices=gpus(5), batch_sizes=(8,))
    for device in (0, 1):
        run.measured(run.cell(batch_size=8, device=device))
    run.failed(run.cell(batch_size=8, device=2), Category.CRASHED)
    run.failed(run.cell(batch_size=8, device=3), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8, device=3), batch_size=4)
    text = to_text(run.report())
    assert lines_of(text, "resnet50 infer fp32 b8")[1][4:] == [".", ".", "fail", "n/c", "miss"]
    assert "fail: failed; miss: not measured; n/c: not comparable" in text


def test_the_one_that_measured_most_is_shown_in_full(tmp_path: Path) -> None:
    """The first GPU was lost: the tables are those of the next one, and what all share is said once."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(8,))
    run.failed(run.cell(batch_size=8, device=0), Category.DEVICE_LOST)
    for device in (1, 2):
        run.measured(run.cell(batch_size=8, device=device))
    text = to_text(run.report())
    assert "GPU 1: NVIDIA H200\n  Identical to it: GPU 0, GPU 2. " in text
    assert text.count("| Throughput ") == 1
    assert text.count("Driver: 580.95.05") == 1
    assert text.count("PCI Address 00000000:") == 3


def test_different_gpus_are_each_shown_in_full(tmp_path: Path) -> None:
    """Nobody speaks for another kind of GPU."""
    run = FakeRun(tmp_path, devices=(gpus(1)[0], gpus(2, name="NVIDIA A100")[1]), batch_sizes=(8,))
    run.everything()
    text = to_text(run.report())
    assert "GPU 0: NVIDIA H200\n" in text
    assert "GPU 1: NVIDIA A100\n" in text
    assert text.count("| Throughput ") == 2
    assert "Identical" not in text


def test_more_devices_than_fit_are_continued_below(tmp_path: Path) -> None:
    """Twelve devices make two blocks of columns; no line is wider than the terminal, nobody is left out."""
    run = FakeRun(tmp_path, devices=cpus(12), batch_sizes=(8,))
    for cell in run.stored.plan.cells:
        run.measured(cell, forward_ms=10.0 + place(run, cell))
    text = to_text(run.report())
    heads = [line.split()[1:] for line in text.splitlines() if line.startswith("Cell  ")]
    assert len(heads) == 2
    assert [name for head in heads for name in head] == [f"cpu:{number}" for number in range(12)]
    assert max(map(len, text.splitlines())) == 80
