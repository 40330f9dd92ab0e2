"""report/chapters: what each chapter says of a run, as data. Golden files hold the sentences and the layout."""

import re
from pathlib import Path

import msgspec
import pytest

from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.figures.report import Report
from orchestrator.report.chapters import overview
from orchestrator.report.chapters.comparisons import costs
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.model_overview import overview as at_a_glance
from orchestrator.report.chapters.models import models, reasons
from orchestrator.report.charts.spread import spread
from orchestrator.report.charts.types import Heat
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.sections import Section, Table
from orchestrator.run_reports import report_reader
from protocol import floats
from protocol.cell import Precision, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.nvml import ROOT
from tests.fakes.results import result
from tests.fakes.runs import FakeRun, cpus, gpus, shipped
from tests.golden.rendering import OUTPUTS

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


def there(section: Section | None) -> Section:
    """A chapter that the run has."""
    assert section is not None
    return section


def rows(table: Table | None) -> dict[str, list[str]]:
    """What a table says, by its first column."""
    assert table is not None
    return {str(row[0]): [str(entry) for entry in row[1:]] for row in table.rows}


def tables(report: Report) -> dict[str, Table]:
    """Of the chapter on models, by their captions."""
    return {table.caption: table for part in there(models(report)).parts for table in part.tables}


def remarks(report: Report) -> tuple[str, ...]:
    """Of the chapter on models, on all cells of a device."""
    (part,) = (part for part in there(models(report)).parts if part.id == "remarks")
    return part.summary


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("iterations", "warm_up", "words"),
    [
        (5, 2, "profile quick, 1 .*, 5 iterations .* 2 .*warm-up, solo, "),
        (1, None, "profile quick, 1 .*, 1 iteration .*adaptive warm-up, solo, "),
        (None, 2, "profile quick, 1 .*, 2 iterations of warm-up, solo, "),
        (None, None, "profile quick, 1 [^,]*, solo, "),
    ],
)
def test_the_head_says_which_iterations_were_fixed(
    tmp_path: Path, iterations: int | None, warm_up: int | None, words: str
) -> None:
    """Numbers given with -i and -w; where times decided, nothing. A preset comes before its profile."""
    report = FakeRun(tmp_path, iterations=iterations, warm_up_iterations=warm_up).report()
    assert re.match(words, dict(overview.facts(report, DEFAULT))["Measured"])
    light = msgspec.structs.replace(report.test_configuration, preset="light")
    report = msgspec.structs.replace(report, test_configuration=light)
    assert re.match(f"preset light, {words}", dict(overview.facts(report, DEFAULT))["Measured"])


def test_launches_on_several_stacks_are_not_compared_in_silence(tmp_path: Path) -> None:
    """A notice before any figure, and the verdict is what it was; nothing where all ran on one stack."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    ran_on = result(run.cell(batch_size=1)).environment
    run.measured(run.cell(batch_size=1))
    run.segment(driver_version="999.1")
    run.measured(run.cell(batch_size=8), environment=msgspec.structs.replace(ran_on, torch="2.9.1", cuda="12.8"))
    run.finish()
    report = run.report()
    (notice,) = overview.notices(report)
    assert "differ in PyTorch, CUDA, driver" in notice
    assert report.verdict.exit_code == 0


def test_only_resumes_that_did_something_are_counted(tmp_path: Path) -> None:
    """A finished run that is resumed twice more was resumed once."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    assert "Resumed" not in dict(overview.facts(run.report(), DEFAULT))
    run.segment()
    run.measured(run.cell(batch_size=8))
    run.segment()
    run.segment()
    run.finish()
    assert dict(overview.facts(run.report(), DEFAULT))["Resumed"] == "1 time"


