"""What a run is held against: baselines with their score, costs, and how both reach the report."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from orchestrator.compare import baselines, costs, references, run_figures
from orchestrator.compare.comparison import compare
from orchestrator.compare.references import Against
from orchestrator.compare.thresholds import Threshold
from orchestrator.config import margins
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.figures.cells import Status
from orchestrator.figures.comparisons import Met
from orchestrator.figures.exit_code import Cause, CauseKind, run_verdict
from orchestrator.figures.table import LimitName
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_text import to_text
from orchestrator.report.chapters import comparisons
from orchestrator.report.text import WIDTH
from orchestrator.run_reports import report_reader, reporting
from protocol.cell import Mode, Workload
from protocol.exit_codes import ExitCode
from protocol.failure import Category
from tests.fakes.runs import FakeRun, cpus, gpus, shipped
from tests.fakes.sides import STACK, cell, device, side

GENERATING = (Workload.INFERENCE, Workload.GENERATION)
EARLIER = "20260101-000000-000000"
"""Another run than those made here, which have one id."""


def made(folder: Path, *, forward_ms: float = 10.0, devices: int = 1, energy: bool = False) -> FakeRun:
    """A run that is over, of two models."""
    run = FakeRun(
        folder, devices=gpus(devices), models=shipped("resnet50", "gpt2"), workloads=GENERATING, batch_sizes=(1,)
    )
    for one in run.stored.plan.cells:
        run.measured(one, forward_ms=forward_ms, blocks=20 if energy else 10)
    if energy:
        run.samples()
    run.finish()
    return run


# ── baselines ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_score_is_a_hundred_times_the_geometric_mean() -> None:
    """One cell twice as fast, one half as fast, one 21 % faster: for each model, and over all."""
    before = side(cell("a", 100.0), cell("a", 100.0, batch_size=1, ran_at=1), cell("b", 100.0))
    run = side(cell("a", 200.0), cell("a", 50.0, batch_size=1, ran_at=1), cell("b", 133.1))
    found = baselines.hold(run, before).comparison
    assert found.improvement_percent == {
        "a_throughput": pytest.approx(0),
        "b_throughput": pytest.approx(33.1),
        "overall": pytest.approx(10),
    }
    assert (found.overall_score, found.cells) == (pytest.approx(110), 3)


def test_a_score_compares_other_gpus(tmp_path: Path) -> None:
    """A baseline of another model of GPU compares; other cells, and faulty ones, are excluded and counted."""
    v100 = device(gpu_name="V100", memory_mb=1.0)
    unknown, hot = cell("a", 100.0, throttled=None), cell("b", 100.0, throttled=True)
    before = side(unknown, hot, devices=(v100,), run_id=EARLIER)
    degraded = cell("a", 1.0, batch_size=9, ran_at=4, status=Status.DEGRADED)
    found = baselines.hold(side(cell("a", 245.2), cell("b", 100.0), cell("c", 100.0), degraded), before).comparison
    assert found.baseline_gpu == "V100"
    kind, watched = found.note.split("; ")
    assert ("another GPU model" in kind, "1 of 1 cell" in watched) == (True, True)
    assert found.improvement_percent == {"a_throughput": pytest.approx(145.2), "overall": pytest.approx(145.2)}
    assert [*found.not_comparable.values()] == [1, 1, 1]
    for fact in ("throttled", "the baseline", "smaller batch"):
        assert any(fact in reason for reason in found.not_comparable)


def test_several_gpus_are_taken_together_by_their_median() -> None:
    """On both sides; a time counts as its inverse."""
    two = (device(0), device(1), device(2))
    timed = {"phase": Workload.OPERATOR, "metric": "time_ms"}
    times = [cell("a", ms, gpu_uuid=f"GPU-{at}", **timed) for at, ms in enumerate((10.0, 20.0, 400.0))]
    found = baselines.hold(side(*times, devices=two), side(cell("a", 40.0, **timed)))
    assert found.comparison.overall_score == pytest.approx(200)
    key = times[0].key
    assert found.by_device == {
        ("GPU-0", key): pytest.approx(4),
        ("GPU-1", key): pytest.approx(2),
        ("GPU-2", key): pytest.approx(0.1),
    }


@pytest.mark.parametrize(
    ("run", "before", "unknown"),
    [(False, False, 0), (None, False, 1), (False, None, 1), (None, None, 1), (True, None, 0)],
)
def test_a_score_has_the_number_of_cells_without_telemetry(run: bool | None, before: bool | None, unknown: int) -> None:
    """They count: the speeds were measured. A throttled cell is excluded, and not part of that number."""
    earlier = side(cell("a", throttled=before), cell("b"), run_id=EARLIER)
    found = baselines.hold(side(cell("a", throttled=run), cell("b")), earlier).comparison
    assert (f"{unknown} of 2 cells" in found.note, found.note == "") == (unknown > 0, unknown == 0)
    assert (found.cells, found.overall_score) == (1 if run else 2, pytest.approx(100))
    on_cpu = side(cell(throttled=run), devices=(device(kind="cpu"),))  # which has nothing to watch
    assert baselines.hold(on_cpu, msgspec.structs.replace(on_cpu, run_id=EARLIER)).comparison.note == ""


@pytest.mark.parametrize("which", ["run", "baseline"])
def test_no_score_is_made_of_faulty_cells(which: str) -> None:
    """Unsteady and contaminated ones are excluded, with their number and the reason. Where none is left, no score."""
    healthy = side(cell("a"), cell("b"), cell("c"))
    faulty = side(cell("a", 300.0, steady=False), cell("b", 300.0, contaminated=True), cell("c"))
    none = side(cell("a", steady=False))
    found, empty = (
        baselines.hold(*((one, healthy) if which == "run" else (healthy, one))).comparison for one in (faulty, none)
    )
    assert (found.cells, found.overall_score) == (1, pytest.approx(100))
    assert (empty.cells, empty.overall_score, empty.improvement_percent) == (0, None, {})
    assert [*found.not_comparable.values()] == [1, 1]
    assert [reason.startswith("in the baseline: ") for reason in found.not_comparable] == [which == "baseline"] * 2
    assert [fact in "; ".join(found.not_comparable) for fact in ("not steady", "contaminated")] == [True, True]


def test_every_format_has_the_note_of_a_score(tmp_path: Path) -> None:
    """Text, Markdown and the page have it beside the score: no telemetry, or a baseline of the same run."""
    run = made(tmp_path / "run")
    run_itself = side_of(run)
    for baseline in (msgspec.structs.replace(run_itself, run_id=EARLIER), run_itself):
        report = references.hold(run.report(), Against(baseline=baseline))
        note = report.baseline_comparison.note
        assert note
        chapter = comparisons.baseline(report)
        assert chapter is not None
        for shown in (to_text(report), to_markdown(report), " ".join(chapter.notes)):
            assert note in " ".join(shown.split())


def test_a_score_against_a_baseline_of_the_same_run_has_a_note() -> None:
    """It is 100 for ever, of a baseline of several runs too."""
    second = side(cell("b", gpu_uuid="GPU-1"), devices=(device(1),), run_id=EARLIER)
    first = side(cell("a"))
    notes = [
        baselines.hold(first, known).comparison.note for known in (first, baselines.joined([first, second]), second)
    ]
    assert ["this run" in note for note in notes] == [True, True, False]


def test_a_baseline_keeps_only_healthy_cells() -> None:
    """Nothing left is an error, with the number of cells for each reason."""
    hot, failed = cell("b", throttled=True), cell("c", status=Status.FAILED, values=())
    run = side(cell("a"), hot, failed, cell("d", steady=False), cell("e", contaminated=True))
    reduced = baselines.reduced(run, "mine")
    assert (reduced.name, [one.key.model_name for one in reduced.cells]) == ("mine", ["a"])
    with pytest.raises(ConfigError, match=r"2 cells, throttled.* 1 cell, without"):
        baselines.reduced(side(hot, cell("a", throttled=True), failed), "mine")


def test_a_baseline_for_other_machines_keeps_only_gpu_bound_cells() -> None:
    """A cell of which it is unknown is excluded, too; another fault comes first."""
    run = side(
        cell("a", host_bound=False), cell("b", host_bound=True), cell("c", host_bound=None), cell("d", steady=False)
    )
    assert [one.key.model_name for one in baselines.reduced(run, "mine", gpu_bound=True).cells] == ["a"]
    found = baselines.excluded(run, gpu_bound=True)
    assert [place.cell.key.model_name for place in found[baselines.NOT_GPU_BOUND]] == ["b", "c"]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("values", "kind", "longer"),
    [((100.0, 101.0, 99.5), "cuda", True), ((100.0, 140.0, 90.0), "cuda", False), ((100.0, 101.0), "cpu", False)],
)
def test_a_longer_profile_is_advised_only_where_it_can_help(values: tuple[float, ...], kind: str, longer: bool) -> None:
    """Not where the launches show that the machine varies, and never on CPU devices: it was tried for seven minutes."""
    run = side(cell("a", *values, steady=False), devices=(device(kind=kind),))
    with pytest.raises(ConfigError) as refused:
        baselines.reduced(run, "mine")
    assert ("--profile rigorous" in str(refused.value)) is longer
    assert ("taskset" in str(refused.value)) is not longer


# ── baselines of several runs, one for each model, on a GPU each ──────────────────────────────────────────────────────


def test_runs_of_one_stack_make_one_baseline() -> None:
    """Their devices and their cells; the same cell on two GPUs is two figures, of which the median counts."""
    first = side(cell("a", 100.0), cell("gemm", 10.0), name="first")
    second = side(
        cell("b", 50.0, gpu_uuid="GPU-1"), cell("gemm", 20.0, gpu_uuid="GPU-1"), devices=(device(1),), name="second"
    )
    made = baselines.joined([first, second])
    assert [one.gpu_uuid for one in made.devices] == ["GPU-0", "GPU-1"]
    assert made.cells == (*first.cells, *second.cells)
    assert made.run_id == f"{first.run_id}, {second.run_id}"
    held = baselines.hold(side(cell("a", 100.0), cell("b", 50.0), cell("gemm", 15.0)), made).comparison
    assert held.overall_score == pytest.approx(100)


def test_baselines_that_share_a_run_say_so() -> None:
    """Neither is the other, because each has another run, too."""
    shared = side(cell("a"), run_id="20260401-213000-aaaaaa", name="shared")
    second = side(cell("b", gpu_uuid="GPU-1"), devices=(device(1),), run_id="20260402-213000-aaaaaa", name="second")
    third = msgspec.structs.replace(second, run_id="20260403-213000-aaaaaa", name="third")
    made, other = (baselines.reduced(baselines.joined([shared, own]), own.name) for own in (second, third))
    assert made.run_ids == {shared.run_id, second.run_id}
    shares = [any(shared.run_id in note for note in compare(made, one, margins.load()).notes) for one in (other, third)]
    assert shares == [True, False]


def test_what_is_not_alike_is_not_joined() -> None:
    """Another driver would stand behind the name of the first; the same cell twice would count for more."""
    first = side(cell("a", 100.0), name="first")
    assert baselines.joined([first]) == first
    other = msgspec.structs.replace(side(cell("b", 100.0), name="second"), stack={**STACK, "driver": "580.95"})
    with pytest.raises(ConfigError, match=r"first and second .*: driver 570\.86 -> 580\.95"):
        baselines.joined([first, other])
    with pytest.raises(ConfigError, match=r"a inference .*GPU-0 .* 2 "):
        baselines.joined([first, side(cell("a", 101.0), name="second")])


# ── costs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_million_samples_cost_what_the_hours_cost(tmp_path: Path) -> None:
    """By hand: 100 images a second take 2.78 hours for a million; energy where it was measured."""
    report = made(tmp_path / "run", energy=True).report()
    found = {(one.model_name, one.phase): one for one in costs.costs(report, 3.6)}
    metric = report.results[0].inference_metrics["batch_size_1"]
    image = found["resnet50", "inference"]
    assert image.unit == "images"
    assert metric.throughput_samples_per_sec is not None
    assert image.price_per_million == pytest.approx(1000 / metric.throughput_samples_per_sec)
    assert metric.energy_per_sample_j is not None
    assert image.energy_kwh_per_million == pytest.approx(metric.energy_per_sample_j / 3.6)
    text = next(one for one in report.results if one.generation_metrics).generation_metrics["batch_size_1"]
    tokens = found["gpt2", "generation"]
    assert tokens.unit == "tokens"
    assert text.tokens_per_second is not None
    assert tokens.price_per_million == pytest.approx(1000 / text.tokens_per_second)


def test_costs_and_limits_of_both_modes_have_names_of_their_own(tmp_path: Path) -> None:
    """Solo and loaded, on each device, in text, Markdown and on the page; a CPU device is called one."""
    run = FakeRun(tmp_path, devices=cpus(2), batch_sizes=(1,), modes=(Mode.LOADED, Mode.SOLO))
    run.everything()
    report = references.hold(run.ended(), Against(thresholds=(FAST,), price_per_hour=2.5))
    names = {f"cpu:{at} resnet50 inference fp32 b1 {mode}" for at in (0, 1) for mode in Mode}
    for chapter in (comparisons.thresholds, comparisons.costs):
        section = chapter(report)
        assert {row[0] for table in section.tables for row in table.rows} == names


def test_a_hardware_fault_is_told_before_a_missed_limit(tmp_path: Path) -> None:
    """What ended otherwise ends as it did, with its own reasons first."""
    report = made(tmp_path / "run").report()
    verdict = run_verdict([Cause(kind=CauseKind.FAULT, text="GPU 0: Xid 48")], ())
    found = references.hold(msgspec.structs.replace(report, verdict=verdict), Against(thresholds=(SLOW,))).verdict
    assert (found.exit_code, found.word) == (ExitCode.HARDWARE, verdict.word)
    assert (found.reasons[0], len(found.reasons)) == ("GPU 0: Xid 48", 2)


# ── in the folder, and in the report ──────────────────────────────────────────────────────────────────────────────────

SLOW = Threshold(name="slow", figure=LimitName.FORWARD_TIME, phase=Workload.INFERENCE, below=5.0)
FAST = Threshold(name="fast", figure=LimitName.FORWARD_TIME, phase=Workload.INFERENCE, below=50.0)
ABSENT = Threshold(name="absent", figure=LimitName.LATENCY, phase=Workload.TRAINING, below=50.0)


def held(run: FakeRun, *thresholds: Threshold, **more: object) -> dict[str, Any]:
    """The report of the run, as other programs read it, held against these."""
    references.store(Against(thresholds=thresholds, **more), run.paths)
    found: dict[str, Any] = json.loads(msgspec.json.encode(reporting.make(run.paths)))
    return found


def test_a_run_is_compared_with_what_its_folder_says(tmp_path: Path) -> None:
    """Whenever its report is made: score, thresholds and costs are there, and in the text."""
    baseline = baselines.reduced(side_of(made(tmp_path / "old", forward_ms=20.0)), "old")
    run = made(tmp_path / "run")
    found = held(run, FAST, baseline=baseline, price_per_hour=2.5)
    assert found["baseline_comparison"]["improvement_percent"]["overall"] == pytest.approx(100)
    assert found["summary"]["overall_score"] == pytest.approx(200)
    assert "over 3 cells" in found["summary"]["score_note"]
    assert found["verdict"]["exit_code"] == ExitCode.PASSED
    text = to_text(reporting.make(run.paths))
    for carried in (
        "baseline old (NVIDIA H200,",
        "gpt2: +100.0%",
        "Overall: +100.0%",
        "assume 2.5 per hour",
        "Score: 200.0",
    ):
        assert carried in text
    assert max(map(cell_len, text.splitlines())) <= WIDTH


def test_a_report_without_a_baseline_says_which_there_is(tmp_path: Path) -> None:
    """What it says to do can be done: the baseline that it names ships. There is no chapter about none."""
    report = made(tmp_path).report()
    (name,) = re.findall(r"--compare-baseline ([\w-]+)", report.summary.score_note)
    assert report_reader.baseline(name, "runs").cells
    assert comparisons.baseline(report) is None


def side_of(run: FakeRun) -> "references.Side":
    """The run as a side."""
    return run_figures.of_report(run.report(), "a run")


@pytest.mark.parametrize(
    ("thresholds", "code", "reason"),
    [
        ([FAST], ExitCode.PASSED, ""),
        ([SLOW, FAST, ABSENT], ExitCode.MISSED, "1 threshold missed (2"),
        ([FAST, ABSENT], ExitCode.INCOMPLETE, "1"),
    ],
)
def test_a_threshold_decides_the_exit_code(
    tmp_path: Path, thresholds: list[Threshold], code: ExitCode, reason: str
) -> None:
    """Missed; or without a figure, which leaves the run incomplete. The first reason has the number of them."""
    verdict = held(made(tmp_path / "run"), *thresholds)["verdict"]
    assert verdict["exit_code"] == code
    assert verdict["reasons"][0].startswith(reason)


@pytest.mark.parametrize(("threshold", "code"), [(SLOW, ExitCode.MISSED), (ABSENT, ExitCode.INCOMPLETE)])
def test_a_threshold_takes_no_finding_away(tmp_path: Path, threshold: Threshold, code: ExitCode) -> None:
    """The smaller batch, the straggler, and that every cell is there stand behind it."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8), batch_size=4)
    report = run.ended()
    own = (*report.verdict.reasons, "GPU 3: STRAGGLER")
    assert len(own) == 3
    judged = msgspec.structs.replace(report, verdict=msgspec.structs.replace(report.verdict, reasons=own))
    found = references.hold(judged, Against(thresholds=(threshold,))).verdict
    assert (found.exit_code, found.reasons[0][0], found.reasons[-3:]) == (code, "1", own)


