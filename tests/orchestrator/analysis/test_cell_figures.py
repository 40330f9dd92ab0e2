"""The figures of each kind of cell in the merged report: what they are made of, and what they are null for."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.figures.cells import GenerationMetrics, Measured, PhaseMetrics, ProbeMetrics
from orchestrator.figures.quality import Quality, quality
from orchestrator.plan import load_windows
from orchestrator.report.as_text import to_text
from orchestrator.report.remarks import remark
from orchestrator.stats.launch import launch_interval
from protocol import floats
from protocol.cell import AUTO, Cell, Precision, Workload
from protocol.failure import Category
from protocol.result import Memory, SteadyState, WarmUp
from tests.fakes.results import MIB, result
from tests.fakes.runs import SECOND_NS, FakeRun, cpus, gpus, shipped

EVERYTHING = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
TRUST = ("steady_state", "stop_reason", "relative_half_width", "launches", "drift_percent", "measured_seconds")


def metrics(run: FakeRun) -> Mapping[tuple[str, str], Measured]:
    """Every metric of the report by workload and model."""
    report = run.report()
    found: dict[tuple[str, str], Measured] = {("probe", probe.name): probe for probe in report.probes}
    for one in report.results:
        if one.load_metrics:
            found["load", one.model_name] = one.load_metrics
        for workload in ("inference", "training", "generation"):
            for metric in getattr(one, f"{workload}_metrics").values():
                found[workload, one.model_name] = metric
    return found


def generation(run: FakeRun) -> GenerationMetrics:
    """The one generation cell of a run."""
    metric = metrics(run)["generation", "gpt2"]
    assert isinstance(metric, GenerationMetrics)
    return metric


def writing(folder: Path, batch_size: int = 1) -> tuple[FakeRun, Cell]:
    """A run that generates text, and its one generation cell."""
    run = FakeRun(folder, models=shipped("gpt2"), workloads=(Workload.GENERATION,), batch_sizes=(batch_size,))
    return run, next(cell for cell in run.stored.plan.cells if cell.workload is Workload.GENERATION)


def test_every_result_says_how_far_to_trust_it(tmp_path: Path) -> None:
    """Steady state, stop reason, interval, launches and drift: of loading, phases, generation and probes alike."""
    run = FakeRun(
        tmp_path,
        models=[*shipped("gpt2"), *shipped("hbm")],
        probes=shipped("hbm"),
        workloads=EVERYTHING,
        batch_sizes=(1,),
    )
    run.everything()
    found = metrics(run)
    assert {workload for workload, _ in found} == {"load", "inference", "training", "generation", "probe"}
    for metric in found.values():
        assert [name for name in TRUST if getattr(metric, name) is None] == []


def test_every_size_of_a_scan_has_its_doubts(tmp_path: Path) -> None:
    """The best rests on one launch: where that was not steady, or drifted, the curve has a mark, and only there."""
    run = FakeRun(tmp_path, batch_sizes=(AUTO,), workloads=(Workload.INFERENCE,))
    (cell,) = run.stored.plan.cells
    ramp = floats.pack([10.0 * (1 + at / 2000) for at in range(400)])
    run.measured(cell, batch_size=1, forward_ms=10.0)
    run.measured(cell, batch_size=4, forward_ms=11.0, steady_state=SteadyState.NONE)
    run.measured(cell, batch_size=2, series={"iteration": ramp, "forward": ramp})
    run.failed(cell, Category.OUT_OF_MEMORY, batch_size=8)
    report = run.report()
    (scan,) = report.batch_scans
    *measured, eight = scan.points
    names = tuple(name for name in TRUST if name not in {"measured_seconds", "launches"})
    assert all(getattr(point, name) is not None for point in measured for name in names)
    assert {getattr(eight, name) for name in names} == {None}
    assert [point.launches for point in scan.points] == [1, 1, 1, 0]
    assert [point.drifting for point in scan.points] == [False, True, False, None]
    assert [point.steady_state for point in measured] == ["reached", "reached", "none"]
    rows = [line.split() for line in to_text(report).splitlines()]
    marks = {row[1]: "*" in row for row in rows if row[:1] == ["|"] and row[1] in {"1", "2", "4", "8"}}
    assert marks == {"1": False, "2": True, "4": True, "8": False}
    assert [row[2] for row in rows if row[:2] == ["*", "batch"]] == ["2:", "4:"]


def test_latency_stands_beside_the_forward_pass(tmp_path: Path) -> None:
    """End to end is a mean of its own few values; training has none."""
    run = FakeRun(tmp_path, workloads=(Workload.INFERENCE, Workload.TRAINING), batch_sizes=(8,))
    run.everything(forward_ms=10.0)
    (one,) = run.report().results
    inference, training = one.inference_metrics["batch_size_8"], one.training_metrics["batch_size_8"]
    assert inference.forward_time_ms == pytest.approx(10.0, rel=0.01)
    assert inference.inference_latency_ms == pytest.approx(15.0, rel=0.01)
    assert inference.inference_latency_values == 5
    assert (training.inference_latency_ms, training.inference_latency_values) == (None, None)


def test_the_first_load_of_a_process_stands_apart(tmp_path: Path) -> None:
    """Cold is the first load of each process, warm the mean of the repetitions: medians over the launches."""
    run = FakeRun(tmp_path, workloads=(Workload.LOAD,), launches=3)
    for number, cold_ms in enumerate((500.0, 900.0, 700.0)):
        warm_up = WarmUp(
            steady_state=SteadyState.NOT_SOUGHT, iterations=1, first_iteration_ms=cold_ms, second_iteration_ms=None
        )
        run.measured(run.cell(workload=Workload.LOAD), number=number, forward_ms=10.0, warm_up=warm_up)
    load = run.report().results[0].load_metrics
    assert load is not None
    assert load.cold_load_time_ms == 700.0
    assert load.model_load_time_ms == pytest.approx(80.0, rel=0.01)
    assert (load.steady_state, load.drifting) == ("not looked for", False)


def test_the_later_tokens_are_timed_without_the_first(tmp_path: Path) -> None:
    """A text takes 200 ms, its first token 50: each of the 63 later ones takes (200 - 50) / 63 ms."""
    run, cell = writing(tmp_path, batch_size=4)
    run.measured(cell, forward_ms=10.0, noise=0.0)
    metric = generation(run)
    assert (metric.prompt_tokens, metric.new_tokens) == (512, 64)
    assert metric.generation_time_ms == pytest.approx(200.0)
    assert metric.time_to_first_token_ms == pytest.approx(50.0)
    assert metric.time_per_output_token_ms == pytest.approx(150.0 / 63)
    assert metric.inter_token_p50_ms == metric.inter_token_p99_ms == pytest.approx(150.0 / 63)
    assert metric.tokens_per_second == pytest.approx(cell.batch_size * 64 / 0.2)
    assert metric.tokens_complete is True
    assert metric.statistics is not None
    assert metric.statistics.iteration_time_p50_ms == pytest.approx(200.0)


def test_a_slow_token_shows_in_the_tail_alone(tmp_path: Path) -> None:
    """Percentiles are of single tokens, not of texts: one slow token in fifty is in p99 and not in the median."""
    run, cell = writing(tmp_path)
    made = result(cell, noise=0.0)
    times_ms = ([2.0] * 49 + [40.0]) * 20
    series = {**made.series, "inter_token": floats.pack(times_ms)}
    run.measured(cell, series=series)
    metric = generation(run)
    assert (metric.inter_token_p50_ms, metric.inter_token_p95_ms, metric.inter_token_p99_ms) == (2.0, 2.0, 40.0)


def test_tokens_that_did_not_arrive_are_not_counted(tmp_path: Path) -> None:
    """The rate is of what the host has seen; that something is missing is said."""
    run, cell = writing(tmp_path)
    run.measured(cell, forward_ms=10.0, noise=0.0, generated_tokens=400 * 32)
    metric = generation(run)
    assert (metric.tokens_generated, metric.tokens_expected) == (400 * 32, 400 * cell.batch_size * 64)
    assert metric.tokens_complete is False
    assert metric.tokens_per_second == pytest.approx(32 / 0.2)


def test_energy_is_told_by_the_item_and_by_the_token(tmp_path: Path) -> None:
    """At 690 W, a text of 64 tokens in 200 ms costs 138 J, and a token a 64th of it."""
    run, cell = writing(tmp_path)
    run.measured(cell, forward_ms=10.0, noise=0.0)
    run.samples(power_w=690.0)
    metric = generation(run)
    assert metric.energy_per_sample_j == pytest.approx(138.0 / cell.batch_size, rel=0.01)
    assert metric.energy_per_token_j == pytest.approx(138.0 / 64 / cell.batch_size, rel=0.01)
    assert metric.samples_per_sec_per_watt == pytest.approx(cell.batch_size / 138.0, rel=0.01)


def test_a_load_window_gives_power_and_energy_of_a_short_measurement(tmp_path: Path) -> None:
    """At 300 W, eight texts read in 10 ms cost 3 J; only the first launch of the largest batch has a window."""
    run = FakeRun(tmp_path, models=shipped("bert-base", "resnet50"), batch_sizes=(1, 8), launches=2)
    for cell_id, number in run.stored.plan.slots:
        cell = next(one for one in run.stored.plan.cells if one.id == cell_id)
        asked, device = run.stored.configuration, run.stored.devices[0]
        load_s = load_windows.window_s(cell, asked, device, number)
        run.measured(cell, number=number, noise=0.0, blocks=1, load_s=load_s)
    run.samples(power_w=300.0)
    texts, images = (one.inference_metrics for one in run.report().results)
    large = texts["batch_size_8"]
    assert (large.power_draw_w, large.gpu_utilization_percent) == (pytest.approx(300), 98)
    assert large.energy_per_sample_j == pytest.approx(300 * 0.010 / 8)
    assert large.energy_per_token_j == pytest.approx(300 * 0.010 / 8 / 128)
    assert large.samples_per_sec_per_watt == pytest.approx(8 / 3)
    assert (large.iterations, large.throughput_samples_per_sec) == (80, pytest.approx(800))
    assert (images["batch_size_8"].energy_per_token_j, images["batch_size_1"].power_draw_w) == (None, None)
    assert "load window" not in large.telemetry_note
    assert "load window" in images["batch_size_1"].telemetry_note


def test_what_the_host_does_is_told_on_every_device(tmp_path: Path) -> None:
    """Processors that it keeps busy, and the memory of the process."""
    run = FakeRun(tmp_path, devices=cpus(1), batch_sizes=(8,))
    run.everything()
    metric = metrics(run)["inference", "resnet50"]
    assert (metric.host_cpu_percent, metric.host_memory_mb, metric.power_draw_w) == (pytest.approx(102), 700, None)


def test_memory_is_told_cold_and_warm(tmp_path: Path) -> None:
    """Allocated and reserved, of the warm-up and of the measured blocks; the peak is the larger one."""
    run = FakeRun(tmp_path, batch_sizes=(8,))
    memory = Memory(
        model_bytes=98 * MIB,
        cold_allocated_bytes=900 * MIB,
        cold_reserved_bytes=1_000 * MIB,
        warm_allocated_bytes=850 * MIB,
        warm_reserved_bytes=1_100 * MIB,
        resident_bytes=700 * MIB,
    )
    run.measured(run.cell(batch_size=8), memory=memory)
    run.samples()
    metric = metrics(run)["inference", "resnet50"]
    assert (metric.cold_memory_allocated_mb, metric.cold_memory_reserved_mb) == (900.0, 1_000.0)
    assert (metric.warm_memory_allocated_mb, metric.warm_memory_reserved_mb) == (850.0, 1_100.0)
    assert (metric.peak_memory_mb, metric.peak_memory_reserved_mb) == (900.0, 1_100.0)
    assert metric.gpu_memory_used_mb == 1_000.0


def test_probes_are_rates_of_their_device(tmp_path: Path) -> None:
    """TFLOP/s best and sustained; copy and triad count what is read and written; transfers what is carried over."""
    probes = shipped("gemm", "hbm", "h2d")
    run = FakeRun(tmp_path, models=probes, probes=probes, precisions=(Precision.FP32, Precision.BF16))
    for cell in run.stored.plan.cells:
        given: dict[str, dict[str, object]] = {
            "gemm": {"flops_per_iteration": 2e12},
            "hbm": {"bytes_per_iteration": {"copy": 2 * 10**9, "triad": 3 * 10**9}},
            "h2d": {"bytes_per_iteration": {"iteration": 10**9}},
        }
        made = result(cell, noise=0.0, forward_ms=10.0)
        best = {**made.series, "best": floats.pack([20.0])} if cell.model == "gemm" else made.series
        run.measured(cell, forward_ms=10.0, noise=0.0, series=best, **given[cell.model])
    found = {(probe.name, probe.precision): probe for probe in run.report().probes}
    assert set(found) == {("gemm", "fp32"), ("gemm", "bf16"), ("hbm", "fp32"), ("h2d", "fp32")}
    gemm, hbm, h2d = found["gemm", "bf16"], found["hbm", "fp32"], found["h2d", "fp32"]
    assert (gemm.best_tflops, gemm.sustained_tflops) == (pytest.approx(100.0), pytest.approx(40.0))
    assert (hbm.copy_gb_per_sec, hbm.triad_gb_per_sec) == (pytest.approx(100.0), pytest.approx(100.0))
    assert h2d.transfer_gb_per_sec == pytest.approx(20.0)
    assert (hbm.transfer_gb_per_sec, gemm.copy_gb_per_sec, h2d.sustained_tflops) == (None, None, None)


def test_a_probe_that_failed_is_listed_without_a_rate(tmp_path: Path) -> None:
    """Nothing is made up for a probe without a result."""
    run = FakeRun(tmp_path, models=shipped("gemm"), probes=shipped("gemm"))
    run.failed(run.stored.plan.cells[0])
    (probe,) = run.report().probes
    assert isinstance(probe, ProbeMetrics)
    assert (probe.status, probe.sustained_tflops, probe.best_tflops) == ("failed", None, None)


def test_sizes_and_memory_formats_have_entries_of_their_own(tmp_path: Path) -> None:
    """Cells that differ in input size or memory format have separate entries, each under its batch size."""
    run = FakeRun(tmp_path, models=shipped("resnet50", "vit-base"), batch_sizes=(8,), input_sizes=(224, 512))
    for cell in run.stored.plan.cells:
        run.measured(cell, forward_ms=20.0 if cell.input_size == 512 else 10.0)
    entries = {(one.model_name, one.input_size, one.memory_format): one for one in run.report().results}
    assert ("resnet50", 512, "channels_last") in entries
    assert ("vit-base", 224, "contiguous") in entries
    large = entries["resnet50", 512, "channels_last"].inference_metrics["batch_size_8"]
    assert large.forward_time_ms == pytest.approx(20, rel=0.01)
    listed = [(cell.model_name, cell.input_size, cell.memory_format) for cell in run.report().cells]
    assert listed == list(entries)


@pytest.mark.parametrize(("reasons", "throttled"), [(0x4, None), (0x40, True)])
def test_launches_that_nobody_watched_are_not_taken_for_sound(
    tmp_path: Path, reasons: int, throttled: bool | None
) -> None:
    """Telemetry ended after the first of two launches: what was seen stands, and all is well is not known."""
    run = FakeRun(tmp_path, devices=gpus(1), batch_sizes=(8,), launches=2, watched=False)
    cell = run.cell(batch_size=8)
    run.measured(cell, blocks=20)
    behind_ns = run.now_ns - SECOND_NS
    run.measured(cell, number=1, blocks=40)
    run.samples(until_ns=behind_ns, reasons=reasons)
    (found,) = (one.inference_metrics["batch_size_8"] for one in run.ended().results)
    assert found.throttled is throttled


def test_the_best_of_gemm_is_never_below_what_was_measured(tmp_path: Path) -> None:
    """A burst of 20 ms chose the shape; a block whose products took 10 ms is the best, then."""
    run = FakeRun(tmp_path, models=shipped("gemm"), probes=shipped("gemm"))
    (cell,) = run.stored.plan.cells
    made = result(cell, noise=0.0, forward_ms=10.0)
    times = floats.unpack(made.series["iteration"])
    mean_ms = sum(times) / len(times)
    series = {**made.series, "best": floats.pack([mean_ms * 2])}
    run.measured(cell, forward_ms=10.0, noise=0.0, series=series, flops_per_iteration=2e12)
    (probe,) = run.report().probes
    assert probe.sustained_tflops == pytest.approx(2e12 / mean_ms / 1e9)
    assert probe.best_tflops == pytest.approx(probe.sustained_tflops)


@pytest.mark.parametrize(("latency_ms", "printed"), [(9.0, None), (11.0, 11.0)])
def test_a_latency_below_the_forward_time_is_not_reported(
    tmp_path: Path, latency_ms: float, printed: float | None
) -> None:
    """It cannot be, because the pass is a part of it. A remark says so, and the pass keeps its own quality."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    cell = run.cell(batch_size=1)
    series = {**result(cell, forward_ms=10.0).series, "latency": floats.pack([latency_ms] * 4)}
    run.measured(cell, forward_ms=10.0, series=series)
    (found,) = run.report().results
    metric = found.inference_metrics["batch_size_1"]
    assert metric.inference_latency_ms == (None if printed is None else pytest.approx(printed))
    assert metric.inference_latency_values == 4
    assert ("latency" in remark(metric)) == (printed is None)
    assert quality(metric.status, metric) is not Quality.IMPLAUSIBLE


