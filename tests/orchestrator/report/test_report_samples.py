"""The report in long form: a row for each sample, read from the run's folder launch by launch."""

import csv
import errno
import io
import shutil
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import pandas
import pytest

from orchestrator import report
from orchestrator.analysis import evidence, launch_samples
from orchestrator.analysis.evidence import Evidence
from orchestrator.config.report_formats import ReportFormat
from orchestrator.config.workloads import OF_NO_MODEL
from orchestrator.errors import RunFolderError, StorageError
from orchestrator.figures.launch_samples import LaunchSamples
from orchestrator.run_reports import reporting
from orchestrator.state import archive
from orchestrator.state.archive import Archive
from orchestrator.store.journal_records import End
from protocol import floats
from protocol.cell import AUTO, Workload
from protocol.failure import Category, Failure, Phase
from protocol.paths import LaunchPaths, RunPaths
from protocol.result import Result
from tests.fakes.burn_ins import FakeBurnIn
from tests.fakes.reports import burnt_in_run, scanned_run
from tests.fakes.runs import SECOND_NS, FakeRun, gpus

Rows = list[dict[str, str]]
CELL: Final = ("Cell", "GPU", "GPU_UUID", "Model", "Phase", "Precision", "Batch_Size", "Requested_Batch", "Status")


def written(paths: RunPaths) -> bytes:
    """The whole file."""
    made = reporting.make_all(paths)
    return b"".join(report.parts(made.report, ReportFormat.SAMPLES, samples=made.samples))


def rows_of(run: FakeRun) -> Rows:
    """Its rows."""
    return list(csv.DictReader(io.StringIO(written(run.paths).decode())))


def times_of(rows: Rows, launch: int, series: str) -> list[float]:
    """The samples of a series, in the order of the file."""
    return [float(row["Value"]) for row in rows if (row["Launch"], row["Series"]) == (str(launch), series)]


def stored(run: FakeRun, launch: int) -> Result:
    """The stored result of a launch."""
    loaded = run.archive()
    return loaded.result(next(one for one in loaded.attempts if one.start.launch == launch))


def whole_run(folder: Path) -> FakeRun:
    run = FakeRun(folder, devices=gpus(2), batch_sizes=(1, 8), launches=2)
    run.everything()
    run.finish()
    return run


def withdrawn(run: FakeRun, launch: int) -> None:
    """Withdraw the result of a launch: another process computed on its GPU."""
    failure = Failure(category=Category.CONTAMINATED, message="PID 1", phase=Phase.MEASURE)
    run._journal.append(End(launch=launch, at_ns=run.now_ns, failure=failure))


def test_every_sample_has_a_row(tmp_path: Path) -> None:
    """In the order measured, numbered from 1 in each series, unrounded; then the launch's rate."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), workloads=(Workload.TRAINING,), launches=2)
    run.everything()
    run.finish()
    rows = rows_of(run)
    launches = {attempt.start.launch: attempt for attempt in run.archive().attempts}
    assert len(launches) == 4
    for number, attempt in launches.items():
        result = stored(run, number)
        for series, packed in result.series.items():
            assert times_of(rows, number, series) == floats.unpack(packed)
        its = [row for row in rows if row["Launch"] == str(number)]
        assert Counter(row["Series"] for row in its) == {
            **dict.fromkeys(("iteration", "forward", "backward", "optimizer"), 400),
            "throughput_samples_per_sec": 1,
        }
        assert [row["Sample"] for row in its if row["Series"] == "backward"] == [str(one) for one in range(1, 401)]
        assert {row["Round"] for row in its} == {str(attempt.start.round)}
        assert {row["GPU_UUID"] for row in its} == {attempt.start.device}
        assert {(row["Counts"], row["Reason"]) for row in its} == {("True", "N/A")}
        assert {row["Unit"] for row in its[:-1]} == {"ms"}
        last = its[-1]
        assert (last["Unit"], last["Sample"], last["Iterations"], last["Outlier"]) == ("smp/s", "N/A", "400", "N/A")
    assert {tuple(row[name] for name in CELL) for row in rows} == {
        (cell.id, str(at), run.stored.devices[at].uuid, "resnet50", "training", "fp32", "8", "8", "ok")
        for at, cell in enumerate(run.stored.plan.cells)
    }


def test_a_row_has_its_iterations_and_outlier_flag(tmp_path: Path) -> None:
    """Short iterations are timed in groups, latencies never; a token is no iteration."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    times = [*([10.0, 10.1] * 10), 99.0]
    series = {"iteration": times, "latency": [12.0], "inter_token": [1.0]}
    run.measured(run.cell(), series={name: floats.pack(values) for name, values in series.items()}, group=4)
    run.finish()
    rows = rows_of(run)
    assert {(row["Series"], row["Iterations"]) for row in rows if row["Sample"] != "N/A"} == {
        ("iteration", "4"),
        ("latency", "1"),
        ("inter_token", "N/A"),
    }
    assert [row["Sample"] for row in rows if row["Outlier"] == "True"] == ["21"]
    assert sum(row["Outlier"] == "False" for row in rows) == 22


