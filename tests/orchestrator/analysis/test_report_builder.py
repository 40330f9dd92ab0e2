"""One merged report out of a run, whatever came of its cells."""

from pathlib import Path

import pytest

from orchestrator.analysis.outcomes import Status
from orchestrator.config.run_configuration import Isolation
from orchestrator.figures.cells import ModelResult, PhaseMetrics
from orchestrator.figures.report import Report
from protocol.cell import Precision, Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Phase
from protocol.result import SteadyState
from tests.fakes.results import MIB
from tests.fakes.runs import SECOND_NS, FakeRun, cpus, gpus, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)


def only(report: Report) -> ModelResult:
    """The one result of a report."""
    (result,) = report.results
    return result


def test_a_complete_run_names_every_figure(tmp_path: Path) -> None:
    """Load, inference and training of one model on one GPU, with the names of the requirements document."""
    run = FakeRun(tmp_path, workloads=EVERYTHING, batch_sizes=(1, 8))
    run.everything(forward_ms=10.0)
    run.finish()
    report = run.report()
    result = only(report)
    assert (result.model_name, result.model_type, result.parameters_count) == ("resnet50", "cnn", 25_557_032)
    assert result.load_metrics is not None
    assert result.load_metrics.model_load_time_ms == pytest.approx(80.0, rel=0.01)
    assert set(result.inference_metrics) == set(result.training_metrics) == {"batch_size_1", "batch_size_8"}
    training = result.training_metrics["batch_size_8"]
    assert training.forward_time_ms == pytest.approx(10.0, rel=0.01)
    assert training.backward_time_ms == pytest.approx(20.0, rel=0.01)
    assert training.optimize_step_time_ms == pytest.approx(2.5, rel=0.01)
    assert training.total_iteration_time_ms == pytest.approx(32.5, rel=0.01)
    assert training.throughput_samples_per_sec == pytest.approx(8 / 0.0325, rel=0.01)
    assert training.peak_memory_mb == 900.0
    assert training.sample_unit == "images"
    assert result.inference_metrics["batch_size_8"].backward_time_ms is None
    assert result.statistics_of == "inference batch_size_8"
    assert result.statistics is not None
    assert result.statistics.forward_time_p99_ms is not None
    assert report.summary.best_model_throughput is not None
    assert report.summary.best_model_throughput.batch_size == 8
    assert report.verdict.exit_code == ExitCode.PASSED
    assert report.metadata.pytorch_version == "2.15.0"
    assert report.metadata.test_date == "2024-01-15T10:30:00Z"
    assert report.summary.overall_score is None
    assert report.baseline_comparison is None


def test_every_gpu_model_and_precision_has_its_entry(tmp_path: Path) -> None:
    """Eight GPUs, two models, two precisions: 32 entries, each with its GPU, and nothing planned is left out."""
    run = FakeRun(
        tmp_path,
        devices=gpus(8),
        models=shipped("resnet50", "lstm"),
        precisions=(Precision.FP32, Precision.BF16),
        batch_sizes=(1,),
    )
    run.everything()
    run.finish()
    report = run.report()
    assert len(report.results) == 32
    assert len({(result.gpu_uuid, result.model_name, result.precision) for result in report.results}) == 32
    assert [device.serial for device in report.gpu_info] == [f"165{number:010d}" for number in range(8)]
    assert [entry.cell for entry in report.cells] == [cell.id for cell in run.stored.plan.cells]


