"""All formats of the report say the same: cells, statuses, figures to the digits that each shows, verdict, failures.

JSON is the one that the others are held against. Reports are that of a real run on disk, and others made from it in
which every figure, status and message is another one.
"""

import csv
import functools
import io
import json
import random
import re
import statistics
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.configuration.resolved import ReportFormat
from orchestrator.disk.outcomes import Status
from orchestrator.report import render
from orchestrator.report.as_json import to_json
from orchestrator.report.model import Report
from orchestrator.report.numbers import number
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.runs import FakeRun, shipped

EVERY: Final = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
PHASES: Final = {"inference_metrics": "Inference", "training_metrics": "Training", "generation_metrics": "Generation"}
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
MAIN: Final = {
    "load": ("model_load_time_ms",),
    "inference": ("throughput_samples_per_sec",),
    "training": ("throughput_samples_per_sec",),
    "generation": ("tokens_per_second",),
    "probe": ("sustained_tflops", "copy_gb_per_sec", "transfer_gb_per_sec"),
}
TIMES: Final = {
    "load": ("model_load_time_ms",),
    "inference": ("total_iteration_time_ms", "forward_time_ms"),
    "training": ("total_iteration_time_ms", "forward_time_ms"),
    "generation": ("generation_time_ms",),
    "probe": ("total_iteration_time_ms",),
}

Cells = dict[str, dict[str, Any]]


@functools.cache
def realistic() -> Report:
    """Of a run on disk: two models that do everything, a probe, every seventh cell failed; two launches of the rest."""
    with tempfile.TemporaryDirectory() as folder:
        run = FakeRun(
            Path(folder) / "run",
            models=shipped("gpt2", "resnet50"),
            probes=shipped("hbm", "gemm"),
            workloads=EVERY,
            batch_sizes=(1, 8),
            launches=2,
        )
        for place, cell in enumerate(run.stored.plan.cells):
            if place % 7 == 3:
                run.failed(cell, Category.CRASHED, message="killed by SIGSEGV")
                continue
            for launch in range(2):
                moved = {"copy": 10**9, "triad": 10**9, "iteration": 2 * 10**9} if cell.model == "hbm" else {}
                run.measured(cell, number=launch, forward_ms=10 + place + launch / 10, bytes_per_iteration=moved)
        run.samples()
        run.finish()
        return run.report()


def cells(report: dict[str, Any]) -> Cells:
    """What JSON says of each cell that measures something, by its id."""
    found: Cells = {}
    for result in report["results"]:
        shared = {"title": result["model_title"]}
        if result["load_metrics"]:
            found[result["load_metrics"]["cell"]] = {**shared, **result["load_metrics"], "phase": "load"}
        for name, title in PHASES.items():
            for metric in result[name].values():
                found[metric["cell"]] = {**shared, **metric, "phase": title.lower()}
    return found | {probe["cell"]: {**probe, "phase": "probe"} for probe in report["probes"]}


def changed(seed: int) -> Report:
    """The realistic report with other figures, statuses and messages; some figures are not known."""
    chance = random.Random(seed)
    made = json.loads(to_json(realistic()))
    by_id = {entry["cell"]: entry for entry in made["cells"]}
    metrics = [result["load_metrics"] for result in made["results"] if result["load_metrics"]]
    metrics += [metric for result in made["results"] for name in PHASES for metric in result[name].values()]
    for metric in (*metrics, *made["probes"]):
        metric |= {
            name: chance.choice([None, 10 ** chance.uniform(-4, 5)])
            for name, value in metric.items()
            if isinstance(value, float) and name != "relative_half_width"
        }
        workload = by_id[metric["cell"]]["workload"]
        main = next((name for name in MAIN[workload] if metric[name] is not None), MAIN[workload][0])
        value = metric[main]
        metric["launch_values"] = [] if value is None else [value * factor for factor in (0.9, 1.0, 1.2)]
        metric["reason"] = by_id[metric["cell"]]["reason"] = chance.choice(["", "a | b `c` <d>\n=e", "\x1b[31mx"])
        metric["status"] = by_id[metric["cell"]]["status"] = chance.choice([str(one) for one in Status])
    kept = chance.sample(made["failures"], chance.randrange(len(made["failures"]) + 1))
    made["failures"] = kept * chance.choice([1, 30])
    made["verdict"]["word"] = chance.choice(["complete", "incomplete", "a hardware verdict FAIL"])
    return msgspec.convert(made, Report)


