"""What a run is held against: baselines with their score, costs, and how both reach the report."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.analysis import reporting
from orchestrator.analysis.outcomes import Status
from orchestrator.compare import baselines, costs, references, report_reader
from orchestrator.compare.limit_targets import Figure
from orchestrator.compare.references import Against
from orchestrator.compare.thresholds import Threshold
from orchestrator.errors import ConfigError, RunFolderError
from orchestrator.figures.comparisons import Met
from orchestrator.report import layout
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.as_text import to_text
from orchestrator.report.html import other_sections, overview
from protocol.cell import Mode, Workload
from protocol.failure import Category
from tests.fakes.runs import FakeRun, cpus, gpus, shipped
from tests.fakes.sides import cell, device, side

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


def test_another_gpu_is_what_a_score_is_for() -> None:
    """A baseline of another model of GPU compares; other cells, and unsound ones, are left out and counted."""
    before = side(
        cell("a", 100.0),
        cell("b", 100.0, throttled=True),
        devices=(device(gpu_name="V100", memory_mb=1.0),),
        run_id=EARLIER,
    )
    run = side(
        cell("a", 245.2),
        cell("b", 100.0),
        cell("c", 100.0),
        cell("a", 1.0, batch_size=9, ran_at=4, status=Status.DEGRADED),
    )
    found = baselines.hold(run, before).comparison
    assert found.baseline_gpu == "V100"
    assert found.improvement_percent == {"a_throughput": pytest.approx(145.2), "overall": pytest.approx(145.2)}
    assert found.not_comparable == {
        "in the baseline: throttled": 1,
        "not in the baseline": 1,
        "measured at a smaller batch than asked for": 1,
    }
    assert found.note == "the baseline is of another GPU model"


def test_several_gpus_are_taken_together_by_their_median() -> None:
    """On both sides; a time counts as its inverse."""
    two = (device(0), device(1), device(2))
    loads = [cell("a", ms, phase=Workload.LOAD, gpu_uuid=f"GPU-{at}") for at, ms in enumerate((10.0, 20.0, 400.0))]
    found = baselines.hold(side(*loads, devices=two), side(cell("a", 40.0, phase=Workload.LOAD)))
    assert found.comparison.overall_score == pytest.approx(200)
    key = loads[0].key
    assert found.by_device == {
        ("GPU-0", key): pytest.approx(4),
        ("GPU-1", key): pytest.approx(2),
        ("GPU-2", key): pytest.approx(0.1),
    }


@pytest.mark.parametrize(
    ("run", "before", "unknown"),
    [(False, False, 0), (None, False, 1), (False, None, 1), (None, None, 1), (True, None, 0)],
)
def test_a_score_says_of_how_many_cells_nobody_knows(run: bool | None, before: bool | None, unknown: int) -> None:
    """They count: the speeds were measured. What was throttled is left out, and no part of that number."""
    earlier = side(cell("a", throttled=before), cell("b"), run_id=EARLIER)
    found = baselines.hold(side(cell("a", throttled=run), cell("b")), earlier).comparison
    words = f"whether the run or the baseline was throttled is not known of {unknown} of 2 cells"
    assert found.note == (words if unknown else "")
    assert (found.cells, found.overall_score) == (1 if run else 2, pytest.approx(100))


@pytest.mark.parametrize("which", ["run", "baseline"])
def test_no_score_is_made_of_times_that_were_not_steady(which: str) -> None:
    """Nor of cells that were contaminated: they are left out, with how many and why. Where none is left, no score."""
    sound = side(cell("a"), cell("b"), cell("c"))
    faulty = side(cell("a", 300.0, steady=False), cell("b", 300.0, contaminated=True), cell("c"))
    found = baselines.hold(*((faulty, sound) if which == "run" else (sound, faulty))).comparison
    assert (found.cells, found.overall_score) == (1, pytest.approx(100))
    reasons = ["times were not steady after warm-up", "contaminated by another process"]
    if which == "baseline":
        reasons = [f"in the baseline: {reason}" for reason in reasons]
    assert found.not_comparable == dict.fromkeys(reasons, 1)
    none = side(cell("a", steady=False))
    assert baselines.hold(*((none, sound) if which == "run" else (sound, none))).comparison.overall_score is None


def test_a_cpu_device_has_nothing_to_be_watched() -> None:
    """Its score stands as it is; beside another GPU both things are said."""
    on_cpu = side(cell(throttled=None), devices=(device(kind="cpu"),))
    assert baselines.hold(on_cpu, msgspec.structs.replace(on_cpu, run_id=EARLIER)).comparison.note == ""
    other = side(cell(throttled=None), devices=(device(gpu_name="V100"),), run_id=EARLIER)
    assert baselines.hold(side(), other).comparison.note == (
        "the baseline is of another GPU model; "
        "whether the run or the baseline was throttled is not known of 1 of 1 cell"
    )


def test_every_format_says_what_is_to_know_of_a_score(tmp_path: Path) -> None:
    """Text, Markdown, JSON and the page, where it stands beside the score."""
    run = made(tmp_path / "run")
    report = references.hold(run.report(), Against(baseline=msgspec.structs.replace(side_of(run), run_id=EARLIER)))
    words = "whether the run or the baseline was throttled is not known of 2 of 3 cells"
    assert report.baseline_comparison is not None
    assert report.baseline_comparison.note == words
    assert words in " ".join(to_text(report).split())
    assert f"score 100.0, over 3 cells; {words}." in to_markdown(report)
    assert overview.score(report).says.endswith(f"Overall score: 100.0; {words}.")


def test_a_score_against_a_baseline_of_the_same_run_says_so(tmp_path: Path) -> None:
    """It is 100 for ever, of a baseline of several runs too; in text, Markdown and the page, beside the score."""
    words = "the baseline was made of this run: beside itself none is slower"
    second = side(cell("b", gpu_uuid="GPU-1"), devices=(device(1),), run_id=EARLIER)
    first = side(cell("a"))
    for known, note in ((first, words), (baselines.joined([first, second]), words), (second, "")):
        assert baselines.hold(first, known).comparison.note == note
    run = made(tmp_path / "run")
    run.samples()
    report = references.hold(run.report(), Against(baseline=side_of(run)))
    for shown in (to_text(report), to_markdown(report), overview.score(report).says):
        assert words in " ".join(shown.split())


def test_nothing_in_common_has_no_score() -> None:
    """And says so."""
    found = baselines.hold(side(cell("a")), side(cell("b"))).comparison
    assert (found.overall_score, found.improvement_percent, found.cells) == (None, {}, 0)


def test_a_baseline_keeps_the_sound_cells_alone() -> None:
    """What was throttled, contaminated or shrunk is none; nothing left is an error."""
    hot, failed = cell("b", throttled=True), cell("c", status=Status.FAILED, values=())
    run = side(cell("a"), hot, failed, cell("d", steady=False), cell("e", contaminated=True))
    assert [one.key.model_name for one in baselines.reduced(run, "mine").cells] == ["a"]
    assert baselines.reduced(run, "mine").name == "mine"
    words = (
        "no cell of it can be a baseline: 2 cells, throttled: let it cool, and measure again; 1 cell, without a resul"
    )
    with pytest.raises(ConfigError, match=words):
        baselines.reduced(side(hot, cell("a", throttled=True), failed), "mine")


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


def test_costs_and_limits_of_both_modes_are_told_apart(tmp_path: Path) -> None:
    """Solo and loaded, on each device, in text, Markdown and on the page; a CPU device is called one."""
    run = FakeRun(tmp_path, devices=cpus(2), batch_sizes=(1,), modes=(Mode.LOADED, Mode.SOLO))
    run.everything()
    run.finish()
    report = references.hold(run.report(), Against(thresholds=(FAST,), price_per_hour=2.5))
    names = {f"cpu:{at} resnet50 inference fp32 b1 {mode}" for at in (0, 1) for mode in Mode}
    for text in (to_text(report), to_markdown(report).replace("\\", "")):
        rows = [line.strip(" |").split("|") for line in text.splitlines() if line.strip().startswith("|")]
        limits = {column.strip() for row in rows if "50 ms" in "".join(row) for column in row[:2]}
        assert limits >= names
        assert {row[0].strip() for row in rows if "images" in "".join(row)} == names
    of_node = [line for line in to_markdown(report).splitlines() if line.endswith("% |  |")]
    assert [line[: len("| cpu:0 | resnet50 inference fp32 b1 |")] for line in of_node] == [
        f"| cpu:{at} | resnet50 inference fp32 b1 |" for at in (0, 1)
    ]
    section = other_sections.held_against(report)
    assert section is not None
    assert [
        {row[place] for row in table.rows} for place, table in ((1, section.tables[0]), (0, section.tables[1]))
    ] == [
        names,
        names,
    ]


def test_a_hardware_fault_is_told_before_a_missed_limit(tmp_path: Path) -> None:
    """What ended otherwise ends as it did, with its own reasons first."""
    report = made(tmp_path / "run").report()
    verdict = msgspec.structs.replace(report.verdict, exit_code=3, word="hardware fault", reasons=("GPU 0: Xid 48",))
    found = references.hold(msgspec.structs.replace(report, verdict=verdict), Against(thresholds=(SLOW,))).verdict
    assert (found.exit_code, found.word) == (3, "hardware fault")
    assert [one.split(":")[0] for one in found.reasons] == ["GPU 0", "2 thresholds missed"]


# ── in the folder, and in the report ──────────────────────────────────────────────────────────────────────────────────

SLOW = Threshold(name="slow", figure=Figure.FORWARD_TIME, phase=Workload.INFERENCE, below=5.0)
FAST = Threshold(name="fast", figure=Figure.FORWARD_TIME, phase=Workload.INFERENCE, below=50.0)
ABSENT = Threshold(name="absent", figure=Figure.LATENCY, phase=Workload.TRAINING, below=50.0)


def held(run: FakeRun, *thresholds: Threshold, **more: object) -> dict[str, Any]:
    """The report of the run, as other programs read it, held against these."""
    references.store(Against(thresholds=thresholds, **more), run.paths)  # type: ignore[arg-type]  # its other fields
    found: dict[str, Any] = json.loads(msgspec.json.encode(reporting.make(run.paths)))
    return found


def test_a_run_is_held_against_what_its_folder_says(tmp_path: Path) -> None:
    """Whenever its report is made: score, thresholds and costs are there, and in the text."""
    baseline = baselines.reduced(side_of(made(tmp_path / "old", forward_ms=20.0)), "old")
    run = made(tmp_path / "run")
    found = held(run, FAST, baseline=baseline, price_per_hour=2.5)
    assert found["baseline_comparison"]["improvement_percent"]["overall"] == pytest.approx(100)
    assert found["summary"]["overall_score"] == pytest.approx(200)
    assert "100 x the geometric mean, over 3 cells" in found["summary"]["score_note"]
    assert found["verdict"]["exit_code"] == 0
    text = to_text(reporting.make(run.paths))
    for words in ("Compared to baseline old (NVIDIA H200,", "- gpt2: +100.0%", "- Overall: +100.0%", "At 2.5 an hour"):
        assert words in text
    assert "Overall Performance Score: 200.0" in text
    assert "Overall score: 200.0; overall score = 100 x" in " ".join(text.split())
    assert max(map(layout.width, text.splitlines())) <= layout.WIDTH


def test_a_report_without_a_baseline_says_which_there_is(tmp_path: Path) -> None:
    """What it says to do can be done: the baseline that it names ships. The page says it once in the chapter."""
    report = made(tmp_path).report()
    (name,) = re.findall(r"--compare-baseline ([\w-]+)", report.summary.score_note)
    assert report_reader.baseline(name, "runs").cells
    chart = overview.score(report)
    assert chart.empty.count("--compare-baseline") == 1


def side_of(run: FakeRun) -> "references.Side":
    """The run as a side."""
    return references.side.of_report(run.report(), "a run")


@pytest.mark.parametrize(
    ("thresholds", "code", "word", "reason"),
    [
        ([FAST], 0, "complete", "every planned cell"),
        ([SLOW, FAST, ABSENT], 1, "threshold missed", "2 thresholds missed: slow"),
        ([FAST, ABSENT], 4, "incomplete", "1 threshold could not be held against any figure: absent"),
    ],
)
def test_a_missed_threshold_ends_with_one(
    tmp_path: Path, thresholds: list[Threshold], code: int, word: str, reason: str
) -> None:
    """And one that no figure stands for leaves the run incomplete."""
    verdict = held(made(tmp_path / "run"), *thresholds)["verdict"]
    assert (verdict["exit_code"], verdict["word"]) == (code, word)
    assert verdict["reasons"][0].startswith(reason)


@pytest.mark.parametrize(
    ("threshold", "code", "told"), [(SLOW, 1, "1 threshold missed"), (ABSENT, 4, "1 threshold could")]
)
def test_what_the_run_says_of_itself_stays(tmp_path: Path, threshold: Threshold, code: int, told: str) -> None:
    """A threshold takes no finding away: the smaller batch, the straggler, and that every cell is there."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.OUT_OF_MEMORY)
    run.measured(run.cell(batch_size=8), batch_size=4)
    run.finish()
    report = run.report()
    own = (*report.verdict.reasons, "GPU 3 is a STRAGGLER: 89.9% of its siblings")
    judged = msgspec.structs.replace(report, verdict=msgspec.structs.replace(report.verdict, reasons=own))
    found = references.hold(judged, Against(thresholds=(threshold,))).verdict
    assert [own[0][:18], own[1][:20]] == ["every planned cell", "1 cell ran out of me"]
    assert found.exit_code == code
    assert found.reasons[0].startswith(told)
    assert found.reasons[-3:] == own