def test_several_launches_are_one_figure(tmp_path: Path) -> None:
    """Medians over launches of launch means; the pooled statistics say of how many launches they are."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=3)
    for number, forward_ms in enumerate((10.0, 10.2, 14.0)):
        run.measured(run.cell(batch_size=8), number=number, forward_ms=forward_ms)
    run.finish()
    metric = only(run.report()).inference_metrics["batch_size_8"]
    assert (metric.launches, metric.launches_planned) == (3, 3)
    assert metric.forward_time_ms == pytest.approx(10.2, rel=0.005)
    assert metric.throughput_samples_per_sec == pytest.approx(8 / 0.0102, rel=0.005)
    assert metric.iterations == 1200
    assert metric.statistics is not None
    assert (metric.statistics.pooled_launches, metric.statistics.values) == (3, 1200)
    assert metric.launch_spread_percent == pytest.approx(29, abs=1)


def test_every_state_of_a_cell_is_told(tmp_path: Path) -> None:
    """Ok, referred, degraded, does not fit, failed and missing, each with its attempts and in words; exit code 4."""
    run = FakeRun(tmp_path, workloads=(Workload.INFERENCE, Workload.TRAINING), batch_sizes=(1, 8, 32), launches=1)
    inference = {size: run.cell(batch_size=size) for size in (1, 8, 32)}
    training = {size: run.cell(workload=Workload.TRAINING, batch_size=size) for size in (1, 8, 32)}
    run.failed(inference[32], Category.OUT_OF_MEMORY, message="CUDA out of memory", evidence={"free": "12 MiB"})
    run.measured(inference[32], batch_size=16)
    run.failed(inference[8], Category.CRASHED, message="killed by SIGSEGV", signal=11, phase=Phase.MEASURE)
    run.failed(inference[8], Category.CRASHED, message="killed by SIGSEGV", signal=11, phase=Phase.MEASURE)
    run.failed(training[1], Category.OUT_OF_MEMORY)
    run.finish(interrupted=True, reason="SIGINT")
    report = run.report()
    metrics = only(report).inference_metrics
    big = metrics["batch_size_32"]
    assert (big.status, big.degraded, big.batch_size_requested, big.batch_size) == (Status.DEGRADED, True, 32, 16)
    assert [(attempt.batch_size, attempt.outcome) for attempt in big.attempts] == [(32, "failure"), (16, "result")]
    assert big.attempts[0].evidence == {"free": "12 MiB"}
    assert big.throughput_samples_per_sec == pytest.approx(1600, rel=0.01)
    crashed = metrics["batch_size_8"]
    assert (crashed.status, crashed.throughput_samples_per_sec) == (Status.FAILED, None)
    assert crashed.attempts[1].failure_signal == 11
    assert [one.folder for one in crashed.attempts] == [f"launches/{inference[8].id}/{tried}" for tried in (1, 2)]
    assert metrics["batch_size_1"].status is Status.MISSING
    assert {metric.status for metric in only(report).training_metrics.values()} == {Status.DOES_NOT_FIT}
    cells = report.summary.cells
    assert (cells.planned, cells.degraded, cells.failed, cells.missing, cells.does_not_fit) == (6, 1, 1, 1, 3)
    assert report.verdict.exit_code == ExitCode.INCOMPLETE
    assert report.verdict.word == "incomplete"
    assert any("SIGINT" in reason for reason in report.verdict.reasons)
    assert [failure.category for failure in report.failures] == [
        "out of memory",
        "crashed",
        "crashed",
        "out of memory",
    ]
    assert report.failures[0].status is Status.DEGRADED


def test_a_referred_size_names_what_stands_for_it(tmp_path: Path) -> None:
    """8 ran out of memory and 4 is planned: nothing is measured twice, and the run is complete."""
    run = FakeRun(tmp_path, batch_sizes=(4, 8))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=4))
    run.finish()
    report = run.report()
    metric = only(report).inference_metrics["batch_size_8"]
    assert (metric.status, metric.degraded, metric.batch_size) == (Status.REFERRED, True, 4)
    assert metric.refers_to == run.cell(batch_size=4).id
    assert metric.throughput_samples_per_sec is None
    assert report.verdict.exit_code == ExitCode.PASSED


def test_does_not_fit_counts_as_complete(tmp_path: Path) -> None:
    """It is an answer, not a gap, and it is told of one cell and of several."""
    for sizes, words in (((1,), "1 cell does not fit"), ((1, 8), "2 cells do not fit")):
        run = FakeRun(tmp_path / str(len(sizes)), batch_sizes=sizes)
        run.failed(run.cell(), Category.OUT_OF_MEMORY)
        run.finish()
        verdict = run.report().verdict
        assert verdict.exit_code == ExitCode.PASSED
        assert f"{words} into the device's memory at any batch size" in verdict.reasons


def test_a_damaged_result_is_listed_as_failed(tmp_path: Path) -> None:
    """A result file that is not the promised one is named with its path, never skipped in silence."""
    run = FakeRun(tmp_path)
    run.measured(run.cell(batch_size=1))
    run.measured(run.cell(batch_size=8))
    run.finish()
    run.paths.launch(run.cell(batch_size=8).id, 1).result.write_bytes(b"rubbish")
    report = run.report()
    assert only(report).inference_metrics["batch_size_8"].status is Status.FAILED
    assert only(report).inference_metrics["batch_size_8"].attempts[0].outcome == "damaged"
    (failure,) = report.failures
    assert "result.msgpack" in failure.message
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_cell_with_fewer_launches_than_planned_is_incomplete(tmp_path: Path) -> None:
    """Two of three launches have a result: the figures stand, and the verdict says what is missing."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=3)
    run.measured(run.cell(batch_size=8), number=0)
    run.measured(run.cell(batch_size=8), number=1)
    run.failed(run.cell(batch_size=8), Category.DEADLINE, number=2)
    run.finish()
    report = run.report()
    assert only(report).inference_metrics["batch_size_8"].status is Status.OK
    assert report.summary.cells.short_of_launches == 1
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_run_that_goes_on_can_be_reported(tmp_path: Path) -> None:
    """The report of a live run has what is there, and says that an attempt may still be running."""
    run = FakeRun(tmp_path)
    run.measured(run.cell(batch_size=1))
    run.interrupted(run.cell(batch_size=8))
    report = run.report()
    assert not report.metadata.finished
    assert "still running" in report.failures[0].message
    assert only(report).inference_metrics["batch_size_1"].status is Status.OK


