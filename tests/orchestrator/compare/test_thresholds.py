"""Limits: the file that people write, and what they mean for each cell."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.compare import baselines, run_figures, thresholds
from orchestrator.compare.limit_targets import TARGETS
from orchestrator.compare.thresholds import Threshold
from orchestrator.config.catalogue import configs_folder
from orchestrator.errors import ConfigError
from orchestrator.figures.comparisons import Met, ThresholdResult
from orchestrator.figures.exit_code import Cause, CauseKind
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from protocol.cell import Device, Mode, Precision, Workload
from protocol.failure import Category
from protocol.result import SteadyState
from tests.fakes.operator_runs import OperatorRun, right
from tests.fakes.runs import FakeRun, cpus, gpus, shipped
from tests.fakes.study_runs import StudyRun

PHASES = (Workload.LOAD, Workload.INFERENCE, Workload.TRAINING, Workload.GENERATION)
EVERY = (*PHASES, Workload.OPERATOR)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two GPUs, of which the second is a tenth slower; one cell ran at half its batch, with telemetry."""
    run = FakeRun(
        tmp_path_factory.mktemp("thresholds"),
        devices=gpus(2),
        models=shipped("resnet50", "gpt2"),
        workloads=PHASES,
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
    of_operators = OperatorRun(tmp_path_factory.mktemp("operators"), "softmax", devices=gpus(2))
    for cell in of_operators.operators:
        of_operators.did(cell, *(right(name, 2.0) for name in ("small", "medium", "large")))
    of_study = StudyRun(tmp_path_factory.mktemp("study"), devices=gpus(2))
    for cell in of_study.stored.plan.cells:
        of_study.did(cell, 2.0)
    return replace(run.ended(), operators=of_operators.ended().operators, study=of_study.ended().study)


def limit(figure: LimitName, phase: Workload = Workload.INFERENCE, **more: object) -> Threshold:
    """A limit that nothing reaches."""
    bound = {} if {"below", "at_most", "above", "at_least"} & more.keys() else {"above": 1e12}
    return Threshold(name="a limit", figure=figure, phase=phase, **bound, **more)


def judged(report: Report, threshold: Threshold) -> list[ThresholdResult]:
    """The results of one limit."""
    return list(thresholds.judge(report, [threshold], None))


def of_solo(folder: Path, factor: Callable[[Mode, int], float], unsteady: Callable[[Mode, int], bool]) -> Report:
    """Two GPUs alone and with all at work; by mode and GPU: how long it takes, and whether it is never steady."""
    run = FakeRun(folder, devices=gpus(2), batch_sizes=(8,), modes=(Mode.LOADED, Mode.SOLO))
    for cell in run.stored.plan.cells:
        which = cell.mode, int(cell.devices[0] == run.stored.devices[1].uuid)
        state = SteadyState.NONE if unsteady(*which) else SteadyState.REACHED
        run.measured(cell, forward_ms=10.0 * factor(*which), steady_state=state)
    return run.ended()


def test_throughput_scales_over_the_node_or_the_limit_is_missed(tmp_path: Path) -> None:
    """With all at work GPU 1 does 80 % of what it does alone; solo cells are the reference and have no limit."""
    report = of_solo(tmp_path, lambda mode, gpu: 1.25 if mode is Mode.LOADED and gpu else 1, lambda *_: False)
    found = judged(report, limit(LimitName.OF_SOLO, at_least=90))
    assert [(one.gpu_id, one.status) for one in found] == [(0, Met.MET), (1, Met.MISSED)]
    assert [one.actual for one in found] == [pytest.approx(100), pytest.approx(80)]


def test_cells_that_scaling_cannot_tell_apart_are_not_judged(tmp_path: Path) -> None:
    """Such as two compile modes: a limit must not pass by the figure of the other one."""
    report = of_solo(tmp_path, lambda *_: 1.0, lambda *_: False)
    twice = replace(report, full_node=report.full_node * 2)
    assert {one.status for one in judged(twice, limit(LimitName.OF_SOLO, at_least=90))} == {Met.NOT_MEASURED}


def test_a_run_of_one_mode_has_no_figure_of_scaling(report: Report) -> None:
    """Not measured, with the option that measures it."""
    found = judged(report, limit(LimitName.OF_SOLO))
    assert {one.status for one in found} == {Met.NOT_MEASURED}
    assert sum("mode: [loaded, solo]" in one.note for one in found) >= len(found) - 2


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("figure", "phase", "actual"),
    [
        (LimitName.LATENCY, Workload.INFERENCE, 15.0),
        (LimitName.FORWARD_TIME, Workload.TRAINING, 10.0),
        (LimitName.ITERATION_TIME, Workload.TRAINING, 32.5),
        (LimitName.ITERATION_TIME_P95, Workload.INFERENCE, 10.0),
        (LimitName.ITERATION_TIME_P99, Workload.INFERENCE, 10.0),
        (LimitName.LOAD_TIME, Workload.LOAD, 80.0),
        (LimitName.FIRST_TOKEN, Workload.GENERATION, 50.0),
        (LimitName.THROUGHPUT, Workload.INFERENCE, 100.0),
        (LimitName.MEMORY, Workload.INFERENCE, 900 / 1024),
        (LimitName.UTILIZATION, Workload.INFERENCE, 98.0),
        (LimitName.POWER, Workload.INFERENCE, 690.0),
        (LimitName.TEMPERATURE, Workload.INFERENCE, 61.0),
        (LimitName.ENERGY, Workload.INFERENCE, 6.9),
        (LimitName.CALL_TIME, Workload.OPERATOR, 2.0),
    ],
)
def test_every_figure_is_read_from_the_report(
    report: Report, figure: LimitName, phase: Workload, actual: float
) -> None:
    """In the unit that its name says, of the first GPU's first model at batch 1."""
    found = judged(report, limit(figure, phase, batch_sizes=(1,)))[0]
    assert found.actual == pytest.approx(actual, rel=0.02)
    assert (found.status, found.gpu_id, found.phase) == (Met.MISSED, 0, phase)


