"""All formats of the report say the same: cells, statuses, figures to the digits that each shows, verdict, failures.

JSON is the one that the others are held against. Reports are that of a real run on disk, and others made from it in
which every figure, status and message is another one.
"""

import csv
import io
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.analysis import reporting
from orchestrator.compare import references, run_figures
from orchestrator.compare.references import Against
from orchestrator.config.run_configuration import ReportFormat
from orchestrator.figures.launch_samples import Samples
from orchestrator.figures.report import Report
from orchestrator.figures.timeline import NOTHING_KEPT
from orchestrator.report import render
from orchestrator.report.as_json import to_json
from orchestrator.report.files import parts
from orchestrator.report.html import overview
from orchestrator.report.html.page import page
from orchestrator.report.html.page_types import Page, said
from orchestrator.report.markup import escaped
from orchestrator.report.numbers import number
from tests.fakes.reports import (
    MAIN,
    PHASES,
    burnt_in,
    changed,
    launches_of,
    measured,
    measured_run,
    scanned,
    scanned_run,
)
from tests.fakes.runs import FakeRun

FIGURES: Final = {
    "throughput_samples_per_sec": ("Throughput", "Throughput", "smp/s"),
    "forward_time_ms": ("Forward_ms", "Forward Time", "ms"),
    "backward_time_ms": ("Backward_ms", "Backward Time", "ms"),
    "optimize_step_time_ms": ("Optimizer_ms", "Optimize Step", "ms"),
    "total_iteration_time_ms": ("Iteration_ms", "Total Iteration", "ms"),
    "inference_latency_ms": ("Latency_ms", "Latency", "ms"),
    "time_to_first_token_ms": ("First_Token_ms", "First Token", "ms"),
    "time_per_output_token_ms": ("Per_Token_ms", "Each Later Token", "ms"),
    "tokens_per_second": ("Tokens_per_s", "Tokens", "tok/s"),
    "peak_memory_mb": ("Memory_MB", "Peak Memory", "MB"),
    "peak_memory_reserved_mb": ("Reserved_MB", "Peak Reserved", "MB"),
    "power_draw_w": ("Power_W", "Power Draw", "W"),
}
"""By the name in JSON: the column of the CSV, the row of the text's tables, the unit."""
OF_CELLS: Final = ("model_name", "gpu_uuid", "precision", "mode", "input_size")
"""What tells cells apart, beside phase and batch size."""
COLUMNS: Final = ("Model", "GPU_UUID", "Precision", "Mode", "Input_Size", "Requested_Batch", "Phase", "Status")
"""Of the CSV: the same, and what became of the cell."""
TIMES: Final = {
    "load": ("model_load_time_ms",),
    "inference": ("total_iteration_time_ms", "forward_time_ms"),
    "training": ("total_iteration_time_ms", "forward_time_ms"),
    "generation": ("generation_time_ms",),
    "probe": ("total_iteration_time_ms",),
}

MEANS: Final = {
    "load": {"iteration": "model_load_time_ms", "weights": "weights_time_ms"},
    "inference": {
        "iteration": "total_iteration_time_ms",
        "forward": "forward_time_ms",
        "latency": "inference_latency_ms",
    },
    "training": {
        "forward": "forward_time_ms",
        "backward": "backward_time_ms",
        "optimizer": "optimize_step_time_ms",
    },
    "generation": {"first_token": "time_to_first_token_ms", "inter_token": "inter_token_mean_ms"},
}
"""By phase: the figures in JSON that are the median over the launches of the mean of a series."""

Cells = dict[str, dict[str, Any]]


def cells(report: dict[str, Any]) -> Cells:
    """What JSON says of each cell that measures something, by its id."""
    found: Cells = {}
    for result in report["results"]:
        shared = {name: result[name] for name in ("model_title", "gpu_id", *OF_CELLS)}
        if result["load_metrics"]:
            found[result["load_metrics"]["cell"]] = {**shared, **result["load_metrics"], "phase": "load"}
        for name, phase in PHASES.items():
            for metric in result[name].values():
                found[metric["cell"]] = {**shared, **metric, "phase": phase}
    of_probes = {"phase": "probe", "input_size": None}
    return found | {one["cell"]: {**one, **of_probes, "model_name": one["name"]} for one in report["probes"]}


