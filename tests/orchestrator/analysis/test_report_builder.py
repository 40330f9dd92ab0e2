"""One merged report out of a run, whatever came of its cells."""

import itertools
from pathlib import Path

import pytest

from orchestrator.config.run_configuration import Isolation
from orchestrator.figures.cells import ModelResult, PhaseMetrics, Status
from orchestrator.figures.report import Report
from orchestrator.gpu.telemetry.clock_events import CLOCK_EVENT_REASONS, POWER_CAP
from protocol.cell import Precision, Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category, Phase
from protocol.result import SteadyState
from tests.fakes.runs import SECOND_NS, FakeRun, gpus, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING)


def only(report: Report) -> ModelResult:
    """The one result of a report."""
    (result,) = report.results
    return result


def inference(report: Report, batch_size: int = 8) -> PhaseMetrics:
    """The inference of its one result at a batch size."""
    return only(report).inference_metrics[f"batch_size_{batch_size}"]


def test_a_complete_run_has_every_figure(tmp_path: Path) -> None:
    """Load, inference and training of one model on one GPU, with the names of the requirements document."""
    run = FakeRun(tmp_path, workloads=EVERYTHING, batch_sizes=(1, 8))
    run.everything(forward_ms=10.0)
    report = run.ended()
    result = only(report)
    assert (result.model_name, result.model_type, result.parameters_count) == ("resnet50", "cnn", 25_557_032)
    assert result.load_metrics is not None
    assert result.load_metrics.model_load_time_ms == pytest.approx(80.0, rel=0.01)
    assert set(result.inference_metrics) == set(result.training_metrics) == {"batch_size_1", "batch_size_8"}
    training = result.training_metrics["batch_size_8"]
    figures = {
        "forward_time_ms": 10.0,
        "backward_time_ms": 20.0,
        "optimize_step_time_ms": 2.5,
        "total_iteration_time_ms": 32.5,
        "throughput_samples_per_sec": 8 / 0.0325,
        "peak_memory_mb": 900.0,
    }
    assert {name: getattr(training, name) for name in figures} == pytest.approx(figures, rel=0.01)
    assert training.sample_unit == "images"
    assert inference(report).backward_time_ms is None
    assert result.statistics_of == "inference batch_size_8"
    assert result.statistics is not None
    assert result.statistics.forward_time_p99_ms is not None
    assert report.summary.best_model_throughput is not None
    assert report.summary.best_model_throughput.batch_size == 8
    assert report.verdict.exit_code == ExitCode.PASSED
    assert (report.metadata.pytorch_version, report.metadata.test_date) == ("2.15.0", "2024-01-15T10:30:00Z")
    assert (report.summary.overall_score, report.baseline_comparison) == (None, None)


def test_every_gpu_model_and_precision_has_its_entry(tmp_path: Path) -> None:
    """Three GPUs, two models, two precisions: each with its GPU, and every planned cell is listed."""
    models, precisions = shipped("resnet50", "lstm"), (Precision.FP32, Precision.BF16)
    run = FakeRun(tmp_path, devices=gpus(3), models=models, precisions=precisions, batch_sizes=(1,))
    run.everything()
    report = run.ended()
    entries = [(result.gpu_uuid, result.model_name, result.precision) for result in report.results]
    every = itertools.product(run.stored.devices, models, precisions)
    assert sorted(entries) == sorted((device.uuid, model.name, precision) for device, model, precision in every)
    assert [device.serial for device in report.gpu_info] == [f"165{number:010d}" for number in range(3)]
    assert [entry.cell for entry in report.cells] == [cell.id for cell in run.stored.plan.cells]