def test_text_never_becomes_a_formula_or_a_column(tmp_path: Path) -> None:
    """Names of devices and series, and messages of failures."""
    run = FakeRun(tmp_path, devices=gpus(1, name='=1+1,"x'), batch_sizes=(1, 8))
    series = {name: floats.pack([1.0]) for name in ("iteration", "@sum\n,")}
    run.measured(run.cell(batch_size=1), series=series)
    run.failed(run.cell(batch_size=8), message="-2\x1b[31m,3")
    run.finish()
    rows = rows_of(run)
    assert {row["GPU_Name"] for row in rows} == {"'=1+1,\"x"}
    assert {row["Series"] for row in rows} == {"iteration", "'@sum ,", "throughput_samples_per_sec", "N/A"}
    assert all(None not in row and None not in row.values() for row in rows)


def test_a_cell_without_results_has_one_row_with_the_reason(tmp_path: Path) -> None:
    """Its failed attempts have none."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8), launches=2)
    run.failed(run.cell(batch_size=8), message="boom")
    run.measured(run.cell(batch_size=1), number=0)
    run.failed(run.cell(batch_size=1), number=1)
    run.finish()
    rows = rows_of(run)
    (lost,) = (row for row in rows if row["Requested_Batch"] == "8")
    assert (lost["Status"], lost["Counts"], lost["Reason"]) == ("failed", "False", "exception: boom")
    assert {lost[name] for name in ("Launch", "Round", "Series", "Unit", "Sample", "Value")} == {"N/A"}
    assert {row["Launch"] for row in rows if row["Requested_Batch"] == "1"} == {"1"}


def test_discarded_results_have_rows_with_the_reason(tmp_path: Path) -> None:
    """A withdrawn result, and one at a larger batch size than a later launch's."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=2)
    cell = run.cell(batch_size=8)
    aside = run.measured(cell, number=0)
    withdrawn(run, aside)
    large = run.measured(cell, number=0, forward_ms=20.0)
    run.failed(cell, Category.OUT_OF_MEMORY, number=1)
    small = run.measured(cell, number=1, batch_size=4)
    run.finish()
    rows = rows_of(run)
    assert {(row["Launch"], row["Batch_Size"], row["Counts"], row["Reason"].split()[-1]) for row in rows} == {
        (str(aside), "8", "False", str(Category.CONTAMINATED).split()[-1]),
        (str(large), "8", "False", "4"),
        (str(small), "4", "True", "N/A"),
    }
    assert {row["Requested_Batch"] for row in rows} == {"8"}
    for launch in (large, small):
        assert times_of(rows, launch, "iteration") == stored(run, launch).times_ms("iteration")
    assert len(times_of(rows, aside, "iteration")) == 400
    assert {row["Outlier"] for row in rows if row["Counts"] == "False"} == {"N/A"}


def test_the_latest_result_of_a_round_counts(tmp_path: Path) -> None:
    """The other one has rows too."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    first, second = run.measured(run.cell()), run.measured(run.cell(), forward_ms=11.0)
    run.finish()
    assert {(row["Launch"], row["Counts"], row["Reason"].split()[0]) for row in rows_of(run)} == {
        (str(first), "False", "another"),
        (str(second), "True", "N/A"),
    }


def test_a_scan_has_the_samples_of_each_size_and_the_best_counts(tmp_path: Path) -> None:
    """Each launch at its own size; in an unfinished scan none counts."""
    run = FakeRun(tmp_path / "run", batch_sizes=(AUTO,))
    (cell,) = run.stored.plan.cells
    for batch_size, forward_ms in ((1, 4.0), (2, 5.0)):
        run.measured(cell, batch_size=batch_size, forward_ms=forward_ms)
    shutil.copytree(tmp_path / "run", tmp_path / "before")
    run.measured(cell, batch_size=4, forward_ms=16.0)
    run.failed(cell, Category.OUT_OF_MEMORY, batch_size=5)
    run.finish()
    told = {(row["Batch_Size"], row["Requested_Batch"], row["Counts"]) for row in rows_of(run)}
    assert told == {("1", "1", "False"), ("2", "2", "True"), ("4", "4", "False")}
    before = list(csv.DictReader(io.StringIO(written(RunPaths(tmp_path / "before")).decode())))
    assert {(row["Batch_Size"], row["Counts"], "no figures" in row["Reason"]) for row in before} == {
        (size, "False", True) for size in ("1", "2")
    }


@pytest.mark.parametrize(
    "spoil", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x00")], ids=["gone", "damaged"]
)
def test_a_lost_result_has_a_row(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    """A row without a value, also if it is lost after the report was made."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8), launches=2)
    run.everything()
    run.finish()
    made = reporting.make_all(run.paths)
    loaded = run.archive()
    first, *others = loaded.attempts
    spoil(loaded.folder(first).result)
    late = b"".join(report.parts(made.report, ReportFormat.SAMPLES, samples=made.samples)).decode()
    for rows in (rows_of(run), list(csv.DictReader(io.StringIO(late)))):
        (lost,) = (row for row in rows if row["Launch"] == str(first.start.launch))
        assert (lost["Counts"], "missing or damaged" in lost["Reason"]) == ("False", True)
        assert {lost[name] for name in ("Series", "Unit", "Iterations", "Sample", "Outlier", "Value")} == {"N/A"}
        whole = {row["Launch"] for row in rows if row["Series"] == "iteration" and row["Counts"] == "True"}
        assert whole == {str(one.start.launch) for one in others}