def test_the_summary_names_the_device_and_only_what_happened(tmp_path: Path) -> None:
    """The best throughput has its device; of the cells, what did not happen is not listed."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(4, 8, 32))
    run.measured(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.failed(run.cell(batch_size=32), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=32), batch_size=16)
    run.measured(run.cell(batch_size=4, device=1), forward_ms=1.0)
    said = dict(line.split(": ", 1) for line in overview.summary(run.report()).summary)
    assert said["Best Throughput"].endswith("smp/s, inference, fp32, GPU 1)")
    assert [words.split(" (")[0] for words in said["Cells"].split(", ")] == [
        "6 planned",
        "2 ok",
        "1 degraded",
        "1 referred",
        "2 missing",
    ]


# ── devices ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_device_that_measured_most_stands_for_its_kind(tmp_path: Path) -> None:
    """The first GPU was lost: the tables are those of the next one; another kind of GPU has its own."""
    other = gpus(4, name="NVIDIA A100")[3]
    run = FakeRun(tmp_path, devices=(*gpus(3), other), batch_sizes=(8,))
    run.failed(run.cell(batch_size=8, device=0), Category.DEVICE_LOST)
    for device in (1, 2, 3):
        run.measured(run.cell(batch_size=8, device=device))
    parts = there(models(run.report())).parts
    assert [part.title for part in parts if part.id == "device"] == ["GPU 1: NVIDIA H200", "GPU 3: NVIDIA A100"]


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_doubts_and_gaps_show_at_a_glance(tmp_path: Path) -> None:
    """A figure in doubt has its mark, a missing one its word, and the legend has both; each size has a line."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "lstm"), batch_sizes=(8,), input_sizes=(224, 512))
    for cell in run.stored.plan.cells:
        if cell.model == "lstm":
            run.failed(cell, Category.CRASHED)
        else:
            run.measured(cell, steady_state=SteadyState.NONE if cell.input_size == 224 else SteadyState.REACHED)
    table = at_a_glance(run.report().results)
    found = rows(table)
    assert {"resnet50@224", "resnet50@512", "lstm"} == set(found)
    assert found["resnet50@224"][-1].endswith("@8~")
    assert found["resnet50@512"][-1].endswith("@8")
    assert found["lstm"][-1] == "fail"
    assert "fail: failed" in table.words.split("; ")
    assert "~: unsettled" in table.words


def test_tokens_that_did_not_arrive_are_a_remark(tmp_path: Path) -> None:
    """After the tables of its GPU."""
    run = FakeRun(tmp_path, models=shipped("gpt2"), workloads=(Workload.GENERATION,), batch_sizes=(1,))
    (cell,) = run.stored.plan.cells
    run.measured(cell, generated_tokens=400 * 32)
    assert any("12800 tokens arrived, 25600" in words for words in remarks(run.report()))


def test_what_stands_for_a_size_is_said(tmp_path: Path) -> None:
    """A referred and a degraded column say so, in a status row and in a remark."""
    run = FakeRun(tmp_path, batch_sizes=(4, 8, 32))
    run.measured(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.failed(run.cell(batch_size=32), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=32), batch_size=16)
    report = run.report()
    (table,) = tables(report).values()
    assert rows(table)["Status"] == ["ok", "referred", "degraded"]
    assert any(re.search(r"fp32 b32\): .* 16", words) for words in remarks(report))


def test_remarks_of_one_kind_are_one_line(tmp_path: Path) -> None:
    """With their number, their range, and their names where they are few."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "lstm"), batch_sizes=(1, 8, 32))
    run.everything(launch_bound=True)
    report = run.report()
    changed = report.results[1].inference_metrics | {
        f"batch_size_{size}": msgspec.structs.replace(
            report.results[1].inference_metrics[f"batch_size_{size}"], drifting=True, drift_percent=percent
        )
        for size, percent in ((1, -3.0), (8, 2.0))
    }
    other = msgspec.structs.replace(report.results[1], inference_metrics=changed)
    found = remarks(msgspec.structs.replace(report, results=(report.results[0], other)))
    assert found[0].startswith("6 of 6 results: ")
    name = report.results[1].model_name
    assert re.match(rf"2 of 6 .*{name} .* b1, {name} .* b8\): .* -3\.0% to \+2\.0%$", found[1])
    assert len(found) == 2


def test_rows_that_no_column_has_are_excluded_and_their_reason_is_said_once(tmp_path: Path) -> None:
    """Short cells have no power: the seconds of each make no reason of their own. A long one has its row."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8, 32))
    run.measured(run.cell(batch_size=1), blocks=1, iterations=20)
    run.measured(run.cell(batch_size=8), blocks=1, iterations=40)
    short = run.report()
    run.measured(run.cell(batch_size=32), blocks=20, iterations=40)
    run.samples()
    (table,) = tables(short).values()
    assert "Power Draw" not in rows(table)
    (table,) = tables(run.report()).values()
    assert rows(table)["Power Draw"] == ["N/A", "N/A", "690.0 W"]
    assert len([part for part in there(models(run.report())).parts if part.id == "readings"]) == 1
    metrics = list(short.results[0].inference_metrics.values())
    notes = ("short, this took 0.2 s; no driver", "short, and the measurement took 0.4 s", "no driver; no counter")
    told = [msgspec.structs.replace(metrics[0], telemetry_note=note) for note in notes]
    assert reasons(told).split("; ") == ["short", "no driver", "no counter"]


