"""Limits: the file that people write, and what they mean for each cell."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.compare import baselines, run_figures, thresholds
from orchestrator.compare.limit_targets import FIGURES, Figure
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.catalogue import configs_folder
from orchestrator.errors import ConfigError
from orchestrator.figures.comparisons import Met, ThresholdResult
from orchestrator.figures.report import Report
from protocol.cell import Device, Mode, Precision, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.runs import FakeRun, cpus, gpus, shipped

EVERY = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two GPUs, of which the second is a tenth slower; one cell ran at half its batch, with telemetry."""
    run = FakeRun(
        tmp_path_factory.mktemp("thresholds"),
        devices=gpus(2),
        models=shipped("resnet50", "gpt2"),
        workloads=EVERY,
        batch_sizes=(1, 8),
    )
    for cell in run.stored.plan.cells:
        slow = 1.1 if cell.devices[0] == run.stored.devices[1].uuid else 1.0
        if (cell.model, cell.workload, cell.batch_size) == ("gpt2", Workload.TRAINING, 8):
            run.failed(cell, Category.OUT_OF_MEMORY)
            run.measured(cell, batch_size=4, forward_ms=10.0)
        else:
            run.measured(cell, forward_ms=10.0 * slow, blocks=20)
    run.samples(0)
    run.samples(1)
    run.finish()
    return run.report()


def limit(figure: Figure, phase: Workload = Workload.INFERENCE, **more: object) -> Threshold:
    """A limit that nothing reaches."""
    bound = {} if {"below", "at_most", "above", "at_least"} & more.keys() else {"above": 1e12}
    return Threshold(name="a limit", figure=figure, phase=phase, **bound, **more)  # type: ignore[arg-type]  # its fields


def judged(report: Report, threshold: Threshold) -> list[ThresholdResult]:
    """What comes of one limit."""
    return list(thresholds.judge(report, [threshold], None))


def test_throughput_scales_over_the_node_or_the_limit_is_missed(tmp_path: Path) -> None:
    """With all at work GPU 1 does 80 % of what it does alone; solo cells are what it is held against, not held."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), modes=(Mode.LOADED, Mode.SOLO))
    for cell in run.stored.plan.cells:
        crowded = cell.mode is Mode.LOADED and cell.devices[0] == run.stored.devices[1].uuid
        run.measured(cell, forward_ms=12.5 if crowded else 10.0)
    run.finish()
    found = judged(run.report(), limit(Figure.OF_SOLO, at_least=90))
    assert [(one.gpu_id, one.status) for one in found] == [(0, Met.MET), (1, Met.MISSED)]
    assert [one.actual for one in found] == [pytest.approx(100), pytest.approx(80)]


def test_a_run_of_one_mode_says_nothing_of_scaling(report: Report) -> None:
    """Not measured, and how it would be."""
    found = judged(report, limit(Figure.OF_SOLO))
    assert {one.status for one in found} == {Met.NOT_MEASURED}
    assert all("mode: [loaded, solo]" in one.note for one in found if not one.note.startswith(("ran at", "no result")))


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("figure", "phase", "actual"),
    [
        (Figure.LATENCY, Workload.INFERENCE, 15.0),
        (Figure.FORWARD_TIME, Workload.TRAINING, 10.0),
        (Figure.ITERATION_TIME, Workload.TRAINING, 32.5),
        (Figure.ITERATION_TIME_P99, Workload.INFERENCE, 10.0),
        (Figure.LOAD_TIME, Workload.LOAD, 80.0),
        (Figure.FIRST_TOKEN, Workload.GENERATION, 50.0),
        (Figure.THROUGHPUT, Workload.INFERENCE, 100.0),
        (Figure.MEMORY, Workload.INFERENCE, 900 / 1024),
        (Figure.UTILIZATION, Workload.INFERENCE, 98.0),
        (Figure.POWER, Workload.INFERENCE, 690.0),
        (Figure.TEMPERATURE, Workload.INFERENCE, 61.0),
        (Figure.ENERGY, Workload.INFERENCE, 6.9),
    ],
)
def test_every_figure_is_read_from_the_report(report: Report, figure: Figure, phase: Workload, actual: float) -> None:
    """In the unit that its name says, of the first GPU's first model at batch 1."""
    found = judged(report, limit(figure, phase, batch_sizes=(1,)))[0]
    assert found.actual == pytest.approx(actual, rel=0.02)
    assert (found.status, found.gpu_id, found.phase) == (Met.MISSED, 0, phase)