def test_an_empty_run_can_be_reported(tmp_path: Path) -> None:
    """Nothing was attempted: every cell is missing, every figure null."""
    run = FakeRun(tmp_path, workloads=EVERYTHING)
    report = run.report()
    assert {entry.status for entry in report.cells} == {Status.MISSING}
    assert report.overhead.median_ms is None
    assert report.metadata.pytorch_version is None
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_telemetry_speaks_for_long_measurements(tmp_path: Path) -> None:
    """Above 5 s of measuring, power and utilisation are given, and energy for each item; the power cap is named."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples(power_w=690.0, reasons=4)
    run.finish()
    report = run.report()
    metric = only(report).inference_metrics["batch_size_8"]
    assert metric.power_draw_w == pytest.approx(690.0, rel=0.01)
    assert metric.gpu_utilization_percent == 98.0
    assert metric.energy_per_sample_j == pytest.approx(690.0 * 0.010 / 8, rel=0.02)
    assert metric.clock_event_reasons == ("software power cap",)
    assert metric.throttled is False
    assert report.summary.average_power_draw_w == pytest.approx(690.0, rel=0.01)


def test_telemetry_of_short_measurements_is_null_with_a_reason(tmp_path: Path) -> None:
    """Below 5 s boards average over more than what was measured: null, and a note that says so."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.measured(run.cell(batch_size=8), blocks=5, iterations=40)
    run.samples()
    metric = only(run.report()).inference_metrics["batch_size_8"]
    assert (metric.power_draw_w, metric.gpu_utilization_percent, metric.energy_per_sample_j) == (None, None, None)
    assert metric.temperature_c == 61.0
    assert "5 s" in metric.telemetry_note


def test_samples_of_another_boot_are_not_mistaken(tmp_path: Path) -> None:
    """After a reboot monotonic times repeat; only samples of the attempt's own boot count."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.samples(until_ns=1_030 * SECOND_NS, power_w=100.0)
    run.segment(boot_id="another", now_ns=1_000 * SECOND_NS)
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples(power_w=600.0)
    metric = only(run.report()).inference_metrics["batch_size_8"]
    assert metric.power_draw_w == pytest.approx(600.0, rel=0.01)


def test_a_cpu_device_has_its_resident_set_and_no_telemetry(tmp_path: Path) -> None:
    """Nothing is made up for a device without NVML."""
    run = FakeRun(tmp_path, devices=cpus(2), batch_sizes=(1,), workloads=EVERYTHING)
    run.everything()
    run.finish()
    metric = run.report().results[0].inference_metrics["batch_size_1"]
    assert (metric.peak_memory_mb, metric.memory_basis) == (700.0, "resident set")
    assert metric.telemetry_note == "a CPU device has no NVML"
    assert metric.launch_bound is None
    load = run.report().results[0].load_metrics
    assert load is not None
    assert load.memory_allocated_mb == 98.0


def test_the_ledger_says_where_the_time_went(tmp_path: Path) -> None:
    """Overhead is everything but load, warm-up and measuring; the zygote pays as soon as it saved its own start."""
    run = FakeRun(tmp_path)
    run.everything()
    run.finish()
    report = run.report()
    ledger = only(report).inference_metrics["batch_size_8"].ledger
    assert ledger is not None
    assert ledger.overhead_ms == pytest.approx(40 + 5 + 240 + 120 + 30 + 25 + 60)
    (attempt,) = only(report).inference_metrics["batch_size_8"].attempts
    assert attempt.duration_ms is not None
    entries = {name: getattr(ledger, name) for name in ledger.__struct_fields__ if name != "overhead_ms"}
    assert sum(entries.values()) == pytest.approx(attempt.duration_ms + entries["teardown_ms"])
    assert report.overhead.median_ms == pytest.approx(ledger.overhead_ms)
    assert report.overhead.zygote_start_ms == 12_000.0
    assert report.overhead.pays_from_launches == 2


def test_without_a_zygote_nothing_is_said_about_it(tmp_path: Path) -> None:
    """With --isolation exec there is no start to pay for, and the number is null."""
    run = FakeRun(tmp_path, isolation=Isolation.EXEC)
    run.everything()
    run.finish()
    assert run.report().overhead.pays_from_launches is None
    assert run.report().overhead.zygote_start_ms is None


def test_doubts_are_carried(tmp_path: Path) -> None:
    """Not steady and launch-bound are said where they were found, of any launch."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=2)
    run.measured(run.cell(batch_size=8), number=0)
    run.measured(run.cell(batch_size=8), number=1, steady_state=SteadyState.NONE, launch_bound=True)
    metric: PhaseMetrics = only(run.report()).inference_metrics["batch_size_8"]
    assert metric.steady_state == SteadyState.NONE
    assert metric.launch_bound is True


def test_each_segment_says_how_many_launches_it_started(tmp_path: Path) -> None:
    """A resume that found nothing left to do is kept as a segment, with no launch."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.segment()
    run.measured(run.cell(batch_size=8))
    run.segment()
    run.finish()
    assert [segment.launches for segment in run.report().metadata.segments] == [1, 1, 0]


def test_megabytes_are_mebibytes(tmp_path: Path) -> None:
    """80 GiB is 81920 MB, as in the requirements document."""
    run = FakeRun(tmp_path, devices=gpus(1, memory_total_bytes=81_920 * MIB))
    assert run.report().gpu_info[0].gpu_memory_total_mb == 81_920