@pytest.mark.parametrize("figure", LimitName)
def test_every_phase_has_the_figures_that_may_be_limited(report: Report, figure: LimitName) -> None:
    """And no other: what a file may name can be measured, and what it may not name never is."""
    run = run_figures.of_report(report, "run")
    held = baselines.hold(run, run)
    samples = {"samples_per_epoch": 5} if figure is LimitName.EPOCH_TIME else {}
    asked = {phase: limit(figure, phase, **samples) for phase in EVERY}
    if figure not in {LimitName.OF_SOLO, LimitName.COLD_COMPILE}:  # which a run of both modes, or compiled, alone has
        known = {
            phase
            for phase, one in asked.items()
            if any(found.actual is not None for found in thresholds.judge(report, [one], held))
        }
        assert known == set(TARGETS[figure].phases)
    assert [phase for phase, one in asked.items() if not thresholds.pointless(one)] == [
        phase for phase in EVERY if phase in TARGETS[figure].phases
    ]


@pytest.mark.parametrize(
    ("figure", "bound", "value", "sound"),
    [
        (LimitName.THROUGHPUT, "at_least", 0.0, False),
        (LimitName.THROUGHPUT, "at_least", 0.1, True),
        (LimitName.THROUGHPUT, "above", 0.0, True),
        (LimitName.THROUGHPUT, "at_most", 0.0, True),
        (LimitName.UTILIZATION, "at_most", 100.0, False),
        (LimitName.UTILIZATION, "below", 100.0, True),
        (LimitName.UTILIZATION, "below", 101.0, False),
        (LimitName.TEMPERATURE, "at_least", -5.0, True),
    ],
)
def test_a_limit_can_be_missed(figure: LimitName, bound: str, value: float, *, sound: bool) -> None:
    """Or it is a mistake: a temperature may be below zero, nothing else is, and no more than all of a GPU is used."""
    assert (thresholds.pointless(limit(figure, **{bound: value})) == "") is sound


def test_an_epoch_takes_its_samples_at_the_measured_rate(report: Report) -> None:
    """50,000 samples at 100 a second; tokens are those of the report."""
    found = judged(report, limit(LimitName.EPOCH_TIME, samples_per_epoch=50_000, batch_sizes=(1,)))[0]
    assert (found.actual, found.unit) == (pytest.approx(500, rel=0.01), "s")
    tokens = judged(report, limit(LimitName.TOKENS, Workload.GENERATION))[0]
    result = next(one for one in report.results if one.generation_metrics)
    assert tokens.actual == result.generation_metrics["batch_size_1"].tokens_per_second