def test_a_resumed_run_has_the_samples_of_all_sessions(tmp_path: Path) -> None:
    """Also over a reboot, and in a running run; interrupted attempts measured nothing."""
    run = FakeRun(tmp_path, batch_sizes=(1,), launches=2)
    before = run.measured(run.cell(), number=0)
    cut_off = run.interrupted(run.cell(), number=1)
    assert {row["Launch"] for row in rows_of(run)} == {str(before)}
    run.segment(boot_id="22222222-2222-3333-4444-555555555555", now_ns=SECOND_NS)
    after = run.measured(run.cell(), number=1)
    run.finish()
    rows = rows_of(run)
    assert {(row["Launch"], row["Round"], row["Counts"]) for row in rows} == {
        (str(before), "0", "True"),
        (str(after), "1", "True"),
    }
    assert cut_off not in (before, after)


def test_a_burn_in_has_the_times_of_its_checks(tmp_path: Path) -> None:
    """Checks have neither figure nor batch; a cell on several devices names them."""
    burn_in_run = FakeBurnIn(tmp_path, gpus(3), "10m")
    burn_in_run.work()
    burn_in_run.well()
    burn_in_run.finish()
    rows = rows_of(burn_in_run)
    assert {row["Cell"] for row in rows} == {cell.id for cell in burn_in_run.stored.plan.cells}
    assert {row["Counts"] for row in rows if row["Value"] != "N/A"} == {"True"}
    assert {row["Series"] for row in rows} <= {"iteration", "forward", "N/A"}
    batches = {(row["Batch_Size"], row["Requested_Batch"]) for row in rows if row["Phase"] in OF_NO_MODEL}
    assert batches == {("N/A", "N/A")}
    links = {cell.id: " ".join(cell.devices[1:]) for cell in burn_in_run.stored.plan.cells if len(cell.devices) > 1}
    beside = {row["Cell"]: row["Other_GPU_UUIDs"] for row in rows if row["Other_GPU_UUIDs"] != "N/A"}
    assert beside == links != {}
    launched = Counter(attempt.start.cell for attempt in burn_in_run.archive().attempts)
    assert Counter(cell for cell, _ in {(row["Cell"], row["Launch"]) for row in rows}) == launched