def test_a_run_that_is_incomplete_anyway_tells_of_both(tmp_path: Path) -> None:
    """A missed threshold is known, whatever else is missing."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1, 8))
    run.measured(run.cell(batch_size=1))
    run.failed(run.cell(batch_size=8), Category.EXCEPTION)
    run.finish()
    verdict = held(run, SLOW)["verdict"]
    assert verdict["exit_code"] == 1
    assert [reason.partition(":")[0] for reason in verdict["reasons"]] == [
        "1 threshold missed",
        "1 threshold could not be held against any figure",
        "1 cell of 2 without a result",
    ]


def test_what_broke_otherwise_ends_as_it_did(tmp_path: Path) -> None:
    """What failed by itself vouches for no threshold; it is told of all the same."""
    run = FakeRun(tmp_path / "run", batch_sizes=(1,))
    run.measured(run.cell(batch_size=1))
    run.finish(interrupted=True, reason="it broke", broken=True)
    verdict = held(run, SLOW)["verdict"]
    assert verdict["exit_code"] == 5
    assert "1 threshold missed: slow" in verdict["reasons"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """With what happens without it."""
    run = made(tmp_path / "run")
    without = '{"thresholds": [{"name": "x", "figure": "latency_ms", "phase": "inference"}]}'
    for text, words in (
        ('{"thresholds": 1}', "not as gpubench writes it"),
        ('{"price_per_hour": -1.0}', "not as gpubench writes it"),
        (without, "x: expected one of below"),
    ):
        run.paths.held_against.write_text(text)
        with pytest.raises(RunFolderError, match=rf"held_against.json: {words}.*held against nothing"):
            reporting.make(run.paths)


def test_nothing_asked_for_is_nothing_written(tmp_path: Path) -> None:
    """The folder of a plain run has no such file."""
    run = made(tmp_path / "run")
    report = held(run)
    assert not run.paths.held_against.exists()
    assert (report["baseline_comparison"], report["thresholds"], report["costs"]) == (None, [], [])


def test_what_is_given_wins_over_what_the_folder_says(tmp_path: Path) -> None:
    """Each by itself."""
    kept = Against(thresholds=(SLOW,), price_per_hour=1.0)
    both = kept.beside(Against(thresholds=(FAST,)))
    assert (both.thresholds, both.price_per_hour, both.baseline) == ((FAST,), 1.0, None)
    report = reporting.make(made(tmp_path / "run").paths, held=both)
    assert {one.status for one in report.thresholds} == {Met.MET}