def agree(report: Report) -> None:
    """Every format against JSON."""
    told = json.loads(render(report, ReportFormat.JSON))
    known = cells(told)
    statuses = {entry["cell"]: entry["status"] for entry in told["cells"]}
    assert {cell: metric["status"] for cell, metric in known.items()} == statuses
    csv_agrees(render(report, ReportFormat.CSV).decode(), known)
    samples_agree(render(report, ReportFormat.SAMPLES).decode(), known)
    pytorch_agrees(json.loads(render(report, ReportFormat.PYTORCH)), told, known)
    markdown_agrees(render(report, ReportFormat.MD).decode(), told, known)
    text_agrees(render(report, ReportFormat.TXT).decode(), told, known)


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
        return (row["Phase"], row["Status"], *(one if one == "N/A" else str(float(one)) for one in figures))

    expected = [(one["phase"], one["status"], *(shown(one, name) for name in columns)) for one in known.values()]
    assert Counter(map(of_csv, csv.DictReader(io.StringIO(text)))) == Counter(expected)


def samples_agree(text: str, known: Cells) -> None:
    """The launches of each cell, whose median is its figure; a row without a sample for the others."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        found.setdefault(row["Cell"], []).append(row)
    assert found.keys() == known.keys()
    for cell, rows in found.items():
        assert {row["Status"] for row in rows} == {known[cell]["status"]}
        values = [float(row["Value"]) for row in rows if row["Value"] != "N/A"]
        assert values == known[cell]["launch_values"]
        if values:
            assert_equal(statistics.median(values), known[cell][rows[0]["Metric"]])


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
        assert row["Peak memory"] == with_unit(metric["peak_memory_mb"], "MB")
    failures = re.search(r"^Launches without a result: (\d+)\.$", text, re.MULTILINE)
    assert (int(failures[1]) if failures else 0) == len(told["failures"])
    if failures:
        assert len([line for line in text[failures.end() :].splitlines() if line[:1] == "|"]) - 2 == int(failures[1])


def text_agrees(text: str, told: dict[str, Any], known: Cells) -> None:
    """The tables of each model have the figures; the verdict stands at the end, failures are numbered."""
    assert f"Verdict: {told['verdict']['word'].upper()}\n" in text
    numbered = len(re.findall(r"^  \d+\. GPU", text, re.MULTILINE))
    more = re.search(r"^  \.\.\. and (\d+) more in the JSON report$", text, re.MULTILINE)
    assert numbered + (int(more[1]) if more else 0) == len(told["failures"])
    tables = of_tables(text, {metric["title"] for metric in known.values() if "title" in metric})
    for metric in known.values():
        if metric["phase"] in ("load", "probe"):
            continue
        rows = tables[metric["title"], metric["phase"], metric["batch_size_requested"]]
        for name, (_, label, unit) in FIGURES.items():
            if name != "total_iteration_time_ms" or metric["phase"] == "training":  # else it is the forward pass
                assert rows.get(label, "N/A") == with_unit(metric.get(name), unit)
        assert rows.get("Status", "ok") == metric["status"].replace("_", " ")


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
    made = realistic()
    assert len(cells(json.loads(to_json(made)))) == len(made.cells) > 10
    assert made.failures
    agree(made)


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_all_formats_say_the_same_whatever_was_measured(seed: int) -> None:
    """Other figures of every size, others not known, other statuses, messages with markup, many failures or none."""
    agree(changed(seed))