def test_an_incomplete_run_can_miss_a_threshold(tmp_path: Path) -> None:
    """It is known to be missed, whatever else is missing: three reasons, that of the exit code first."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.EXCEPTION)
    run.finish()
    verdict = held(run, SLOW)["verdict"]
    assert verdict["exit_code"] == ExitCode.MISSED
    assert [reason[:6] for reason in verdict["reasons"]] == ["1 thre", "1 of 2", "1 thre"]


def test_what_broke_otherwise_ends_as_it_did(tmp_path: Path) -> None:
    """What failed by itself vouches for no threshold; it is told of all the same."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    run.finish(interrupted=True, reason="it broke", broken=True)
    verdict = held(run, SLOW)["verdict"]
    assert verdict["exit_code"] == ExitCode.INTERNAL
    assert any("missed" in reason and '"slow"' in reason for reason in verdict["reasons"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"thresholds": 1}', "thresholds"),
        ('{"price_per_hour": -1.0}', "price_per_hour"),
        ('{"thresholds": [{"name": "x", "figure": "latency_ms", "phase": "inference"}]}', "x: .* below"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    """With its key."""
    run = made(tmp_path / "run")
    run.paths.compared_with.write_text(text)
    with pytest.raises(RunFolderError, match=rf"{run.paths.compared_with.name}: .*{words}"):
        reporting.make(run.paths)


def test_nothing_asked_for_is_nothing_written(tmp_path: Path) -> None:
    """The folder of a plain run has no such file."""
    run = made(tmp_path / "run")
    report = held(run)
    assert not run.paths.compared_with.exists()
    assert (report["baseline_comparison"], report["thresholds"], report["costs"]) == (None, [], [])


def test_what_is_given_wins_over_what_the_folder_says(tmp_path: Path) -> None:
    """Each by itself."""
    kept = Against(thresholds=(SLOW,), price_per_hour=1.0)
    both = kept.beside(Against(thresholds=(FAST,)))
    assert (both.thresholds, both.price_per_hour, both.baseline) == ((FAST,), 1.0, None)
    report = reporting.make(made(tmp_path / "run").paths, held=both)
    assert {one.status for one in report.thresholds} == {Met.MET}