def agree(report: Report) -> None:
    """Every format against JSON."""
    told = json.loads(render(report, ReportFormat.JSON))
    known = cells(told)
    statuses = {entry["cell"]: entry["status"] for entry in told["cells"]}
    assert {cell: metric["status"] for cell, metric in known.items()} == statuses
    csv_agrees(render(report, ReportFormat.CSV).decode(), known)
    samples_agree(of_samples(report, launches_of(report)), known)
    pytorch_agrees(json.loads(render(report, ReportFormat.PYTORCH)), told, known)
    markdown_agrees(render(report, ReportFormat.MD).decode(), told, known)
    text_agrees(render(report, ReportFormat.TXT).decode(), told, known)
    html_agrees(page(report, NOTHING_KEPT), told, known)


def agree_on_cells(report: Report) -> None:
    """Every format with a row for each cell, burn-ins and scans among them, says the same of what became of it."""
    told = json.loads(render(report, ReportFormat.JSON))
    which = ("gpu_id", "model_name", "workload", "precision", "status")
    expected = Counter(tuple(str(entry[name]) for name in which) for entry in told["cells"])
    of_csv = ("GPU", "Model", "Phase", "Precision", "Status")
    rows = list(csv.DictReader(io.StringIO(render(report, ReportFormat.CSV).decode())))
    curves = {name: [row for row in rows if row["Scan"] == name] for name in ("N/A", "fits", "best", "does not fit")}
    assert Counter(tuple(row[name] for name in of_csv) for row in (*curves["N/A"], *curves["best"])) == expected
    samples = of_samples(report, launches_of(report))
    assert Counter({row["Cell"]: tuple(row[name] for name in of_csv) for row in samples}.values()) == expected
    table = page(report, NOTHING_KEPT).cells.table
    columns = [column.title for column in table.columns]
    on_page = [dict(zip(columns, map(said, row), strict=True)) for row in table.rows]
    shown = [{**row, "GPU": row["GPU"][4:], "Status": row["Status"].replace(" ", "_")} for row in on_page]
    assert Counter(tuple(row[name] for name in of_csv) for row in shown) == expected
    scans_agree([*curves["fits"], *curves["best"], *curves["does not fit"]], told["batch_scans"])


def scans_agree(rows: list[dict[str, str]], scans: list[dict[str, Any]]) -> None:
    """Every size that was tried stands in the CSV; the best one with the figures of its cell."""
    columns = ("GPU_UUID", "Model", "Phase", "Requested_Batch")
    shown = {tuple(row[name] for name in columns): row for row in rows}
    points = {
        (scan["gpu_uuid"], scan["model_name"], scan["workload"], str(point["batch_size"])): (point, scan)
        for scan in scans
        for point in scan["points"]
    }
    assert len(shown) == len(rows)
    assert shown.keys() == points.keys()
    for key, (point, scan) in points.items():
        row, value = shown[key], point["throughput_samples_per_sec"]
        assert (row["Scan"] == "best") == (point["batch_size"] == scan["best_batch_size"])
        assert (row["Scan"] == "does not fit") == (not point["works"])
        if row["Scan"] == "fits":
            assert row["Throughput"] == ("N/A" if value is None else str(float(f"{value:.6g}")))


def csv_agrees(text: str, known: Cells) -> None:
    """A row for each cell, figures to six digits."""
    columns = {**{name: column for name, (column, _, _) in FIGURES.items()}, "model_load_time_ms": "Load_ms"}

    def shown(metric: dict[str, Any], name: str) -> str:
        if name == "peak_memory_mb" and metric["phase"] == "load":
            name = "memory_allocated_mb"
        value = metric.get(name)
        return "N/A" if value is None else str(float(f"{value:.6g}"))

    def of_csv(row: dict[str, str]) -> tuple[str, ...]:
        figures = (row[column] for column in columns.values())
        return (*(row[name] for name in COLUMNS), *(one if one == "N/A" else str(float(one)) for one in figures))

    def of_json(metric: dict[str, Any]) -> tuple[str, ...]:
        batch = None if metric["phase"] in ("load", "probe") else metric["batch_size_requested"]
        which = [*(metric[name] for name in OF_CELLS), batch, metric["phase"], metric["status"]]
        return (*("N/A" if one is None else str(one) for one in which), *(shown(metric, name) for name in columns))

    expected = [of_json(one) for one in known.values()]
    assert Counter(map(of_csv, csv.DictReader(io.StringIO(text)))) == Counter(expected)