def test_every_figure_has_a_reader() -> None:
    """None can be written into a file that nobody reads."""
    assert FIGURES.keys() == set(Figure)


@pytest.mark.parametrize("figure", Figure)
def test_every_phase_has_the_figures_that_may_be_limited(report: Report, figure: Figure) -> None:
    """And no other: what a file may name can be measured, and what it may not name never is."""
    run = run_figures.of_report(report, "run")
    held = baselines.hold(run, run)
    samples = {"samples_per_epoch": 5} if figure is Figure.EPOCH_TIME else {}
    asked = {phase: limit(figure, phase, **samples) for phase in EVERY}
    if figure is not Figure.OF_SOLO:  # which a run of both modes alone has
        known = {
            phase
            for phase, one in asked.items()
            if any(found.actual is not None for found in thresholds.judge(report, [one], held))
        }
        assert known == set(FIGURES[figure].phases)
    assert [phase for phase, one in asked.items() if not thresholds.pointless(one)] == [
        phase for phase in EVERY if phase in FIGURES[figure].phases
    ]


@pytest.mark.parametrize(
    ("figure", "bound", "value", "sound"),
    [
        (Figure.THROUGHPUT, "at_least", 0.0, False),
        (Figure.THROUGHPUT, "at_least", 0.1, True),
        (Figure.THROUGHPUT, "above", 0.0, True),
        (Figure.THROUGHPUT, "at_most", 0.0, True),
        (Figure.UTILIZATION, "at_most", 100.0, False),
        (Figure.UTILIZATION, "below", 100.0, True),
        (Figure.UTILIZATION, "below", 101.0, False),
        (Figure.TEMPERATURE, "at_least", -5.0, True),
    ],
)
def test_a_limit_can_be_missed(figure: Figure, bound: str, value: float, *, sound: bool) -> None:
    """Or it is a mistake: a temperature may be below zero, nothing else is, and no more than all of a GPU is used."""
    assert (thresholds.pointless(limit(figure, **{bound: value})) == "") is sound


def test_tokens_are_counted_a_second(report: Report) -> None:
    """As the report has them."""
    found = judged(report, limit(Figure.TOKENS, Workload.GENERATION))[0]
    result = next(one for one in report.results if one.generation_metrics)
    assert found.actual == result.generation_metrics["batch_size_1"].tokens_per_second


def test_an_epoch_takes_its_samples_at_the_measured_rate(report: Report) -> None:
    """50,000 samples at 100 a second."""
    found = judged(report, limit(Figure.EPOCH_TIME, samples_per_epoch=50_000, batch_sizes=(1,)))[0]
    assert (found.actual, found.unit) == (pytest.approx(500, rel=0.01), "s")


def test_speed_is_held_against_siblings_and_a_baseline(report: Report) -> None:
    """In percent: of the median of identical GPUs, and of the same cell of the baseline."""
    siblings = judged(report, limit(Figure.OF_SIBLINGS, batch_sizes=(1,), models=("resnet50",), at_least=99))
    assert [one.status for one in siblings] == [Met.MET, Met.MISSED]
    assert siblings[1].actual == pytest.approx(100 / 1.1 / ((1 + 1 / 1.1) / 2), rel=0.01)
    loads = judged(report, limit(Figure.OF_SIBLINGS, Workload.LOAD, models=("resnet50",), at_least=99))
    assert [one.status for one in loads] == [Met.MET, Met.MISSED]
    run = run_figures.of_report(report, "run")
    held = baselines.hold(run, run)
    wanted = limit(Figure.OF_BASELINE, batch_sizes=(1,), models=("resnet50",), at_least=100)
    found = list(thresholds.judge(report, [wanted], held))
    assert [one.status for one in found] == [Met.MET, Met.MISSED]
    alone = judged(report, wanted)
    assert {(one.status, one.note) for one in alone} == {(Met.NOT_MEASURED, "no baseline")}