def test_speed_is_compared_with_siblings_and_a_baseline(report: Report) -> None:
    """In percent: of the median of identical GPUs, and of the same cell of the baseline."""
    siblings = judged(report, limit(LimitName.OF_SIBLINGS, batch_sizes=(1,), models=("resnet50",), at_least=99))
    loads = judged(report, limit(LimitName.OF_SIBLINGS, Workload.LOAD, models=("resnet50",), at_least=99))
    run = run_figures.of_report(report, "run")
    wanted = limit(LimitName.OF_BASELINE, batch_sizes=(1,), models=("resnet50",), at_least=100)
    of_baseline = list(thresholds.judge(report, [wanted], baselines.hold(run, run)))
    for found in (siblings, loads, of_baseline):
        assert [one.status for one in found] == [Met.MET, Met.MISSED]
    assert siblings[1].actual == pytest.approx(100 / 1.1 / ((1 + 1 / 1.1) / 2), rel=0.01)
    assert {(one.status, one.note) for one in judged(report, wanted)} == {(Met.NOT_MEASURED, "no baseline")}


# ── bounds, cells ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bound", "sign", "over"),
    [("below", "<", False), ("at_most", "<=", False), ("above", ">", True), ("at_least", ">=", True)],
)
def test_a_figure_is_on_one_side_of_its_limit(report: Report, bound: str, sign: str, over: bool) -> None:
    """Each of the four words, both ways; at_most and at_least include the limit."""
    exactly = judged(report, limit(LimitName.FORWARD_TIME))[0].actual
    assert exactly is not None
    found = [judged(report, limit(LimitName.FORWARD_TIME, **{bound: value}))[0] for value in (5.0, exactly, 20.0)]
    assert [one.status is Met.MET for one in found] == [over, "=" in sign, not over]
    assert (found[0].target, found[2].target) == (f"{sign} 5 ms", f"{sign} 20 ms")


def test_a_limit_means_the_cells_that_it_describes(report: Report) -> None:
    """All of its phase where it names none."""
    cells = sum(len(result.inference_metrics) for result in report.results)
    assert len(judged(report, limit(LimitName.THROUGHPUT))) == cells
    narrow = {"models": ("resnet50",), "batch_sizes": (8,), "precisions": (Precision.FP32,)}
    found = judged(report, limit(LimitName.THROUGHPUT, **narrow))
    assert [(one.gpu_id, one.model_name, one.batch_size, one.precision) for one in found] == [
        (gpu, "resnet50", 8, "fp32") for gpu in (0, 1)
    ]


@pytest.mark.parametrize(
    "threshold",
    [
        limit(LimitName.THROUGHPUT, models=("resnet5",)),
        limit(LimitName.THROUGHPUT, precisions=(Precision.BF16,)),
        limit(LimitName.LATENCY, Workload.TRAINING, models=("resnet50",)),
        limit(LimitName.THROUGHPUT, Workload.TRAINING, models=("gpt2",), batch_sizes=(8,)),
    ],
    ids=["a mistyped model", "a precision", "a figure of another phase", "another batch size"],
)
def test_a_limit_without_a_figure_is_not_measured(report: Report, threshold: Threshold) -> None:
    """With one reason."""
    (note,) = {one.note for one in judged(report, threshold)}
    assert note
    assert {(one.status, one.actual) for one in judged(report, threshold)} == {(Met.NOT_MEASURED, None)}


def test_without_telemetry_a_limit_of_it_is_not_measured(tmp_path: Path) -> None:
    """With the note of the report on its readings."""
    run = FakeRun(tmp_path, batch_sizes=(1,), telemetry_note="monitoring was off")
    run.measured(run.cell(batch_size=1))
    (found,) = judged(run.ended(), limit(LimitName.UTILIZATION, above=80))
    assert (found.status, found.note != "") == (Met.NOT_MEASURED, True)


def one_cell(folder: Path, *, watched: bool, devices: tuple[Device, ...] = ()) -> Report:
    """The report of a run of one cell. watched: with telemetry."""
    run = FakeRun(folder, devices=devices, batch_sizes=(1,))
    run.measured(run.cell(batch_size=1), blocks=20)
    if watched:
        run.samples()
    return run.ended()