def test_operations_that_were_not_counted_have_a_reason(tmp_path: Path) -> None:
    """Beside a batch whose operations were counted, one with an iteration of more than 2 s says why it has no rate."""
    run = FakeRun(tmp_path, batch_sizes=(1, 4))
    run.measured(run.cell(batch_size=1), flops_per_iteration=1e12)
    run.measured(run.cell(batch_size=4), forward_ms=2_500.0, flops_per_iteration=None)
    (table,) = tables(run.report()).values()
    assert rows(table)["Achieved"][1] == "N/A"
    said = [words.split(": ")[0] for words in table.remarks if "Achieved is not known" in words]
    assert said == ["batch 4"]


def test_probes_have_their_rates(tmp_path: Path) -> None:
    """A row for each rate; what failed has its word, and a remark."""
    probes = shipped("gemm", "hbm", "d2h")
    run = FakeRun(tmp_path, models=probes, probes=probes, precisions=(Precision.FP32, Precision.BF16))
    cells = {(cell.model, cell.precision): cell for cell in run.stored.plan.cells}
    gemm, hbm = cells["gemm", Precision.BF16], cells["hbm", Precision.FP32]
    best = {**result(gemm, noise=0.0).series, "best": floats.pack([25.0])}
    run.measured(gemm, noise=0.0, flops_per_iteration=2e13, series=best)
    run.measured(hbm, noise=0.0, bytes_per_iteration={"copy": 8 * 10**10, "triad": 12 * 10**10})
    run.failed(cells["d2h", Precision.FP32], Category.CRASHED, message="killed by SIGSEGV")
    table = tables(run.report())["Probes: limits of the device without a model"]
    found = rows(table)
    assert found["Matrix product, bf16"] == ["400.0 TFLOP/s", "800.0 TFLOP/s"]
    assert found["Device memory, copy"] == found["Device memory, triad"] == ["4000.0 GB/s", ""]
    assert found["Device to host"] == ["failed", "N/A"]
    assert any(f"host: {Category.CRASHED}" in words for words in table.remarks)


