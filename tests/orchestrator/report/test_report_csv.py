"""The report as CSV."""

import csv
import io
from pathlib import Path

import msgspec
import pytest

from orchestrator.report.as_csv import COLUMNS, to_csv, to_rows
from protocol.cell import AUTO, Workload
from protocol.failure import Category
from tests.fakes.nights import Night, sound
from tests.fakes.runs import FakeRun, gpus, shipped


def rows(text: str) -> list[dict[str, str]]:
    """The table as any CSV reader sees it."""
    return list(csv.DictReader(io.StringIO(text)))


def test_the_header_begins_as_the_requirements_have_it() -> None:
    """Section 6.2, exactly; what we add stands behind it."""
    assert ",".join(COLUMNS[:8]) == "Model,Type,Batch_Size,Forward_ms,Backward_ms,Throughput,GPU_Util_%,Memory_MB"
    assert len(set(COLUMNS)) == len(COLUMNS)


def test_a_row_for_each_planned_cell(tmp_path: Path) -> None:
    """Every cell has its row, also those without a result; unknown is N/A, numbers are plain numbers."""
    run = FakeRun(tmp_path, devices=gpus(2), workloads=(Workload.LOAD, Workload.INFERENCE, Workload.TRAINING))
    run.everything()
    run.finish()
    found = rows(to_csv(run.report()))
    assert len(found) == len(run.stored.plan.cells)
    inference = next(row for row in found if row["Phase"] == "inference" and row["Batch_Size"] == "8")
    assert (inference["Model"], inference["Type"], inference["Backward_ms"]) == ("resnet50", "cnn", "N/A")
    assert float(inference["Throughput"]) == pytest.approx(800, rel=0.01)
    assert inference["Launches"] == "1"
    load = next(row for row in found if row["Phase"] == "load")
    assert (load["Batch_Size"], load["Forward_ms"]) == ("N/A", "N/A")
    assert float(load["Load_ms"]) == pytest.approx(80, rel=0.01)


def test_a_check_of_a_burn_in_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each planned cell, with what became of it and why; only what runs a model has a batch size."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda _fd: None)
    night = Night(tmp_path, gpus(2), "1h")
    soak = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.SOAK)
    for number in range(3):
        night.failed(soak, Category.CRASHED, number=number, message="killed by SIGSEGV")
    memory = next(cell for cell in night.stored.plan.cells if cell.workload is Workload.MEMORY)
    night.measured(memory, verification=sound(memory))
    night.finish()
    report = night.report()
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


def test_every_kind_of_cell_has_its_own_columns(tmp_path: Path) -> None:
    """Latency, cold load, tokens and rates stand in rows of their workload, and are N/A in all others."""
    models = shipped("gpt2", "hbm")
    run = FakeRun(
        tmp_path,
        models=models,
        probes=models[1:],
        batch_sizes=(1,),
        workloads=(Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION),
    )
    for cell in run.stored.plan.cells:
        run.measured(cell, bytes_per_iteration={"copy": 10**9, "triad": 10**9} if cell.model == "hbm" else {})
    found = {row["Phase"]: row for row in rows(to_csv(run.report()))}
    own = {
        "load": ("Load_ms", "Cold_Load_ms", "Instantiate_ms"),
        "inference": ("Latency_ms",),
        "training": ("Backward_ms", "Optimizer_ms"),
        "generation": ("First_Token_ms", "Per_Token_ms", "Inter_Token_p50_ms", "Tokens_per_s", "New_Tokens"),
        "probe": ("Copy_GBps", "Triad_GBps"),
    }
    assert set(found) == set(own)
    for phase, columns in own.items():
        for column in columns:
            assert {which for which, row in found.items() if row[column] != "N/A"} == {phase}, column
    for column in ("Steady_State", "Stop_Reason", "Half_Width_%", "Cold_Allocated_MB", "Warm_Reserved_MB"):
        assert all(row[column] != "N/A" for row in found.values()), column