def test_several_launches_are_one_figure(tmp_path: Path) -> None:
    """Medians over launches of launch means; the pooled statistics have the number of launches."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=3)
    for number, forward_ms in enumerate((10.0, 10.2, 14.0)):
        run.measured(run.cell(batch_size=8), number=number, forward_ms=forward_ms)
    metric = inference(run.ended())
    assert (metric.launches, metric.launches_planned) == (3, 3)
    assert metric.forward_time_ms == pytest.approx(10.2, rel=0.005)
    assert metric.throughput_samples_per_sec == pytest.approx(8 / 0.0102, rel=0.005)
    assert metric.iterations == 1200
    assert metric.statistics is not None
    assert (metric.statistics.pooled_launches, metric.statistics.values) == (3, 1200)
    assert metric.launch_spread_percent == pytest.approx(29, abs=1)


def test_every_state_of_a_cell_is_reported(tmp_path: Path) -> None:
    """Degraded, failed, missing and does not fit, each with its attempts; exit code 4."""
    run = FakeRun(tmp_path, workloads=(Workload.INFERENCE, Workload.TRAINING), batch_sizes=(1, 8, 32), launches=1)
    small, large = run.cell(batch_size=8), run.cell(batch_size=32)
    run.failed(large, Category.OUT_OF_MEMORY, message="CUDA out of memory", evidence={"free": "12 MiB"})
    run.measured(large, batch_size=16)
    for _ in range(2):
        run.failed(small, Category.CRASHED, message="killed by SIGSEGV", signal=11, phase=Phase.MEASURE)
    run.failed(run.cell(workload=Workload.TRAINING), Category.OUT_OF_MEMORY)
    run.finish(interrupted=True, reason="SIGINT")
    report = run.report()
    big, crashed, missing = (inference(report, size) for size in (32, 8, 1))
    assert (big.status, big.degraded, big.batch_size_requested, big.batch_size) == (Status.DEGRADED, True, 32, 16)
    assert [(attempt.batch_size, attempt.outcome) for attempt in big.attempts] == [(32, "failure"), (16, "result")]
    assert big.attempts[0].evidence == {"free": "12 MiB"}
    assert big.throughput_samples_per_sec == pytest.approx(1600, rel=0.01)
    assert (crashed.status, crashed.throughput_samples_per_sec) == (Status.FAILED, None)
    assert crashed.attempts[1].failure_signal == 11
    assert [one.folder for one in crashed.attempts] == [f"launches/{small.id}/{tried}" for tried in (1, 2)]
    assert missing.status is Status.MISSING
    assert {metric.status for metric in only(report).training_metrics.values()} == {Status.DOES_NOT_FIT}
    cells = report.summary.cells
    assert (cells.planned, cells.degraded, cells.failed, cells.missing, cells.does_not_fit) == (6, 1, 1, 1, 3)
    assert report.verdict.exit_code == ExitCode.INCOMPLETE
    assert any("SIGINT" in reason for reason in report.verdict.reasons)
    memory, crash = Category.OUT_OF_MEMORY, Category.CRASHED
    assert [failure.category for failure in report.failures] == [memory, crash, crash, memory]
    assert report.failures[0].status is Status.DEGRADED


def test_one_cell_without_a_result_makes_a_run_incomplete(tmp_path: Path) -> None:
    """Though its journal says that the run came to its end."""
    run = FakeRun(tmp_path, batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=8))
    run.finish()
    report = run.report()
    assert (report.summary.cells.ok, report.summary.cells.missing) == (1, 1)
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_referred_size_names_the_cell_that_has_its_result(tmp_path: Path) -> None:
    """8 ran out of memory and 4 is planned: nothing is measured twice, and the run is complete."""
    run = FakeRun(tmp_path, batch_sizes=(4, 8))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=4))
    report = run.ended()
    metric = inference(report)
    assert (metric.status, metric.degraded, metric.batch_size) == (Status.REFERRED, True, 4)
    assert (metric.refers_to, metric.throughput_samples_per_sec) == (run.cell(batch_size=4).id, None)
    assert report.verdict.exit_code == ExitCode.PASSED


@pytest.mark.parametrize("sizes", [(1,), (1, 8)])
def test_a_cell_that_does_not_fit_is_complete(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """It is an answer, not a gap; the verdict has the number of such cells."""
    run = FakeRun(tmp_path, batch_sizes=sizes)
    run.failed(run.cell(), Category.OUT_OF_MEMORY)
    verdict = run.ended().verdict
    assert verdict.exit_code == ExitCode.PASSED
    assert any(reason.startswith(f"{len(sizes)} cell") for reason in verdict.reasons)


def test_an_unsupported_cell_is_complete(tmp_path: Path) -> None:
    """One launch finds out what the machine lacks. Its reason is in the row, and the exit code stays 0."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.failed(run.cell(batch_size=8), Category.UNSUPPORTED, message="no C++ compiler", phase=Phase.IMPORT)
    report = run.ended()
    assert (inference(report).status, inference(report).reason) == (Status.UNSUPPORTED, "no C++ compiler")
    assert (report.summary.cells.unsupported, report.summary.cells.failed) == (1, 0)
    assert report.verdict.exit_code == ExitCode.PASSED
    assert any("1 cell unsupported" in reason for reason in report.verdict.reasons)