# ── several devices ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workload", [Workload.LOAD, Workload.INFERENCE])
def test_the_longest_time_is_the_slowest(tmp_path: Path, workload: Workload) -> None:
    """Loading has times and the others rates; slowest, fastest and below 100 mean the same in both."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1,), workloads=(workload,))
    for device, forward_ms in enumerate((8.0, 10.0, 12.5)):
        run.measured(run.cell(workload=workload, device=device), forward_ms=forward_ms, noise=0.0)
    section = there(spread(run.report()))
    ((_, _, slowest, fastest),) = rows(section.table("spread")).values()
    assert (slowest, fastest) == ("GPU 2", "GPU 0")
    assert list(rows(section.table("differing")).values()) == [["125.0", ".", "80.0"]]


def test_a_probe_that_is_unsettled_judges_no_gpu() -> None:
    """Its boxes in the heat map are hatched, as those of models are."""
    report = report_reader.report(OUTPUTS / "triage-gpus" / "report.json")
    probes = tuple(msgspec.structs.replace(one, steady_state=SteadyState.NONE) for one in report.probes)
    (heat,) = there(spread(msgspec.structs.replace(report, probes=probes))).charts[0].plots
    assert isinstance(heat, Heat)
    hatched = {row: {box.hatched for box in heat.boxes if box.row == place} for place, row in enumerate(heat.rows)}
    assert [states for row, states in hatched.items() if row.startswith("hbm")] == [{True}]


def test_cells_of_an_early_report_are_hatched_too() -> None:
    """Its planned cells have no input size."""
    plots = there(spread(report_reader.report(ROOT / "docs/measurements/h200-x4-quick.json"))).charts[0].plots
    assert any(box.hatched for plot in plots if isinstance(plot, Heat) for box in plot.boxes)


def test_a_device_without_a_value_has_a_word(tmp_path: Path) -> None:
    """Failed, not measured, and not comparable each have a short one, which the legend explains."""
    run = FakeRun(tmp_path, devices=gpus(5), batch_sizes=(8,))
    for device in (0, 1):
        run.measured(run.cell(batch_size=8, device=device))
    run.failed(run.cell(batch_size=8, device=2), Category.CRASHED)
    run.failed(run.cell(batch_size=8, device=3), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8, device=3), batch_size=4)
    table = there(spread(run.report())).table("differing")
    assert table is not None
    assert list(rows(table).values()) == [[".", ".", "fail", "n/c", "miss"]]
    assert [words.partition(":")[0] for words in table.words.split("; ")] == ["fail", "miss", "n/c"]


# ── what was compared, and what was not measured ──────────────────────────────────────────────────────────────────────


def test_costs_without_a_note_where_energy_is_known(tmp_path: Path) -> None:
    """Cells of 5 s and more have a price and an energy."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples()
    run.finish()
    (table,) = there(costs(references.hold(run.report(), Against(price_per_hour=2.5)))).tables
    assert (table.rows[0][3] == "N/A", "Energy" in table.words) == (False, False)


def test_what_no_cell_was_planned_for_is_said_once_for_each_reason(tmp_path: Path) -> None:
    """With the devices where it does not hold for all of them."""
    probes = shipped("h2d")
    run = FakeRun(
        tmp_path,
        devices=(gpus(1)[0], cpus(2)[1]),
        models=(*shipped("resnet50"), *probes),
        probes=probes,
        input_sizes=(8, 224),
    )
    resnet, h2d = there(not_measured(run.report())).summary
    assert resnet.startswith("resnet50: takes ")
    assert h2d.startswith("h2d: not applicable")
    assert [words.endswith("(cpu:1)") for words in (resnet, h2d)] == [False, True]


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_dropped_is_listed_by_model(tmp_path: Path, count: int) -> None:
    """Once for all devices, with its size where there are several, whatever seconds each cell would have taken."""
    run = FakeRun(tmp_path, devices=gpus(count), models=shipped("resnet50", "lstm"), batch_sizes=(1, 8))
    for cell in run.stored.plan.cells:
        if cell.batch_size == 1:
            run.measured(cell)
        else:
            run.dropped(cell, f"dropped to keep 60 s: it would have taken {len(cell.model)} s, 2 s were left")
    run.finish()
    report = run.report()
    (finding,) = there(not_measured(report)).findings
    assert (finding.title, finding.lines) == (
        "Dropped to keep 60 s",
        ("resnet50: inference fp32 b8", "lstm: inference fp32 b8"),
    )
    assert (report.summary.cells.dropped, report.verdict.exit_code) == (2 * count, 0)


def test_sizes_of_what_was_dropped_are_named_where_a_model_has_several(tmp_path: Path) -> None:
    """And only there."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "bert-base"), input_sizes=(128, 224))
    for cell in run.stored.plan.cells:
        run.dropped(cell, "no time: 5 s")
    run.finish()
    (finding,) = there(not_measured(run.report())).findings
    names = {line.split(":")[0] for line in finding.lines}
    assert {"resnet50@128", "resnet50@224"} <= names
    assert "bert-base" in names
