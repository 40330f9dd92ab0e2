"""report/chapters: what each chapter says of a run, as data. Golden files hold the sentences and the layout."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.compare import references
from orchestrator.compare.references import Against
from orchestrator.figures.report import Report
from orchestrator.report.chapters import overview, time
from orchestrator.report.chapters.batch_scans import batch_scans
from orchestrator.report.chapters.comparisons import baseline, costs
from orchestrator.report.chapters.devices import described, devices
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.model_overview import overview as at_a_glance
from orchestrator.report.chapters.models import models, reasons
from orchestrator.report.chapters.spread import spread
from orchestrator.report.chapters.stragglers import MEANS_OF_LAUNCHES, full_node
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.sections import Section, Table
from protocol import floats
from protocol.cell import Cell, Device, Mode, Precision, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.reports import scanned
from tests.fakes.results import result
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


def there(section: Section | None) -> Section:
    """A chapter that the run has."""
    assert section is not None
    return section


def rows(table: Table | None) -> dict[str, list[str]]:
    """What a table says, by its first column."""
    assert table is not None
    return {str(row[0]): [str(entry) for entry in row[1:]] for row in table.rows}


def place(run: FakeRun, cell: Cell) -> int:
    """The number of the device of a cell."""
    return next(device.gpu_id for device in run.stored.devices if device.uuid == cell.devices[0])


def tables(report: Report) -> dict[str, Table]:
    """Of the chapter on models, by their captions."""
    return {table.caption: table for part in there(models(report)).parts for table in part.tables}


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("iterations", "warm_up", "words"),
    [
        (5, 2, "profile quick, 1 launch a cell, 5 iterations after 2 of warm-up, solo, "),
        (1, None, "profile quick, 1 launch a cell, 1 iteration after an adaptive warm-up, solo, "),
        (None, 2, "profile quick, 1 launch a cell, 2 iterations of warm-up, solo, "),
        (None, None, "profile quick, 1 launch a cell, solo, "),
    ],
)
def test_the_head_says_which_iterations_were_fixed(
    tmp_path: Path, iterations: int | None, warm_up: int | None, words: str
) -> None:
    """Numbers given with -i and -w; where times decided, nothing. A preset comes before its profile."""
    report = FakeRun(tmp_path, iterations=iterations, warm_up_iterations=warm_up).report()
    assert dict(overview.facts(report, DEFAULT))["Measured"].startswith(words)
    light = msgspec.structs.replace(report.test_configuration, preset="light")
    report = msgspec.structs.replace(report, test_configuration=light)
    assert dict(overview.facts(report, DEFAULT))["Measured"].startswith(f"preset light, {words}")


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
    assert notice in overview.head(report, DEFAULT).summary
    assert notice in overview.ticket(report, DEFAULT).findings[0].lines
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


def test_overhead_is_a_median_by_workload(tmp_path: Path) -> None:
    """No median over a mixture of loading and training."""
    run = FakeRun(tmp_path, workloads=EVERYTHING[:3], batch_sizes=(8,))
    spent = result(run.cell(workload=Workload.LOAD)).ledger
    for workload, build_ms in ((Workload.LOAD, 0.0), (Workload.INFERENCE, 100.0), (Workload.TRAINING, 200.0)):
        cell = run.cell(workload=workload, batch_size=1 if workload is Workload.LOAD else 8)
        run.measured(cell, ledger=msgspec.structs.replace(spent, build_ms=build_ms))
    section = there(time.time(run.report()))
    assert rows(section.table("overhead"))["overhead"] == ["400.0", "500.0", "600.0"]
    assert [chart.table for chart in section.charts] == ["overhead"]


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


@pytest.mark.parametrize("several", [gpus(1), gpus(2), cpus(1)])
def test_devices_that_are_alike_have_their_facts_in_rows(tmp_path: Path, several: tuple[Device, ...]) -> None:
    """Of one device, or of several that differ in little: what is known of it, and not a table of its name alone."""
    run = FakeRun(tmp_path, devices=several, batch_sizes=(8,))
    run.everything()
    facts = devices(run.report()).tables[1]
    assert len(facts.columns) > 1
    assert all(any(row[1:]) for row in facts.rows)
    assert [part.title for part in described(run.report()).parts] == ["GPU Information:"]


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


def test_a_line_has_what_a_model_does_best(tmp_path: Path) -> None:
    """Forward time at batch 1, the highest rates with their batch, and tokens a second beside them."""
    run = FakeRun(tmp_path, models=shipped("gpt2", "lstm"), workloads=EVERYTHING, batch_sizes=(1, 8))
    run.everything(forward_ms=10.0)
    found = rows(at_a_glance(run.report().results))
    assert [found["gpt2"][0], found["gpt2"][1], found["gpt2"][4]] == ["fp32", "10.0 ms", "320.0"]
    assert [entry.split()[-1] for entry in found["gpt2"][2:4]] == ["@8", "@8"]
    assert found["lstm"][4] == ""


def test_columns_and_lines_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    """Nobody was trained and nobody writes: no columns. One model alone: no rows, its tables say it all."""
    run = FakeRun(tmp_path, models=shipped("vae", "lstm"), batch_sizes=(8,))
    run.everything()
    report = run.report()
    assert [column.title for column in at_a_glance(report.results).columns] == ["Model", "Prec.", "Inference/s @B"]
    assert at_a_glance(report.results[:1]).rows == ()


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
    assert found["resnet50@224"][-1].endswith("@8*")
    assert found["resnet50@512"][-1].endswith("@8")
    assert found["lstm"][-1] == "fail"
    assert {"fail: failed", "*: in doubt (below its table it is said why)."} <= set(table.words.split("; "))


def test_generation_has_its_rows(tmp_path: Path) -> None:
    """First token, later tokens and their percentiles, tokens a second; what did not arrive is a remark."""
    run = FakeRun(tmp_path, models=shipped("gpt2"), workloads=(Workload.GENERATION,), batch_sizes=(1,))
    (cell,) = run.stored.plan.cells
    run.measured(cell, forward_ms=10.0, noise=0.0, generated_tokens=400 * 32)
    table = tables(run.report())["Generation (batch_size=1, fp32, 64 tokens after 512)"]
    found = rows(table)
    expected = {"First Token": "50.0 ms", "Each Later Token": "2.38 ms", "Inter-Token p99": "2.38 ms"}
    expected |= {"Whole Text": "200.0 ms", "Tokens": "160.0 tok/s"}
    assert {name: found[name] for name in expected} == {name: [value] for name, value in expected.items()}
    assert any("12800 tokens arrived, 25600" in words for words in table.remarks)


def test_what_stands_for_a_size_is_said_below_its_table(tmp_path: Path) -> None:
    """A referred and a degraded column say so, in a status row and in a remark."""
    run = FakeRun(tmp_path, batch_sizes=(4, 8, 32))
    run.measured(run.cell(batch_size=4))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.failed(run.cell(batch_size=32), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=32), batch_size=16)
    (table,) = tables(run.report()).values()
    assert rows(table)["Status"] == ["ok", "referred", "degraded"]
    assert any(words.startswith("batch 32: measured at batch size 16") for words in table.remarks)


def test_rows_that_no_column_has_are_left_out_and_their_reason_is_said_once(tmp_path: Path) -> None:
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
    notes = ("short, this took 0.2 s; no driver", "short, this took 0.4 s", "no driver; no counter")
    told = [msgspec.structs.replace(metrics[0], telemetry_note=note) for note in notes]
    assert reasons(told) == "short; no driver; no counter"


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
    table = tables(run.report())["What it reaches without a model"]
    found = rows(table)
    assert found["Matrix product, bf16"] == ["400.0 TFLOP/s", "800.0 TFLOP/s"]
    assert found["Device memory, copy"] == found["Device memory, triad"] == ["4000.0 GB/s", ""]
    assert found["Device to host"] == ["failed", "N/A"]
    assert any(words.startswith("Device to host: crashed") for words in table.remarks)


def test_a_scan_has_a_row_for_each_size() -> None:
    """The best is marked, the one that does not fit says why; a scan without any is its title alone."""
    parts = there(batch_scans(scanned())).parts
    full = next(part for part in parts if part.tables[0].rows)
    found = rows(full.tables[0])
    assert list(found) == ["1", "2", "4", "5"]
    assert found["5"] == ["-", "-", "out of memory"]
    assert [size for size, row in found.items() if row[-1].endswith("best")] == ["2"]
    assert any(not part.tables[0].rows for part in parts)


# ── several devices ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_what_deviates_is_left_to_read(tmp_path: Path) -> None:
    """Within one percent is a dot, and a cell of dots alone is left out; the chart's table has the figures of all."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1, 8), models=shipped("resnet50"))
    for cell in run.stored.plan.cells:
        slow = place(run, cell) == 2 and cell.batch_size == 8
        run.measured(cell, forward_ms=12.5 if slow else 10.0, noise=0.0)
    section = spread(run.report())
    assert rows(section.table("differing")) == {"resnet50 infer fp32 b8": [".", ".", "80.0"]}
    assert [row[2:] for row in rows(section.table("percent")).values()] == [["100.0"] * 3, ["100.0", "100.0", "80.0"]]
    assert section.charts[0].table == "percent"