# ── bounds, cells ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bound", "value", "status", "target"),
    [
        ("below", 20.0, Met.MET, "< 20 ms"),
        ("below", 5.0, Met.MISSED, "< 5 ms"),
        ("at_most", 20.0, Met.MET, "<= 20 ms"),
        ("at_most", 5.0, Met.MISSED, "<= 5 ms"),
        ("above", 5.0, Met.MET, "> 5 ms"),
        ("above", 20.0, Met.MISSED, "> 20 ms"),
        ("at_least", 5.0, Met.MET, ">= 5 ms"),
        ("at_least", 20.0, Met.MISSED, ">= 20 ms"),
    ],
)
def test_a_figure_is_on_one_side_of_its_limit(
    report: Report, bound: str, value: float, status: Met, target: str
) -> None:
    """Each of the four words, both ways."""
    found = judged(report, limit(Figure.FORWARD_TIME, **{bound: value}))[0]
    assert (found.status, found.target) == (status, target)


def test_the_limit_itself_is_kept_by_two_of_the_words(report: Report) -> None:
    """at_most and at_least include it."""
    exactly = judged(report, limit(Figure.FORWARD_TIME))[0].actual
    words = {
        bound: judged(report, limit(Figure.FORWARD_TIME, **{bound: exactly}))[0].status
        for bound in ("below", "at_most", "above", "at_least")
    }
    assert words == {"below": Met.MISSED, "at_most": Met.MET, "above": Met.MISSED, "at_least": Met.MET}


def test_a_limit_means_the_cells_that_it_describes(report: Report) -> None:
    """All of them where it does not say."""
    count = len(judged(report, limit(Figure.THROUGHPUT)))
    assert count == 2 * 2 * 2
    narrow = {"models": ("resnet50",), "batch_sizes": (8,), "precisions": (Precision.FP32,)}
    found = judged(report, limit(Figure.THROUGHPUT, **narrow))
    assert {(one.model_name, one.batch_size, one.precision) for one in found} == {("resnet50", 8, "fp32")}
    assert len(found) == 2


@pytest.mark.parametrize(
    ("threshold", "note"),
    [
        (limit(Figure.THROUGHPUT, models=("resnet5",)), "no cell of the run is meant by it"),
        (limit(Figure.THROUGHPUT, precisions=(Precision.BF16,)), "no cell of the run is meant by it"),
        (limit(Figure.LATENCY, Workload.TRAINING, models=("resnet50",)), "not among the figures of this cell"),
        (
            limit(Figure.THROUGHPUT, Workload.TRAINING, models=("gpt2",), batch_sizes=(8,)),
            "ran at batch size 4",
        ),
    ],
)
def test_what_no_figure_stands_for_is_not_met(report: Report, threshold: Threshold, note: str) -> None:
    """A mistyped model, a figure that this phase has not, another batch size."""
    found = judged(report, threshold)
    assert {(one.status, one.actual, one.note) for one in found} == {(Met.NOT_MEASURED, None, note)}


def test_without_telemetry_a_limit_of_it_is_not_met(tmp_path: Path) -> None:
    """With what the report says about the readings."""
    run = FakeRun(tmp_path, batch_sizes=(1,), telemetry_note="monitoring was switched off")
    run.measured(run.cell(batch_size=1))
    run.finish()
    found = judged(run.report(), limit(Figure.UTILIZATION, above=80))
    assert [one.status for one in found] == [Met.NOT_MEASURED]
    assert found[0].note