def test_a_damaged_result_is_listed_as_failed(tmp_path: Path) -> None:
    """A result file that is not the promised one is named with its path, never skipped in silence."""
    run = FakeRun(tmp_path)
    run.everything()
    run.finish()
    run.paths.launch(run.cell(batch_size=8).id, 1).result.write_bytes(b"rubbish")
    report = run.report()
    metric, (failure,) = inference(report), report.failures
    assert (metric.status, metric.attempts[0].outcome) == (Status.FAILED, "damaged")
    assert "result.msgpack" in failure.message
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_cell_with_fewer_launches_than_planned_is_incomplete(tmp_path: Path) -> None:
    """Two of three launches have a result: the figures stand, and the summary counts the cell."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=3)
    for number in range(2):
        run.measured(run.cell(batch_size=8), number=number)
    run.failed(run.cell(batch_size=8), Category.DEADLINE, number=2)
    report = run.ended()
    assert (inference(report).status, report.summary.cells.short_of_launches) == (Status.OK, 1)
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_run_that_goes_on_can_be_reported(tmp_path: Path) -> None:
    """The report of a live run has what is there, and marks the attempt that may still be running."""
    run = FakeRun(tmp_path)
    run.measured(run.cell(batch_size=1))
    run.interrupted(run.cell(batch_size=8))
    report = run.report()
    assert (report.metadata.finished, inference(report, 1).status) == (False, Status.OK)
    assert report.failures[0].category is None


def test_an_empty_run_can_be_reported(tmp_path: Path) -> None:
    """Nothing was attempted: every cell is missing, every figure null."""
    run = FakeRun(tmp_path, workloads=EVERYTHING)
    report = run.report()
    assert {entry.status for entry in report.cells} == {Status.MISSING}
    assert report.overhead.median_ms is None
    assert report.metadata.pytorch_version is None
    assert report.verdict.exit_code == ExitCode.INCOMPLETE


def test_long_measurements_have_telemetry(tmp_path: Path) -> None:
    """From 5 s on, power and utilisation are given, and energy for each item; the power cap is named."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples(power_w=690.0, reasons=4)
    report = run.ended()
    metric = inference(report)
    assert metric.power_draw_w == pytest.approx(690.0, rel=0.01)
    assert metric.gpu_utilization_percent == 98.0
    assert metric.energy_per_sample_j == pytest.approx(690.0 * 0.010 / 8, rel=0.02)
    assert (metric.clock_event_reasons, metric.throttled) == ((CLOCK_EVENT_REASONS[POWER_CAP],), False)
    assert report.summary.average_power_draw_w == pytest.approx(690.0, rel=0.01)


def test_samples_of_another_boot_do_not_count(tmp_path: Path) -> None:
    """After a reboot monotonic times repeat; only samples of the attempt's own boot count."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    run.samples(until_ns=1_030 * SECOND_NS, power_w=100.0)
    run.segment(boot_id="another", now_ns=1_000 * SECOND_NS)
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples(power_w=600.0)
    assert inference(run.report()).power_draw_w == pytest.approx(600.0, rel=0.01)


def test_work_of_a_boot_does_not_end_by_the_clock_of_the_next(tmp_path: Path) -> None:
    """The end of an interrupted launch is written after the reboot; the work before it is averaged all the same."""
    run = FakeRun(tmp_path, batch_sizes=(8, 16))
    run.measured(run.cell(batch_size=8), blocks=20, iterations=40)
    run.samples(power_w=600.0)
    launch = run.interrupted(run.cell(batch_size=16))
    run.segment(boot_id="another", now_ns=SECOND_NS)
    run.recovered(launch)
    assert run.report().summary.average_power_draw_w == pytest.approx(600.0, rel=0.01)


def test_the_ledger_adds_up_to_the_time_of_the_attempt(tmp_path: Path) -> None:
    """Overhead is everything but load, warm-up and measuring; the zygote pays as soon as it saved its own start."""
    run = FakeRun(tmp_path)
    run.everything()
    report = run.ended()
    ledger, (attempt,) = inference(report).ledger, inference(report).attempts
    assert ledger is not None
    assert ledger.overhead_ms == pytest.approx(40 + 5 + 240 + 120 + 30 + 25 + 60)
    entries = {name: getattr(ledger, name) for name in ledger.__struct_fields__ if name != "overhead_ms"}
    assert attempt.duration_ms is not None
    assert sum(entries.values()) == pytest.approx(attempt.duration_ms + entries["teardown_ms"])
    assert report.overhead.median_ms == pytest.approx(ledger.overhead_ms)
    assert (report.overhead.zygote_start_ms, report.overhead.pays_from_launches) == (12_000.0, 2)


def test_without_a_zygote_its_figures_are_null(tmp_path: Path) -> None:
    """With --isolation exec there is no start to pay for."""
    run = FakeRun(tmp_path, isolation=Isolation.EXEC)
    run.everything()
    overhead = run.ended().overhead
    assert (overhead.pays_from_launches, overhead.zygote_start_ms) == (None, None)


def test_doubts_of_any_launch_are_reported(tmp_path: Path) -> None:
    """Not steady, and launch-bound."""
    run = FakeRun(tmp_path, batch_sizes=(8,), launches=2)
    run.measured(run.cell(batch_size=8), number=0)
    run.measured(run.cell(batch_size=8), number=1, steady_state=SteadyState.NONE, launch_bound=True)
    metric = inference(run.report())
    assert (metric.steady_state, metric.launch_bound) == (SteadyState.NONE, True)