@pytest.mark.parametrize("workload", [Workload.LOAD, Workload.INFERENCE])
def test_the_longest_time_is_the_slowest(tmp_path: Path, workload: Workload) -> None:
    """Loading has times and the others rates; slowest, fastest and below 100 mean the same in both."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(1,), workloads=(workload,))
    for device, forward_ms in enumerate((8.0, 10.0, 12.5)):
        run.measured(run.cell(workload=workload, device=device), forward_ms=forward_ms, noise=0.0)
    section = spread(run.report())
    ((_, _, slowest, fastest),) = rows(section.table("spread")).values()
    assert (slowest, fastest) == ("GPU 2", "GPU 0")
    assert list(rows(section.table("differing")).values()) == [["125.0", ".", "80.0"]]


def test_a_device_without_a_value_has_a_word(tmp_path: Path) -> None:
    """Failed, not measured, and not comparable each have a short one, which the legend explains."""
    run = FakeRun(tmp_path, devices=gpus(5), batch_sizes=(8,))
    for device in (0, 1):
        run.measured(run.cell(batch_size=8, device=device))
    run.failed(run.cell(batch_size=8, device=2), Category.CRASHED)
    run.failed(run.cell(batch_size=8, device=3), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8, device=3), batch_size=4)
    table = spread(run.report()).table("differing")
    assert table is not None
    assert list(rows(table).values()) == [[".", ".", "fail", "n/c", "miss"]]
    assert table.words == "fail: failed; miss: not measured; n/c: not comparable"


def test_the_means_of_a_full_node_are_told_apart_from_medians(tmp_path: Path) -> None:
    """Its figures are of another kind than those of the tables beside it: each of its tables says so."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), launches=3, modes=(Mode.LOADED, Mode.SOLO))
    run.everything()
    run.finish()
    section = there(full_node(run.report()))
    assert [table.words.startswith(MEANS_OF_LAUNCHES) for table in section.tables] == [True, True]
    assert [len(table.rows) for table in section.tables] == [1, 2]


# ── what was compared, and what was not measured ──────────────────────────────────────────────────────────────────────


def test_a_score_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    """In place of the chart; a CPU is not sent to the baseline of a GPU."""
    for several, ships in ((gpus(1), True), (cpus(1), False)):
        run = FakeRun(tmp_path / several[0].kind, devices=several, batch_sizes=(8,))
        run.everything()
        (chart,) = baseline(run.report()).charts
        assert ("h200-141gb" in chart.empty, "--compare-baseline" in chart.empty) == (ships, True)


@pytest.mark.parametrize(("blocks", "known"), [(1, False), (20, True)])
def test_costs_say_why_energy_is_not_known(tmp_path: Path, blocks: int, known: bool) -> None:
    """Short cells have no energy: the reason stands once below the table; with energy, no reason."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.measured(run.cell(batch_size=8), blocks=blocks, iterations=40)
    run.samples()
    run.finish()
    (table,) = there(costs(references.hold(run.report(), Against(price_per_hour=2.5)))).tables
    assert (table.rows[0][3] != "N/A", "Energy is not known of each cell" in table.words) == (known, not known)


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