def one_cell(folder: Path, *, watched: bool, devices: tuple[Device, ...] = ()) -> Report:
    """The report of a run of one cell. watched: with telemetry."""
    run = FakeRun(folder, devices=devices, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1), blocks=20)
    if watched:
        run.samples()
    run.finish()
    return run.report()


UNSTEADY = "times were not steady after warm-up"


@pytest.mark.parametrize(
    ("changes", "fault", "remedy"),
    [
        ({"steady_state": "none"}, UNSTEADY, "measure longer, as with --profile rigorous"),
        ({"contaminated": True}, "contaminated by another process", "measure it alone"),
        ({"throttled": True}, "throttled", "let it cool, and measure again"),
    ],
)
def test_nothing_is_built_on_times_of_a_cell_at_fault(
    tmp_path: Path, changes: dict[str, object], fault: str, remedy: str
) -> None:
    """Such a limit is not measured, with what to do; the memory that it took stays, and so do power and heat."""
    report = one_cell(tmp_path, watched=True)
    [result] = report.results
    metrics = {name: replace(metric, **changes) for name, metric in result.inference_metrics.items()}
    report = replace(report, results=(replace(result, inference_metrics=metrics),))
    samples = {Figure.EPOCH_TIME: {"samples_per_epoch": 5}}
    of_inference = {figure for figure in Figure if Workload.INFERENCE in FIGURES[figure].phases}
    figures = of_inference - {Figure.OF_SOLO}  # of one device alone there is none
    found = {figure: judged(report, limit(figure, at_least=1e-9, **samples.get(figure, {})))[0] for figure in figures}
    known = {Figure.MEMORY, Figure.UTILIZATION, Figure.POWER, Figure.TEMPERATURE}
    assert {figure for figure, one in found.items() if one.status is Met.MET} == known
    assert {one.note for figure, one in found.items() if figure in known} == {fault}
    others = [one for figure, one in found.items() if figure not in known]
    assert {(one.status, one.actual, one.note) for one in others} == {(Met.NOT_MEASURED, None, f"{fault}: {remedy}")}
    assert list(thresholds.missed(others[:1])) == [
        f"1 threshold could not be held against any figure: a limit ({fault}: {remedy})"
    ]


def test_a_device_alone_that_never_became_steady_is_no_measure_of_the_full_node(tmp_path: Path) -> None:
    """Nor is one that was throttled: the limit says what stands against the cell beside it."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,), modes=(Mode.LOADED, Mode.SOLO))
    for cell in run.stored.plan.cells:
        alone = cell.mode is Mode.SOLO and cell.devices[0] == run.stored.devices[1].uuid
        run.measured(cell, steady_state=SteadyState.NONE if alone else SteadyState.REACHED)
    run.finish()
    found = judged(run.report(), limit(Figure.OF_SOLO, at_least=90))
    assert [one.status for one in found] == [Met.MET, Met.NOT_MEASURED]
    assert found[1].note == "not steady after warm-up: solo"


@pytest.mark.parametrize("own", [0, 1, 2])
def test_a_sibling_at_fault_is_no_measure_of_the_others(tmp_path: Path, own: int) -> None:
    """The median that they are held against would be made of it: the note names it, and its own what to do."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(8,))
    for cell in run.stored.plan.cells:
        unsteady = cell.devices[0] == run.stored.devices[1].uuid
        run.measured(cell, steady_state=SteadyState.NONE if unsteady else SteadyState.REACHED)
    run.finish()
    found = judged(run.report(), limit(Figure.OF_SIBLINGS, at_least=90))[own]
    note = f"{UNSTEADY}: measure longer, as with --profile rigorous" if own == 1 else f"GPU 1: {UNSTEADY}"
    assert (found.gpu_id, found.status, found.actual, found.note) == (own, Met.NOT_MEASURED, None, note)