def of_samples(report: Report, samples: Samples) -> list[dict[str, str]]:
    """The rows of the long form."""
    text = b"".join(parts(report, ReportFormat.SAMPLES, samples=samples)).decode()
    return list(csv.DictReader(io.StringIO(text)))


def by_cell(rows: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """The rows of each cell."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault(row["Cell"], []).append(row)
    return found


def samples_agree(rows: list[dict[str, str]], known: Cells) -> None:
    """The figures of the launches of each cell, whose median is its own; a row without a sample for the others."""
    found = by_cell(rows)
    assert found.keys() == known.keys()
    for cell, its in found.items():
        metric = known[cell]
        assert {row["Status"] for row in its} == {metric["status"]}
        figures = [row for row in its if row["Counts"] == "True" and row["Series"] in MAIN[metric["phase"]]]
        values = [float(row["Value"]) for row in figures]
        assert values == metric["launch_values"]
        assert (its[0]["Launch"] == its[0]["Value"] == "N/A") == (not values)
        if values:
            assert_equal(statistics.median(values), metric[figures[0]["Series"]])


def each_sample_agrees(rows: list[dict[str, str]], known: Cells) -> int:
    """What JSON says of the samples of each cell is what they are: number, median, extremes, outliers, means."""
    seen = 0
    for cell, its in by_cell(rows).items():
        metric = known[cell]
        counted = [row for row in its if row["Counts"] == "True"]
        for series, name in (("iteration", "iteration_time"), ("forward", "forward_time")):
            times = [float(row["Value"]) for row in counted if row["Series"] == series]
            told = metric["statistics"] or {}
            assert (statistics.median(times) if times else None) == told.get(f"{name}_p50_ms")
            assert (min(times, default=None), max(times, default=None)) == (
                *(told.get(f"{name}_min_ms"), told.get(f"{name}_max_ms")),
            )
            seen += len(times)
        outliers = [row["Outlier"] for row in counted if row["Series"] == "iteration"]
        if outliers:
            assert (outliers.count("True"), len(outliers)) == (told["outliers"], told["values"])
        for series, name in MEANS.get(metric["phase"], {}).items():
            launches: dict[str, list[float]] = {}
            for row in counted:
                if row["Series"] == series:
                    launches.setdefault(row["Launch"], []).append(float(row["Value"]))
            assert len(launches) == (metric["launches"] if metric[name] is not None else 0)
            if launches:
                assert_equal(statistics.median(map(statistics.fmean, launches.values())), metric[name])
    return seen


def pytorch_agrees(records: list[dict[str, Any]], told: dict[str, Any], known: Cells) -> None:
    """Each figure that is known has its record, each cell the record whether it has any, and all have the verdict."""
    found: Cells = {cell: {} for cell in known}
    for record in records:
        found[record["model"]["extra_info"]["cell"]][record["metric"]["name"]] = record["metric"]
        assert record["metric"]["extra_info"]["status"] == known[record["model"]["extra_info"]["cell"]]["status"]
        assert record["benchmark"]["extra_info"]["verdict"] == told["verdict"]["word"]
        assert record["benchmark"]["extra_info"]["failures"] == str(len(told["failures"]))
    for cell, metrics in found.items():
        for name in (*FIGURES, "model_load_time_ms", "generation_time_ms"):
            if (value := known[cell].get(name)) is None:
                assert name not in metrics
            else:
                assert_equal(statistics.median(metrics[name]["benchmark_values"]), value)
        assert metrics["measured"]["benchmark_values"] == [float(len(metrics) > 1)]


def markdown_agrees(text: str, told: dict[str, Any], known: Cells) -> None:
    """A row for each cell in the order of the plan, figures as the text report rounds them."""
    assert text.startswith(f"## gpubench: {told['verdict']['word']} (exit code {told['verdict']['exit_code']})\n")
    rows = [
        [one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    begin = next(place for place, row in enumerate(rows) if row[0] == "Cell" and "Rate" in row)
    shown = [dict(zip(rows[begin], row, strict=True)) for row in rows[begin + 2 :][: len(told["cells"])]]
    units = {"tokens_per_second": "tok/s", "sustained_tflops": "TFLOP/s"}
    for row, entry in zip(shown, told["cells"], strict=True):
        metric = known[entry["cell"]]
        assert row["Status"].split(":")[0] == metric["status"].replace("_", " ")
        phase = metric["phase"]
        name = next((name for name in MAIN[phase] if metric[name] is not None), MAIN[phase][0])
        unit = units.get(name, "smp/s" if name == "throughput_samples_per_sec" else "GB/s")
        assert row["Rate"] == ("N/A" if phase == "load" else with_unit(metric[name], unit))
        time_ms = next((metric[time] for time in TIMES[phase] if metric[time] is not None), None)
        assert row["Time"] == with_unit(time_ms, "ms")
        assert row["Memory"] == with_unit(metric["memory_allocated_mb" if phase == "load" else "peak_memory_mb"], "MB")
        if phase in ("load", "probe"):
            assert row["Batch"] == "N/A"
    failures = re.search(r"^Launches without a result: (\d+)\.$", text, re.MULTILINE)
    assert (int(failures[1]) if failures else 0) == len(told["failures"])
    if failures:
        assert len([line for line in text[failures.end() :].splitlines() if line[:1] == "|"]) - 2 == int(failures[1])


def text_agrees(text: str, told: dict[str, Any], known: Cells) -> None:
    """The tables of each model have the figures of one of identical GPUs; failures are numbered."""
    assert f"Verdict: {told['verdict']['word'].upper()}\n" in text
    numbered = len(re.findall(r"^  \d+\. GPU", text, re.MULTILINE))
    more = re.search(r"^  \.\.\. and (\d+) more in the JSON report$", text, re.MULTILINE)
    assert numbered + (int(more[1]) if more else 0) == len(told["failures"])
    tables = of_tables(text, {metric["model_title"] for metric in known.values() if "model_title" in metric})
    counted = Counter(entry["gpu_uuid"] for entry in told["cells"] if entry["launches"])
    shown = max((gpu["gpu_uuid"] for gpu in told["gpu_info"]), key=lambda uuid: counted[uuid])
    for metric in known.values():
        if metric["phase"] in ("load", "probe") or metric["gpu_uuid"] != shown:
            continue
        rows = tables[metric["model_title"], metric["phase"], metric["batch_size_requested"]]
        for name, (_, label, unit) in FIGURES.items():
            if name != "total_iteration_time_ms" or metric["phase"] == "training":  # else it is the forward pass
                assert rows.get(label, "N/A") == with_unit(metric.get(name), unit)
        assert rows.get("Status", "ok") == metric["status"].replace("_", " ")


def html_agrees(made: Page, told: dict[str, Any], known: Cells) -> None:
    """The table of the page has each cell once, its figures as the text report rounds them."""
    assert (made.verdict.text, made.reasons) == (told["verdict"]["word"].upper(), tuple(told["verdict"]["reasons"]))
    columns = [column.title for column in made.cells.table.columns]
    rows = [dict(zip(columns, map(said, row), strict=True)) for row in made.cells.table.rows]
    which = ("GPU", "Model", "Phase", "Precision", "Mode", "Input", "Batch")
    shown = {tuple(row[name] for name in which): row for row in rows}
    assert len(shown) == len(rows) == len(known)
    for metric in known.values():
        phase = metric["phase"]
        batch = "" if phase in ("load", "probe") else str(metric["batch_size_requested"])
        size = "" if metric["input_size"] is None else str(metric["input_size"])
        key = (metric["model_name"], phase, metric["precision"], metric["mode"], size, batch)
        row = shown[f"GPU {metric['gpu_id']}", *key]
        assert row["Status"] == metric["status"].replace("_", " ")
        name = next((name for name in MAIN[phase] if metric[name] is not None), MAIN[phase][0])
        time_ms = next((metric[time] for time in TIMES[phase] if metric[time] is not None), None)
        memory = metric["memory_allocated_mb" if phase == "load" else "peak_memory_mb"]
        figures = {"Figure": metric[name], "Time ms": time_ms, "Memory MB": memory, "Power W": metric["power_draw_w"]}
        assert {column: row[column] for column in figures} == {at: number(one) for at, one in figures.items()}
        assert row["Attempts"] == str(len(metric["attempts"]))


def of_tables(text: str, titles: set[str]) -> dict[tuple[str, str, int], dict[str, str]]:
    """The tables of the text: model, phase and batch size → row → what stands in it."""
    found: dict[tuple[str, str, int], dict[str, str]] = {}
    title, phase, batches = "", "", [0]
    for line in text.splitlines():
        title = next((one for one in titles if line.startswith(f"{one} (")), title)
        if heading := re.match(r"  (Inference|Training|Generation) \((?:batch_size=(\d+))?", line):
            phase, batches = heading[1].lower(), [int(heading[2] or 0)]
        if line.startswith("    |"):
            name, *columns = [one.strip() for one in line.strip()[1:-1].split("|")]
            if name == "Metric":
                batches = [int(one.removeprefix("batch ")) for one in columns] if columns != ["Value"] else batches
            for batch, value in zip(batches, columns, strict=True):
                found.setdefault((title, phase, batch), {})[name] = value
    return found


def with_unit(value: float | None, unit: str) -> str:
    """As the formats for people have it."""
    return "N/A" if value is None else f"{number(value)} {unit}"


def assert_equal(one: float, other: float) -> None:
    """Equal but for how medians of floats are rounded."""
    assert abs(one - other) <= 1e-9 * abs(other)


def test_all_formats_say_the_same() -> None:
    """Of a run with failed cells, two models that do everything, and probes."""
    made = measured()
    assert len(cells(json.loads(to_json(made)))) == len(made.cells) > 10
    assert made.failures
    agree(made)


def test_all_formats_say_how_many_cells_a_score_leaves_out_and_why() -> None:
    """A score over few cells would look like one over all."""
    report = measured()
    old = run_figures.of_report(report, "old")
    hot = tuple(replace(one, throttled=one.key.phase == "load") for one in old.cells)
    held = references.hold(report, Against(baseline=replace(old, run_id="another", cells=hot)))
    known = json.loads(to_json(held))["baseline_comparison"]
    assert known["overall_score"] is not None
    assert len(known["not_comparable"]) > 1
    text = " ".join(render(held, ReportFormat.TXT).decode().split())
    markdown = render(held, ReportFormat.MD).decode().splitlines()
    of_page = overview.score(held).table
    for why, count in known["not_comparable"].items():
        words = f"{count} cell{'s' if count > 1 else ''} left out: {why}"
        assert f"- {words}" in text
        assert f"- {escaped(words)}" in markdown
        assert of_page is not None
        assert words in of_page.note.split("; ")


@pytest.mark.parametrize("make", [measured_run, scanned_run])
def test_every_sample_makes_up_what_the_report_says(tmp_path: Path, make: Callable[[Path], FakeRun]) -> None:
    """Medians, extremes and outliers of the samples are those in JSON, and so is what cells are compared by."""
    made = reporting.make_all(make(tmp_path / "run").paths)
    known = cells(json.loads(to_json(made.report)))
    rows = [row for row in of_samples(made.report, made.samples) if row["Cell"] in known]
    assert each_sample_agrees(rows, known) > 1_000
    for cell, its in by_cell(rows).items():
        figures = [row for row in its if row["Series"] in MAIN[known[cell]["phase"]] and row["Counts"] == "True"]
        assert [float(row["Value"]) for row in figures if row["Sample"] == "N/A"] == known[cell]["launch_values"]


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_all_formats_say_the_same_whatever_was_measured(seed: int) -> None:
    """Other figures of every size, others not known, other statuses, messages with markup, many failures or none."""
    agree(changed(measured(), seed))


@pytest.mark.parametrize("made", [measured, scanned, burnt_in])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_every_kind_of_run_has_all_its_cells_in_every_format(made: Callable[[], Report], seed: int) -> None:
    """Checks of a burn-in too, which measure nothing, and scans with their curves, also one that found nothing."""
    agree_on_cells(made())
    agree_on_cells(changed(made(), seed))
