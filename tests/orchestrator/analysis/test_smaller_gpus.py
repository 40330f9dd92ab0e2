"""One of several equal GPUs runs out of memory where the others do not: never made smaller without a word."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.figures.cells import Status
from orchestrator.figures.report import CellEntry, Report
from protocol.cell import Device
from protocol.failure import Category
from tests.fakes.runs import FakeRun, gpus

GIB = 2**30


def ran(folder: Path, devices: tuple[Device, ...]) -> FakeRun:
    """Batch 8 is measured on every GPU but the first, which only fits 4."""
    run = FakeRun(folder, batch_sizes=(8,), devices=devices)
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8), batch_size=4)
    for number in range(1, len(devices)):
        run.measured(run.cell(batch_size=8, device=number))
    run.finish()
    return run


def of_first(report: Report) -> CellEntry:
    """The one cell of GPU 0."""
    (cell,) = [one for one in report.cells if one.gpu_id == 0]
    return cell


def test_what_ran_out_on_one_gpu_alone_is_suspect(tmp_path: Path) -> None:
    """The cell names who had room and how much there is, and the run does not pass: exit code 4 with the reason."""
    report = ran(tmp_path, gpus(3)).report()
    cells = {cell.gpu_id: cell for cell in report.cells}
    assert cells[0].status == Status.DEGRADED
    assert re.match(r"suspect: GPU 1 and GPU 2 .* size 8 \(GPU 0 has .* size 4, .* size 8 ", cells[0].reason)
    assert [cells[number].status for number in (1, 2)] == [Status.OK, Status.OK]
    assert report.verdict.exit_code == 4
    assert any("suspect: " in reason for reason in report.verdict.reasons)


def test_what_fits_on_every_gpu_but_one_does_not_just_not_fit(tmp_path: Path) -> None:
    """Out of memory down to 1 on one GPU alone is a failure, and not a property of the model."""
    run = FakeRun(tmp_path, batch_sizes=(1,), devices=gpus(2))
    run.failed(run.cell(batch_size=1), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=1, device=1))
    run.finish()
    cell = of_first(run.report())
    assert cell.status == Status.FAILED
    assert cell.reason.startswith("suspect: GPU 1 ")


MIB = 2**20


@pytest.mark.parametrize(
    ("own", "first", "second", "explained"),
    [
        (300 * MIB, 0, 0, "0.3 GiB"),
        (200 * MIB, 0, 0, None),
        (GIB, 0, 2 * GIB, None),
        (3 * GIB, 0, 2 * GIB, "1.0 GiB"),
    ],
)
def test_only_more_in_use_than_on_all_of_the_others_explains_it(
    tmp_path: Path, own: int, first: int, second: int, explained: str | None
) -> None:
    """What the driver keeps differs by some MiB; and a GPU with as much in use that had room leaves no excuse."""
    in_use = zip(gpus(3), (own, first, second), strict=True)
    devices = tuple(msgspec.structs.replace(gpu, memory_used_bytes=used) for gpu, used in in_use)
    report = ran(tmp_path, devices).report()
    cell = of_first(report)
    assert (cell.status, cell.batch_size) == (Status.DEGRADED, 4)
    assert cell.reason.startswith("suspect") is (explained is None)
    assert (f"GPU 1 and GPU 2 had {explained} less" in cell.reason) is bool(explained)
    assert report.verdict.exit_code == (0 if explained else 4)


@pytest.mark.parametrize("other", ["NVIDIA L4", None])
def test_nobody_suspects_without_a_sibling(tmp_path: Path, other: str | None) -> None:
    """A GPU of another kind, or none at all, says nothing: degraded as ever."""
    devices = gpus(2)
    machines = devices[:1] if other is None else (devices[0], msgspec.structs.replace(devices[1], name=other))
    cell = of_first(ran(tmp_path, machines).report())
    assert (cell.status, cell.batch_size) == (Status.DEGRADED, 4)


def test_a_size_that_fits_on_none_is_not_suspect(tmp_path: Path) -> None:
    """Every GPU ran out: the model is too large for the product."""
    run = FakeRun(tmp_path, batch_sizes=(8,), devices=gpus(2))
    for number in (0, 1):
        run.failed(run.cell(batch_size=8, device=number), Category.OUT_OF_MEMORY)
        run.measured(run.cell(batch_size=8, device=number), batch_size=4)
    run.finish()
    assert {cell.status for cell in run.report().cells} == {Status.DEGRADED}