@pytest.mark.parametrize("make", [whole_run, scanned_run, burnt_in_run])
def test_the_same_folder_makes_the_same_bytes(tmp_path: Path, make: Callable[[Path], FakeRun]) -> None:
    """Cells in the order of the plan, launches in order of the run."""
    run = make(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    text = written(run.paths)
    assert text == written(RunPaths(tmp_path / "copy"))
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert list(dict.fromkeys(row["Cell"] for row in rows)) == [cell.id for cell in run.stored.plan.cells]
    for cell in run.stored.plan.cells:
        launches = [int(row["Launch"]) for row in rows if row["Cell"] == cell.id and row["Launch"] != "N/A"]
        assert launches == sorted(launches)


def test_results_are_read_one_by_one_while_the_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not earlier, and with the memory of two launches at most."""
    run = FakeRun(tmp_path, batch_sizes=(1,), launches=6)
    times = floats.pack([1.0 + number / 7 for number in range(10_000)])
    for number in range(6):
        run.measured(run.cell(), number=number, series={"iteration": times})
    run.finish()
    made = reporting.make_all(run.paths)
    read: list[int] = []

    def result(folder: LaunchPaths, promised: str, devices: Collection[str]) -> Result:
        read.append(int(folder.folder.name))
        return archive.read_result(folder, promised, devices)

    monkeypatch.setattr(launch_samples, "read_result", result)
    samples = iter(report.parts(made.report, ReportFormat.SAMPLES, samples=made.samples))
    next(samples)
    assert read == []
    tracemalloc.start()
    try:
        size = sum(map(len, samples))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == list(range(1, 7))
    assert size > 10_000_000
    assert peak < 2_500_000


def test_the_archive_is_freed_before_samples_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archive and evidence of a burn-in are as large as its report."""
    run = FakeRun(tmp_path, batch_sizes=(1,), launches=2)
    run.everything()
    run.finish()
    made_of: list[weakref.ref[object]] = []

    def gather(loaded: Archive, *, goes_on: bool = False) -> Evidence:
        gathered = whole(loaded, goes_on=goes_on)
        parts = (loaded, gathered, *gathered.launches.values())
        made_of.extend(weakref.ref(one) for one in parts)
        return gathered

    whole = evidence.gather
    monkeypatch.setattr(evidence, "gather", gather)
    made = reporting.make_all(run.paths)
    launches = len(run.stored.plan.slots)
    assert len(made_of) == 2 + launches
    assert [type(kept).__name__ for one in made_of if (kept := one()) is not None] == []
    cells = (cell.id for cell in run.stored.plan.cells)
    assert sum(launch.value is not None for cell in cells for launch in made.samples(cell)) == launches


def test_samples_need_the_folder_of_the_run(tmp_path: Path) -> None:
    """No file is written."""
    made = FakeRun(tmp_path / "run").report()
    with pytest.raises(RunFolderError, match=r"launches/ .*report RUN -f samples\.csv"):
        report.publish(made, tmp_path / "out" / "x.samples.csv", (ReportFormat.SAMPLES,))
    assert list((tmp_path / "out").iterdir()) == []


def test_reports_of_a_meanwhile_resumed_run_are_discarded(tmp_path: Path) -> None:
    """A run that is resumed meanwhile keeps its folder as it was."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell())
    seen = run.paths.journal.stat().st_size
    made = reporting.make_all(run.paths)

    def taken_up(cell: str) -> Iterator[LaunchSamples]:
        yield from made.samples(cell)
        run.segment()

    before = sorted(path.name for path in tmp_path.iterdir())
    found = made._replace(samples=taken_up)
    assert reporting.render_again(found, run.paths, (ReportFormat.SAMPLES,), seen) == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert reporting.render_again(made, run.paths, (ReportFormat.SAMPLES,), run.paths.journal.stat().st_size)


def test_renewed_reports_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    """Also those that were complete when the run was resumed or the disk was full."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    run.measured(run.cell())
    run.finish()
    made = reporting.make_all(run.paths)
    formats = (ReportFormat.JSON, ReportFormat.TXT, ReportFormat.SAMPLES)
    for kind in formats:
        run.paths.report(kind).write_text("older")
    seen = run.paths.journal.stat().st_size

    def full(_: str) -> Iterator[LaunchSamples]:
        raise OSError(errno.ENOSPC, "No space left on device")

    def taken_up(cell: str) -> Iterator[LaunchSamples]:
        yield from made.samples(cell)
        with run.paths.journal.open("ab") as journal:
            journal.write(b"more")

    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path != run.paths.journal}
    with pytest.raises(StorageError, match="No space left"):
        reporting.render_again(made._replace(samples=full), run.paths, formats, seen)
    assert reporting.render_again(made._replace(samples=taken_up), run.paths, formats, seen) == ()
    after = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path != run.paths.journal}
    assert after == before
    files = reporting.render_again(made, run.paths, formats, run.paths.journal.stat().st_size)
    assert files == tuple(map(run.paths.report, formats))
    assert b"older" not in {path.read_bytes() for path in files}
    assert {path for path in tmp_path.iterdir() if path.is_file()} == {*before, run.paths.journal}


def test_pandas_reads_it_as_the_documentation_says(tmp_path: Path) -> None:
    """Numbers are numbers, unknown values are missing, and the median is the one in JSON."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8), launches=2)
    run.measured(run.cell(batch_size=1), number=0)
    run.measured(run.cell(batch_size=1), number=1, forward_ms=11.0)
    run.failed(run.cell(batch_size=8))
    run.finish()
    table = pandas.read_csv(io.BytesIO(written(run.paths)))
    forward = table[table.Counts & (table.Series == "forward")]
    medians = forward.groupby(["Cell", "GPU_UUID"]).Value.median()
    told = run.report().results[0].inference_metrics["batch_size_1"]
    assert told.statistics is not None
    assert list(medians) == [told.statistics.forward_time_p50_ms]
    rates = table[table.Counts & (table.Series == "throughput_samples_per_sec")].Value
    assert tuple(rates) == told.launch_values