@pytest.mark.parametrize(
    ("changes", "fault", "remedy"),
    [
        ({"steady_state": "none"}, "times were not", "--profile rigorous"),
        ({"contaminated": True}, "contaminated", "end "),
        ({"throttled": True}, "throttled", "cool"),
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
    samples = {LimitName.EPOCH_TIME: {"samples_per_epoch": 5}}
    of_inference = {figure for figure in LimitName if Workload.INFERENCE in TARGETS[figure].phases}
    figures = of_inference - {LimitName.OF_SOLO, LimitName.COLD_COMPILE}  # of an eager cell alone there is none
    found = {figure: judged(report, limit(figure, at_least=1e-9, **samples.get(figure, {})))[0] for figure in figures}
    known = {LimitName.MEMORY, LimitName.UTILIZATION, LimitName.POWER, LimitName.TEMPERATURE}
    assert {figure for figure, one in found.items() if one.status is Met.MET} == known
    [noted] = {one.note for figure, one in found.items() if figure in known}
    assert noted.startswith(fault)
    others = [one for figure, one in found.items() if figure not in known]
    [(status, actual, note)] = {(one.status, one.actual, one.note) for one in others}
    assert (status, actual) == (Met.NOT_MEASURED, None)
    assert (note.startswith(f"{noted} ("), remedy in note) == (True, True)
    (cause,) = thresholds.causes(others[:1])
    assert (cause.text[0], note in cause.text) == ("1", True)


def test_a_device_that_is_unsteady_alone_is_no_measure_of_the_full_node(tmp_path: Path) -> None:
    """The note has the fault and the mode."""
    report = of_solo(tmp_path, lambda *_: 1.0, lambda mode, gpu: mode is Mode.SOLO and gpu == 1)
    found = judged(report, limit(LimitName.OF_SOLO, at_least=90))
    assert [one.status for one in found] == [Met.MET, Met.NOT_MEASURED]
    assert found[1].note == f"not steady after warm-up: {Mode.SOLO}"


def test_a_sibling_at_fault_is_no_measure_of_the_others(tmp_path: Path) -> None:
    """The median would be made of it: the notes of the others name it, and its own has the remedy."""
    run = FakeRun(tmp_path, devices=gpus(3), batch_sizes=(8,))
    for cell in run.stored.plan.cells:
        unsteady = cell.devices[0] == run.stored.devices[1].uuid
        run.measured(cell, steady_state=SteadyState.NONE if unsteady else SteadyState.REACHED)
    found = judged(run.ended(), limit(LimitName.OF_SIBLINGS, at_least=90))
    assert [(one.gpu_id, one.status, one.actual) for one in found] == [(at, Met.NOT_MEASURED, None) for at in range(3)]
    assert [one.note.startswith("GPU 1: ") for one in found] == [True, False, True]
    assert "--profile rigorous" in found[1].note


@pytest.mark.parametrize(
    ("count", "statuses"), [(3, [Met.MET, Met.NOT_MEASURED, Met.MET]), (2, [Met.NOT_MEASURED] * 2)]
)
def test_a_throttled_sibling_is_in_no_median(tmp_path: Path, count: int, statuses: list[Met]) -> None:
    """One of three costs only its own limit; of two it is why the other one has none."""
    run = FakeRun(tmp_path, devices=gpus(count), batch_sizes=(8,))
    run.everything(factor=lambda *_: 1.0, blocks=20)
    for at in range(count):
        run.samples(at, reasons=0x40 if at == 1 else 0)
    found = judged(run.ended(), limit(LimitName.OF_SIBLINGS, at_least=90))
    assert [one.status for one in found] == statuses
    assert found[0].note == ("" if count == 3 else "GPU 1: throttled")


def test_a_limit_on_siblings_has_a_note_where_one_had_no_telemetry(tmp_path: Path) -> None:
    """One that was held down makes the others look good; the GPU itself has a note of its own."""
    run = FakeRun(tmp_path, devices=gpus(2), batch_sizes=(8,))
    run.everything(factor=lambda *_: 1.0, blocks=20)
    run.samples(0)
    run.samples(1)
    report = run.ended()
    watched, other = report.results
    metrics = {name: replace(metric, throttled=None) for name, metric in other.inference_metrics.items()}
    report = replace(report, results=(watched, replace(other, inference_metrics=metrics)))
    found = judged(report, limit(LimitName.OF_SIBLINGS, at_least=90))
    assert [(one.status, one.note) for one in found] == [(Met.MET, thresholds.BLIND_SIBLINGS), (Met.MET, BLIND)]
    assert [one.note for one in judged(report, limit(LimitName.THROUGHPUT, at_least=1))] == ["", BLIND]


def test_of_many_reasons_two_are_named(report: Report) -> None:
    """And how many more there are; of limits that are missed none is."""
    missed = judged(report, limit(LimitName.THROUGHPUT))[0]
    unmeasured = replace(missed, status=Met.NOT_MEASURED, actual=None)
    [cause] = thresholds.causes([replace(unmeasured, note=note) for note in ("hot", "busy", "hot", "dusty", "wet")])
    assert re.search(r'"a limit"\..* hot; busy; 2 more', cause.text)
    assert list(thresholds.causes([missed])) == [
        Cause(kind=CauseKind.MISSED, text='1 threshold missed (1 cell concerned): "a limit"')
    ]


BLIND = "throttling unknown"


@pytest.mark.parametrize(("watched", "devices", "note"), [(False, (), BLIND), (True, (), ""), (False, cpus(1), "")])
def test_a_limit_has_a_note_where_its_cell_had_no_telemetry(
    tmp_path: Path, watched: bool, devices: tuple[Device, ...], note: str
) -> None:
    """As heat would have; a CPU device has nothing to be watched."""
    [found] = judged(one_cell(tmp_path, watched=watched, devices=devices), limit(LimitName.FORWARD_TIME, below=50.0))
    assert (found.status, found.note) == (Met.MET, note)


def test_a_limit_on_the_baseline_is_told_that_nobody_watched_the_baseline(tmp_path: Path) -> None:
    """One that was held down makes the run look good; other figures have no such note."""
    report = one_cell(tmp_path / "run", watched=True)
    baseline = run_figures.of_report(one_cell(tmp_path / "old", watched=False), "old")
    held = baselines.hold(run_figures.of_report(report, "run"), baseline)
    limits = [limit(figure, at_least=1.0) for figure in (LimitName.OF_BASELINE, LimitName.THROUGHPUT)]
    found = list(thresholds.judge(report, limits, held))
    assert [(one.status, one.note) for one in found] == [(Met.MET, thresholds.BLIND_BASELINE), (Met.MET, "")]
    itself = baselines.hold(run_figures.of_report(report, "run"), run_figures.of_report(report, "old"))
    assert [one.note for one in thresholds.judge(report, limits, itself)] == ["", ""]


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_example_has_the_limits_of_the_requirements() -> None:
    """Latency below 100 ms, 1 s for 32; 100 samples/s; 2 and 8 GB; an epoch in 300 s; utilisation above 80 %."""
    found = thresholds.load(configs_folder() / "thresholds" / "example.yaml", (), ())
    assert {(one.figure, one.phase, one.limit[1]) for one in found} == {
        (LimitName.LATENCY, Workload.INFERENCE, 100),
        (LimitName.LATENCY, Workload.INFERENCE, 1000),
        (LimitName.THROUGHPUT, Workload.INFERENCE, 100),
        (LimitName.MEMORY, Workload.INFERENCE, 2),
        (LimitName.EPOCH_TIME, Workload.TRAINING, 300),
        (LimitName.UTILIZATION, Workload.TRAINING, 80),
        (LimitName.MEMORY, Workload.TRAINING, 8),
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
        ("inference", "soak", "line 2, .*phase: .*, got soak"),
        ("below: 100", "below: fast", "line 5, .*below: expected a number"),
        ("below: 100", "below: .nan", "line 5, .*not a finite number"),
        ("below: 100", "below: 100\n    above: 5", "line 2, .* below and above"),
        ("    below: 100\n", "", "line 2, .*at_least, got none"),
        ("below: 100", "beneath: 100", "beneath: .*no such key"),
        ("below: 100", "below: 100\n    batch_sizes: [0]", "batch_sizes.*expected"),
        ("below: 100", "below: 100\n    precisions: [fp33]", "precisions"),
        ("below: 100", "below: 100\n    samples_per_epoch: 5", "epoch_time_s .*samples_per_epoch"),
        ("latency_ms", "epoch_time_s", "epoch_time_s .*samples_per_epoch"),
        ("inference", "training", "line 2, .*latency_ms .*inference.* training: .*forward_time_ms,"),
        ("latency_ms", "tokens_per_second", "tokens_per_second .*generation.* inference: .*latency_ms"),
        ("below: 100", "below: 100\n    models: [gpt2, resnet5o]", "line 6, .*'resnet5o'. Did you mean"),
        ("below: 100", "at_least: -5", "line 2, .*at_least: -5 .*latency_ms "),
        ("below: 100", "at_least: 0", "at_least: 0 .*missed"),
        ("below: 100", "above: -1", "above: -1 .*missed"),
        ("thresholds:", "limits:", "no such key"),
        (GOOD, GOOD + GOOD.removeprefix("thresholds:\n"), "line 6, .*quick .*twice"),
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