def metric_of(folder: Path, **changes: object) -> PhaseMetrics:
    """The only cell of a run on a GPU, whose launch had this result."""
    run = FakeRun(folder, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1), **changes)
    (found,) = run.report().results
    return found.inference_metrics["batch_size_1"]


@pytest.mark.parametrize(
    ("share", "iteration_ms", "bound"),
    [(0.79, 10.0, False), (0.8, 10.0, True), (1.0, 10.0, True), (0.9, 490.0, True), (0.9, 510.0, False)],
)
def test_a_host_that_is_nearly_the_limit_counts_as_launch_bound(
    tmp_path: Path, share: float, iteration_ms: float, bound: bool
) -> None:
    """From 80 % of the time on, unless it is 50 ms ahead of the GPU."""
    metric = metric_of(tmp_path / "one", launch_bound=False, host_share=share, forward_ms=iteration_ms)
    assert (metric.launch_bound, metric.host_percent) == (bound, pytest.approx(share * 100))
    assert (metric_of(tmp_path / "cpu", launch_bound=None)).host_percent is None


@pytest.mark.parametrize(
    ("change", "bound", "share", "unsettled"),
    [(0.02, False, 0.5, True), (0.0, False, 0.5, False), (0.02, True, 0.5, False), (0.02, False, 0.9, False)],
)
def test_times_that_still_change_are_unsettled(
    tmp_path: Path, change: float, bound: bool, share: float, unsettled: bool
) -> None:
    """From the warm-up to the end; where the host decides, they say nothing about the GPU's clock."""
    run = FakeRun(tmp_path, batch_sizes=(1,))
    times = [10 * (1 + change * place / 600) for place in range(600)]
    warm_up = WarmUp(
        steady_state=SteadyState.REACHED,
        iterations=200,
        first_iteration_ms=30.0,
        second_iteration_ms=10.0,
        course=floats.pack(times[:200:20]),
        settled_blocks=10,
    )
    series = {name: floats.pack(times[200:]) for name in result(run.cell(batch_size=1)).series}
    metric = metric_of(tmp_path / "one", warm_up=warm_up, launch_bound=bound, host_share=share, series=series)
    assert metric.steady_state == ("none" if unsettled else "reached")
    assert metric.unsettled_percent == (pytest.approx(2.0, abs=0.2) if unsettled else None)


def test_iterations_that_contradict_the_clock_are_flagged(tmp_path: Path) -> None:
    """They add up to the time of their blocks, unless the model's code slowed the clock that timed them."""
    assert metric_of(tmp_path / "honest").plausibility.flags == ()
    run = FakeRun(tmp_path, batch_sizes=(1,))
    made = result(run.cell(batch_size=1))
    halved = {name: floats.pack([time / 2 for time in floats.unpack(data)]) for name, data in made.series.items()}
    assert len(metric_of(tmp_path / "slowed", series=halved).plausibility.flags) == 1


def test_interval_over_launches_needs_three_of_them() -> None:
    """By Student's t of their logarithms: 4.30 standard errors for three."""
    assert launch_interval([100.0, 101.0]) is None
    assert launch_interval([100.0, 101.0, 102.01]) == pytest.approx(
        math.expm1(4.303 * 0.00995 / math.sqrt(3)), rel=1e-3
    )
    assert launch_interval([100.0, 0.0, 100.0]) is None
