"""The report as JSON, its schema, and its files."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from orchestrator import report
from orchestrator.config import catalogue
from orchestrator.config.report_formats import ReportFormat
from orchestrator.errors import StorageError
from orchestrator.figures.report import Report
from orchestrator.report.as_json import schema, to_json
from orchestrator.report.files import keep_old
from orchestrator.run_reports import reporting
from protocol.cell import Workload
from protocol.failure import Category
from tests.fakes.runs import FakeRun, cpus, gpus

SCHEMA = catalogue.configs_folder() / "report.schema.json"

# The names of section 6.1 of the requirements document. gpu_info is a list here, because there are many GPUs.
METADATA = "tool_version pytorch_version cuda_version test_date hostname test_duration_seconds"
GPU_INFO = "gpu_id gpu_name gpu_memory_total_mb driver_version cuda_compute_capability gpu_architecture"
CONFIGURATION = "precision warmup_iterations test_iterations batch_sizes monitor_gpu_enabled"
RESULT = "model_name model_type parameters_count load_metrics inference_metrics training_metrics statistics"
TRAINING = (
    "forward_time_ms backward_time_ms optimize_step_time_ms total_iteration_time_ms throughput_samples_per_sec "
    "peak_memory_mb gpu_utilization_percent power_draw_w"
)
STATISTICS = "mean std min max p50 p95 p99"
SUMMARY = (
    "overall_score rank_among_tested best_model_throughput peak_memory_usage_mb average_gpu_utilization "
    "average_power_draw_w"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[FakeRun]:
    """Complete, mixed and empty runs, on GPUs and CPU devices."""
    folder = tmp_path_factory.mktemp("runs")
    every = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)
    complete = FakeRun(folder / "complete", devices=gpus(2), workloads=every)
    complete.everything()
    complete.samples()
    complete.finish()
    mixed = FakeRun(folder / "mixed", devices=gpus(8), batch_sizes=(4, 8, 32))
    mixed.failed(mixed.cell(batch_size=32), Category.OUT_OF_MEMORY, evidence={"free": "1 GiB"}, code=2)
    mixed.measured(mixed.cell(batch_size=32), batch_size=16)
    mixed.failed(mixed.cell(batch_size=8), Category.OUT_OF_MEMORY)
    mixed.measured(mixed.cell(batch_size=4))
    mixed.interrupted(mixed.cell(batch_size=4, device=3))
    mixed.finish(interrupted=True)
    on_cpu = FakeRun(folder / "cpu", devices=cpus(2), workloads=every)
    on_cpu.everything()
    return [complete, mixed, on_cpu, FakeRun(folder / "empty")]


def test_every_report_matches_the_shipped_schema(runs: list[FakeRun]) -> None:
    """And is read back unchanged."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    for run in runs:
        made = run.report()
        validator.validate(json.loads(to_json(made)))
        assert msgspec.json.decode(to_json(made), type=Report) == made


def test_the_shipped_schema_matches_the_types() -> None:
    """Write orchestrator.report.as_json.schema() to configs/report.schema.json after changing a type."""
    assert SCHEMA.read_bytes() == schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(schema()))
    assert "1024 x 1024 bytes" in json.loads(schema())["$defs"]["Report"]["description"]


def test_the_schema_refuses_other_documents(runs: list[FakeRun]) -> None:
    """An unknown key, a missing key, and a wrong key of a batch."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    good = json.loads(to_json(runs[0].report()))
    for damage in (
        {**good, "surprise": 1},
        {key: value for key, value in good.items() if key != "summary"},
        {**good, "results": [{**good["results"][0], "inference_metrics": {"batch_1": {}}}]},
    ):
        assert not validator.is_valid(damage)


def test_the_names_of_the_requirements_are_kept(runs: list[FakeRun]) -> None:
    """Section 6.1: every field with its name and unit."""
    made = json.loads(to_json(runs[0].report()))
    result = made["results"][0]
    assert set(METADATA.split()) <= made["metadata"].keys()
    assert set(GPU_INFO.split()) <= made["gpu_info"][0].keys()
    assert set(CONFIGURATION.split()) <= made["test_configuration"].keys()
    assert set(RESULT.split()) <= result.keys()
    assert {"model_load_time_ms", "memory_allocated_mb"} <= result["load_metrics"].keys()
    assert set(TRAINING.split()) <= result["training_metrics"]["batch_size_8"].keys()
    assert {f"forward_time_{point}_ms" for point in STATISTICS.split()} <= result["statistics"].keys()
    assert set(SUMMARY.split()) <= made["summary"].keys()
    assert {"model", "batch_size", "throughput"} <= made["summary"]["best_model_throughput"].keys()
    assert "baseline_comparison" in made
    assert {"schema_version", "cross_gpu", "health", "failures", "verdict"} <= made.keys()


def test_formats_are_written_into_the_run(runs: list[FakeRun]) -> None:
    """Rendering again replaces the files and leaves nothing else."""
    run = runs[0]
    for _ in range(2):
        made = reporting.make_all(run.paths)
        report.write(made.report, run.paths, ReportFormat, samples=made.samples)
    names = sorted(path.name for path in run.paths.folder.iterdir() if "report" in path.name)
    assert names == sorted(f"report.{kind}" for kind in ReportFormat)


def test_an_existing_report_is_kept(runs: list[FakeRun], tmp_path: Path) -> None:
    """Under the next free number, in every requested format."""
    made = runs[3].report()
    target = tmp_path / "new folder" / "out" / "report.json"
    for _ in range(3):
        written = report.publish(made, target, (ReportFormat.JSON, ReportFormat.TXT))
        target.write_text(f"{len(list(target.parent.iterdir()))}")
    assert [path.name for path in written] == ["report.json", "report.txt"]
    names = sorted(path.name for path in target.parent.iterdir())
    assert names == [
        *("report.1.json", "report.1.txt", "report.2.json", "report.2.txt"),
        *("report.json", "report.txt"),
    ]
    assert (target.parent / "report.1.json").read_text() == "2"


def test_an_old_file_is_never_written_over(tmp_path: Path) -> None:
    """Taken numbers are skipped."""
    (tmp_path / "report.json").write_text("new")
    (tmp_path / "report.1.json").write_text("old")
    assert keep_old(tmp_path / "report.json") == tmp_path / "report.2.json"
    assert (tmp_path / "report.1.json").read_text() == "old"
    assert keep_old(tmp_path / "report.json") is None


def test_a_report_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    """With the path, if a file stands in place of a folder."""
    (tmp_path / "out").write_text("a file")
    made = FakeRun(tmp_path / "run").report()
    with pytest.raises(StorageError, match=r"out/report\.json"):
        report.publish(made, tmp_path / "out" / "report.json", (ReportFormat.JSON,))
