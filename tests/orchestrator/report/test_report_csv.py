"""The report as CSV."""

import csv
import io
from pathlib import Path

import msgspec
import pytest

from orchestrator.report.as_csv import COLUMNS, to_csv, to_rows
from protocol.cell import AUTO, Workload
from protocol.failure import Category
from tests.fakes.burn_ins import FakeBurnIn, sound
from tests.fakes.runs import FakeRun, gpus, shipped


def rows(text: str) -> list[dict[str, str]]:
    """The table as any CSV reader sees it."""
    return list(csv.DictReader(io.StringIO(text)))


def test_the_header_begins_as_the_requirements_have_it() -> None:
    """Section 6.2, exactly; further columns follow."""
    assert ",".join(COLUMNS[:8]) == "Model,Type,Batch_Size,Forward_ms,Backward_ms,Throughput,GPU_Util_%,Memory_MB"
    assert len(set(COLUMNS)) == len(COLUMNS)


def test_a_check_of_a_burn_in_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With status and reason; only replays have a batch size."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda _fd: None)
    burn_in_run = FakeBurnIn(tmp_path, gpus(2), "1h")
    soak = next(cell for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.SOAK)
    for number in range(3):
        burn_in_run.failed(soak, Category.CRASHED, number=number, message="killed by SIGSEGV")
    memory = next(cell for cell in burn_in_run.stored.plan.cells if cell.workload is Workload.MEMORY)
    burn_in_run.measured(memory, verification=sound(memory))
    burn_in_run.finish()
    report = burn_in_run.report()
    found = rows(to_csv(report))
    shown = [(row["GPU_UUID"], row["Model"], row["Phase"], row["Status"], row["Launches"]) for row in found]
    assert shown == [
        (one.gpu_uuid, one.model_name, one.workload, one.status, str(one.launches)) for one in report.cells
    ]
    assert {"ok", "missing"} < {row["Status"] for row in found}
    (row,) = [row for row in found if "SIGSEGV" in row["Reason"]]
    assert (row["Phase"], row["GPU"], row["GPU_Name"], row["Attempts"]) == ("soak", "0", "NVIDIA H200", "3")
    assert {row["Phase"] for row in found if row["Requested_Batch"] != "N/A"} == {"replay"}
    assert {row["Throughput"] for row in found} == {"N/A"}


def test_a_failed_cell_has_its_reason(tmp_path: Path) -> None:
    """And the requested batch size."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.failed(run.cell(batch_size=8), Category.CRASHED, message='SIGSEGV,\nand a "quote"')
    (row,) = rows(to_csv(run.report()))
    assert (row["Status"], row["Batch_Size"], row["Requested_Batch"]) == ("failed", "N/A", "8")
    assert row["Reason"] == f'{Category.CRASHED}: SIGSEGV, and a "quote"'


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\x1b[31m=1", " =1"])
def test_text_never_becomes_a_formula(tmp_path: Path, name: str) -> None:
    """It gets a leading quote, also behind escapes and blanks."""
    (shown,) = shipped("resnet50")
    run = FakeRun(tmp_path, devices=gpus(1, name=name), models=[msgspec.structs.replace(shown, type=name)])
    row = rows(to_csv(run.report()))[0]
    assert row["GPU_Name"].startswith("'")
    assert row["Type"].startswith("'")
    assert "\x1b" not in row["Type"]


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    """Whole numbers have no point."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=8))
    cells = to_rows(run.report())
    assert [row["Requested_Batch"] for row in cells] == [1, 8]
    assert [type(row["Iterations"]) for row in cells] == [type(None), int]


def test_a_scan_that_is_not_over_has_its_curve_behind_its_own_row(tmp_path: Path) -> None:
    """The cell itself has no result yet."""
    run = FakeRun(tmp_path, batch_sizes=(AUTO,), workloads=(Workload.INFERENCE,))
    run.measured(run.stored.plan.cells[0], batch_size=1)
    found = rows(to_csv(run.report()))
    assert [(row["Batch_Size"], row["Status"], row["Scan"]) for row in found] == [
        ("N/A", "missing", "N/A"),
        ("1", "ok", "best"),
    ]