def test_a_failed_cell_has_its_reason(tmp_path: Path) -> None:
    """Status and reason stand in the row; the size that was asked for too."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.failed(run.cell(batch_size=8), Category.CRASHED, message='killed by SIGSEGV,\nwith a newline and a "quote"')
    (row,) = rows(to_csv(run.report()))
    assert (row["Status"], row["Batch_Size"], row["Requested_Batch"]) == ("failed", "N/A", "8")
    assert row["Reason"] == 'crashed: killed by SIGSEGV, with a newline and a "quote"'


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\x1b[31m=1", " =1"])
def test_text_never_becomes_a_formula(tmp_path: Path, name: str) -> None:
    """What a spreadsheet would calculate gets a leading quote, also behind escapes and blanks."""
    (shown,) = shipped("resnet50")
    run = FakeRun(tmp_path, devices=gpus(1, name=name), models=[msgspec.structs.replace(shown, type=name)])
    row = rows(to_csv(run.report()))[0]
    assert row["GPU_Name"].startswith("'")
    assert row["Type"].startswith("'")
    assert "\x1b" not in row["Type"]


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    """No column is coerced: whole numbers have no point, negative numbers no quote."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=8))
    cells = to_rows(run.report())
    assert [row["Requested_Batch"] for row in cells] == [1, 8]
    assert [type(row["Iterations"]) for row in cells] == [type(None), int]


def test_a_scan_has_a_row_for_each_size_and_the_best_has_all_figures(tmp_path: Path) -> None:
    """Smallest first, each once: the curve. What did not fit has no Batch_Size, as a cell that failed has none."""
    run = FakeRun(tmp_path, batch_sizes=(AUTO,), workloads=(Workload.LOAD, Workload.INFERENCE))
    cell = next(cell for cell in run.stored.plan.cells if cell.workload is Workload.INFERENCE)
    for batch_size, forward_ms in ((1, 4.0), (8, 16.0), (2, 5.0), (4, 16.0)):
        run.measured(cell, batch_size=batch_size, forward_ms=forward_ms)
    run.failed(cell, Category.OUT_OF_MEMORY, batch_size=9, message="CUDA out of memory")
    found = rows(to_csv(run.report()))
    curve = [row for row in found if row["Phase"] == "inference"]
    assert [(row["Requested_Batch"], row["Batch_Size"], row["Scan"]) for row in curve] == [
        ("1", "1", "fits"),
        ("2", "2", "fits"),
        ("4", "4", "fits"),
        ("8", "8", "best"),
        ("9", "N/A", "does not fit"),
    ]
    for row, throughput in zip(curve[:4], (250, 400, 250, 500), strict=True):
        assert float(row["Throughput"]) == pytest.approx(throughput, rel=0.02)
        assert float(row["Memory_MB"]) > 0
        assert (row["Model"], row["Type"], row["Status"], row["GPU_UUID"]) == (
            *("resnet50", "cnn", "ok"),
            cell.devices[0],
        )
    assert (curve[4]["Throughput"], curve[4]["Reason"], curve[4]["Status"]) == ("N/A", "out of memory", "N/A")
    assert [row["Forward_ms"] != "N/A" for row in curve] == [False, False, False, True, False]
    assert [row["Scan"] for row in found if row["Phase"] == "load"] == ["N/A"]
    assert [row["Launches"] for row in curve] == ["1", "1", "1", "1", "0"]
    trust = ("Steady_State", "Stop_Reason", "Half_Width_%", "Drift_%", "Drifting")
    assert all("N/A" not in [row[name] for name in trust] for row in curve[:4])
    assert [curve[4][name] for name in trust] == ["N/A"] * len(trust)


def test_a_scan_that_is_not_over_has_its_curve_behind_its_own_row(tmp_path: Path) -> None:
    """What was tried is told; that the cell has no result yet, too."""
    run = FakeRun(tmp_path, batch_sizes=(AUTO,), workloads=(Workload.INFERENCE,))
    run.measured(run.stored.plan.cells[0], batch_size=1)
    found = rows(to_csv(run.report()))
    assert [(row["Batch_Size"], row["Status"], row["Scan"]) for row in found] == [
        ("N/A", "missing", "N/A"),
        ("1", "ok", "best"),
    ]


def test_a_scan_that_found_nothing_has_its_row(tmp_path: Path) -> None:
    """A planned cell without a result stands in the table, with the reason."""
    run = FakeRun(tmp_path, batch_sizes=(AUTO,), workloads=(Workload.INFERENCE,))
    run.failed(run.stored.plan.cells[0], Category.EXCEPTION, batch_size=1, message="boom")
    (row,) = rows(to_csv(run.report()))
    assert (row["Model"], row["Phase"], row["Status"], row["Batch_Size"]) == ("resnet50", "inference", "failed", "N/A")
    assert "boom" in row["Reason"]