def test_a_sibling_that_is_left_out_of_the_median_leaves_the_limit_to_the_others(tmp_path: Path) -> None:
    """One of three that was throttled costs its own limit alone; of two it is why the other one has none."""
    for count, statuses in ((3, [Met.MET, Met.NOT_MEASURED, Met.MET]), (2, [Met.NOT_MEASURED] * 2)):
        run = FakeRun(tmp_path / str(count), devices=gpus(count), batch_sizes=(8,))
        for cell in run.stored.plan.cells:
            run.measured(cell, blocks=20)
        for at in range(count):
            run.samples(at, reasons=0x40 if at == 1 else 0)
        run.finish()
        found = judged(run.report(), limit(Figure.OF_SIBLINGS, at_least=90))
        assert [one.status for one in found] == statuses
        assert found[0].note == ("" if count == 3 else "GPU 1: throttled")


def test_a_limit_on_siblings_is_told_that_nobody_watched_one_of_them(tmp_path: Path) -> None:
    """One that was held down makes the others look good; that nobody watched the GPU itself has words of its own."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    for cell in run.stored.plan.cells:
        run.measured(cell, blocks=20)
    run.samples(0)
    run.samples(1)
    run.finish()
    report = run.report()
    watched, other = report.results
    metrics = {name: replace(metric, throttled=None) for name, metric in other.inference_metrics.items()}
    report = replace(report, results=(watched, replace(other, inference_metrics=metrics)))
    found = judged(report, limit(Figure.OF_SIBLINGS, at_least=90))
    notes = [thresholds.BLIND_SIBLINGS, "whether it was throttled is not known"]
    assert [(one.status, one.note) for one in found] == [(Met.MET, note) for note in notes]
    assert [one.note for one in judged(report, limit(Figure.THROUGHPUT, at_least=1))] == ["", notes[1]]


def test_of_many_reasons_two_are_told(report: Report) -> None:
    """And how many more there are; of limits that are missed none is."""
    notes = ("hot", "busy", "hot", "dusty", "wet")
    found = [replace(judged(report, limit(Figure.THROUGHPUT))[0], status=Met.NOT_MEASURED, actual=None)] * 5
    found = [replace(one, note=note) for one, note in zip(found, notes, strict=True)]
    [told] = thresholds.missed(found)
    assert told.endswith("any figure: a limit (hot; busy; and 2 other reasons)")
    assert list(thresholds.missed(judged(report, limit(Figure.THROUGHPUT))[:1])) == ["1 threshold missed: a limit"]


def test_a_limit_is_told_that_nobody_watched_the_cell(tmp_path: Path) -> None:
    """Beside the figure, as heat would be; a CPU device has nothing to be watched."""
    asked = limit(Figure.FORWARD_TIME, below=50.0)
    reports = {
        "whether it was throttled is not known": one_cell(tmp_path / "blind", watched=False),
        "": one_cell(tmp_path / "watched", watched=True),
    }
    for note, report in reports.items():
        assert [(one.status, one.note) for one in judged(report, asked)] == [(Met.MET, note)]
    [on_cpu] = judged(one_cell(tmp_path / "cpu", watched=False, devices=cpus(1)), asked)
    assert (on_cpu.status, on_cpu.note) == (Met.MET, "")


def test_a_limit_on_the_baseline_is_told_that_nobody_watched_the_baseline(tmp_path: Path) -> None:
    """One that was held down makes the run look good; of other figures nothing is said of it."""
    report = one_cell(tmp_path / "run", watched=True)
    baseline = run_figures.of_report(one_cell(tmp_path / "old", watched=False), "old")
    held = baselines.hold(run_figures.of_report(report, "run"), baseline)
    limits = [limit(figure, at_least=1.0) for figure in (Figure.OF_BASELINE, Figure.THROUGHPUT)]
    found = list(thresholds.judge(report, limits, held))
    assert [(one.status, one.note) for one in found] == [(Met.MET, thresholds.BLIND_BASELINE), (Met.MET, "")]
    itself = baselines.hold(run_figures.of_report(report, "run"), run_figures.of_report(report, "old"))
    assert [one.note for one in thresholds.judge(report, limits, itself)] == ["", ""]


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_example_has_the_limits_of_the_requirements() -> None:
    """Latency below 100 ms, 1 s for 32; 100 samples/s; 2 and 8 GB; an epoch in 300 s; utilisation above 80 %."""
    found = thresholds.load(configs_folder() / "thresholds" / "example.yaml", (), ())
    assert {(one.figure, one.phase, one.limit[1]) for one in found} == {
        (Figure.LATENCY, Workload.INFERENCE, 100),
        (Figure.LATENCY, Workload.INFERENCE, 1000),
        (Figure.THROUGHPUT, Workload.INFERENCE, 100),
        (Figure.MEMORY, Workload.INFERENCE, 2),
        (Figure.EPOCH_TIME, Workload.TRAINING, 300),
        (Figure.UTILIZATION, Workload.TRAINING, 80),
        (Figure.MEMORY, Workload.TRAINING, 8),
    }


MODELS = ("resnet50", "gpt2")
PROBES = ("gemm", "hbm")
GOOD = """thresholds:
  - name: quick
    figure: latency_ms
    phase: inference
    below: 100
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("latency_ms", "latency", "line 3, .*figure: expected"),
        ("inference", "soak", "line 2, .*phase: expected load, inference, training or generation, got soak"),
        ("below: 100", "below: fast", "line 5, .*below: expected a number"),
        ("below: 100", "below: .nan", "line 5, .*not a finite number"),
        ("below: 100", "below: 100\n    above: 5", "line 2, .*expected one of .*, got below and above"),
        ("    below: 100\n", "", "line 2, .*expected one of below, at_most, above or at_least, got none"),
        ("below: 100", "beneath: 100", "beneath: there is no such key"),
        ("below: 100", "below: 100\n    batch_sizes: [0]", "batch_sizes.*expected"),
        ("below: 100", "below: 100\n    precisions: [fp33]", "precisions"),
        ("below: 100", "below: 100\n    samples_per_epoch: 5", "samples_per_epoch belongs to epoch_time_s"),
        ("latency_ms", "epoch_time_s", "samples_per_epoch belongs to epoch_time_s"),
        ("inference", "training", "line 2, .*latency_ms is one of inference. Of training there is forward_time_ms,"),
        ("latency_ms", "tokens_per_second", "tokens_per_second is one of generation. Of inference there is latency_ms"),
        ("below: 100", "below: 100\n    models: [gpt2, resnet5o]", "line 6, .*no model named 'resnet5o'. Did you mean"),
        ("below: 100", "below: 100\n    models: [gpt2, hbm]", "line 6, .*hbm is a probe, and only models have limits$"),
        ("below: 100", "at_least: -5", "line 2, .*at_least: .* got -5: latency_ms is 0 or more"),
        ("below: 100", "at_least: 0", "at_least: expected a limit that can be missed, got 0"),
        ("below: 100", "above: -1", "above: expected a limit that can be missed"),
        ("thresholds:", "limits:", "there is no such key"),
        (GOOD, "thresholds: []\n", "there is no threshold in it"),
        (GOOD, GOOD + GOOD.removeprefix("thresholds:\n"), "line 6, .*quick is given twice"),
        (GOOD, "thresholds: &a [*a]\n", "aliases"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    """File, line and key of what is wrong."""
    path = tmp_path / "limits.yaml"
    path.write_text(GOOD)
    assert len(thresholds.load(path, MODELS, PROBES)) == 1
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        thresholds.load(path, MODELS, PROBES)
    assert str(caught.value).startswith(str(path))
