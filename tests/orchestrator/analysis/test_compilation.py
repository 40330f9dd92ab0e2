"""Figures of torch.compile against eager, and the mode that a report recommends."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.analysis import compilation
from orchestrator.compare import baselines, comparison, run_figures, thresholds
from orchestrator.compare.thresholds import Threshold
from orchestrator.config import margins
from orchestrator.config.run_configuration import Configuration
from orchestrator.figures.cells import CompilationFigures
from orchestrator.figures.comparisons import Met
from orchestrator.figures.exit_code import CauseKind
from orchestrator.figures.quality import Quality
from orchestrator.figures.report import Report
from orchestrator.figures.table import LimitName
from orchestrator.report.as_csv import to_rows
from orchestrator.report.as_markdown import to_markdown
from orchestrator.report.chapters.best import best
from orchestrator.report.chapters.compiled import compiled
from orchestrator.report.chapters.model_overview import overview
from orchestrator.report.numbers import number
from orchestrator.report.remarks import OWN_CODE
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import CompileMode, Workload
from protocol.exit_codes import ExitCode
from protocol.result import Compilation, ShapeCall, ShapeTrial, ShapeWay
from tests.fakes.runs import FakeRun

MODES = (CompileMode.EAGER, CompileMode.DEFAULT, CompileMode.REDUCE_OVERHEAD)


class CompiledRun(FakeRun):
    """A run of one cell in several modes, two launches each."""

    def asked(self, configuration: Configuration) -> Configuration:
        return msgspec.structs.replace(configuration, compile_modes=MODES, launches=2)


def made(
    folder: Path,
    forward_ms: dict[CompileMode, float],
    relative_error: float = 1e-6,
    shapes: tuple[ShapeTrial, ...] = (),
    *,
    slow_launch: float = 1,
    own: bool = False,
) -> Report:
    """slow_launch: factor of the times of the second eager launch. own: the model's code compiles itself."""
    run = CompiledRun(folder, batch_sizes=(8,))
    for round_ in range(2):
        for cell in run.stored.plan.cells:
            facts = Compilation(
                cached=round_ > 0,
                compile_ms=900.0 - 800 * round_,
                first_call_ms=1000.0 - 800 * round_,
                graphs=2,
                graph_breaks=("net.py:7: a reason",),
                absolute_error=relative_error,
                relative_error=relative_error,
                shapes=() if round_ else shapes,
            )
            changes = {"compilation": facts} if cell.compiles else {"compilation": Compilation(own=True)} if own else {}
            slower = slow_launch if round_ and not cell.compiles else 1
            run.measured(cell, number=round_, forward_ms=slower * forward_ms[cell.compile_mode], **changes)
    return run.ended()


def figures(report: Report, mode: CompileMode) -> CompilationFigures:
    (found,) = (one.inference_metrics["batch_size_8"] for one in report.results if one.compile_mode == mode)
    assert found.compilation is not None
    return found.compilation


def advice(report: Report) -> str:
    section = compiled(report)
    assert section is not None
    return section.findings[0].lines[0].partition(": ")[2].partition(" ")[0]


def test_a_compiled_cell_is_compared_with_its_eager_one(tmp_path: Path) -> None:
    """Speed-up with an interval; cold and cached costs apart; iterations until the cold first call has paid."""
    report = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 12})
    faster, slower = figures(report, MODES[1]), figures(report, MODES[2])
    assert faster.speed_up == pytest.approx(2, rel=0.01)
    assert faster.speed_up_low is not None
    assert 1.9 < faster.speed_up_low < faster.speed_up
    assert (faster.cold_compile_ms, faster.cached_compile_ms) == (900, 100)
    assert (faster.cold_first_call_ms, faster.cached_first_call_ms) == (1000, 200)
    assert faster.pays_after_iterations == pytest.approx(198, abs=3)
    assert faster.graph_breaks == ("net.py:7: a reason",)
    assert slower.pays_after_iterations is None
    assert advice(report) == "default"


def test_the_table_of_all_cells_tells_compile_modes_apart(tmp_path: Path) -> None:
    """A row for each mode, of equal cells otherwise."""
    report = to_markdown(made(tmp_path, dict.fromkeys(MODES, 10.0)))
    assert {mode: f"fp32 {mode} b8" in report for mode in MODES[1:]} == dict.fromkeys(MODES[1:], True)


def test_generation_does_not_take_the_place_of_inference(tmp_path: Path) -> None:
    """A language model has two eager results, which may have the same input size; generation is never compiled."""
    report = made(tmp_path, dict.fromkeys(MODES, 10.0))
    eager, compiled_result, _ = report.results
    ((size, metric),) = compiled_result.inference_metrics.items()
    assert metric.compilation is not None
    alone = msgspec.structs.replace(metric.compilation, speed_up=None)
    before = {size: msgspec.structs.replace(metric, compilation=alone)}
    generation = msgspec.structs.replace(eager, new_tokens=32, inference_metrics={})
    given = [eager, generation, msgspec.structs.replace(compiled_result, inference_metrics=before)]
    assert compilation.beside_eager(given)[-1] == compiled_result


def test_launches_that_differ_recommend_nothing(tmp_path: Path) -> None:
    """The interval within each launch would be narrow: eager in 10 and 400 ms once was 29 times slower, "28 to 30"."""
    report = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 7, MODES[2]: 12}, slow_launch=40)
    found = figures(report, MODES[1])
    assert found.speed_up is not None
    assert found.speed_up_low is not None
    assert found.speed_up_low < 0.1 * found.speed_up
    assert advice(report) == "undecided."


def test_code_that_compiles_itself_is_not_called_eager(tmp_path: Path) -> None:
    """Neither in the table nor where no other mode is faster."""
    report = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 11, MODES[2]: 12}, own=True)
    section = compiled(report)
    assert section is not None
    assert [row[1] for row in section.tables[0].rows] == [OWN_CODE, *MODES[1:]]
    assert section.findings[0].lines[0].partition(": ")[2].startswith(OWN_CODE)
    assert [row["Compile_Mode"] for row in to_rows(report)] == [OWN_CODE, *MODES[1:]]


def test_the_time_to_compile_can_be_limited(tmp_path: Path) -> None:
    """Of compiled cells alone: eager ones have none, and are not meant."""
    report = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 12})
    limit = Threshold(name="quick", figure=LimitName.COLD_COMPILE, phase=Workload.INFERENCE, below=800.0)
    found = list(thresholds.judge(report, [limit], None))
    assert [(one.actual, one.status) for one in found] == [(900.0, Met.MISSED)] * 2


def test_a_mode_that_is_slower_or_wrong_is_not_recommended(tmp_path: Path) -> None:
    """Neither where all are slower, nor where outputs are beyond the tolerance, which is a finding of its own."""
    assert advice(made(tmp_path / "slower", {MODES[0]: 10, MODES[1]: 11, MODES[2]: 12})) == "eager."
    wrong = made(tmp_path / "wrong", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 6}, relative_error=0.01)
    assert (figures(wrong, MODES[1]).within_tolerance, figures(wrong, MODES[1]).speed_up) == (False, None)
    assert advice(wrong) == "eager."
    section = compiled(wrong)
    assert section is not None
    assert sum(finding.badge is not None for finding in section.findings) == 2


def test_wrong_outputs_end_the_run_with_1(tmp_path: Path) -> None:
    """As a wrong operator: each mode is named with its error, and is neither the best nor a baseline."""
    wrong = made(tmp_path / "aaaaaa", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 6}, relative_error=0.01)
    assert wrong.verdict.exit_code == ExitCode.MISSED
    assert [(cause.kind, "1e-02" in cause.text) for cause in wrong.verdict.causes] == [(CauseKind.WRONG, True)] * 2
    assert [mode in cause.text for mode, cause in zip(MODES[1:], wrong.verdict.causes, strict=True)] == [True, True]
    section = best(wrong)
    assert section is not None
    assert not any(
        mode in str(entry) for table in section.tables for row in table.rows for entry in row for mode in MODES
    )
    side = run_figures.of_report(wrong, "wrong")
    assert [cell.key.compile_mode for cell in baselines.reduced(side, "baseline").cells] == [MODES[0]]


def test_wrong_outputs_are_no_rate(tmp_path: Path) -> None:
    """In overviews each mode has a row of its own, and WRONG instead of a rate. Tables of all cells say so, too."""
    wrong = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 6}, relative_error=0.01)
    rows = {str(row[1]): row[-1] for row in overview(wrong.results).rows}
    assert {name: rate for name, rate in rows.items() if rate == "WRONG"}.keys() == {f"fp32 {one}" for one in MODES[1:]}
    assert len(rows) == len(MODES)
    eager = wrong.results[0].inference_metrics["batch_size_8"]
    assert wrong.summary.best_model_throughput is not None
    assert wrong.summary.best_model_throughput.throughput == eager.throughput_samples_per_sec
    found = {row["Compile_Mode"]: row["Quality"] for row in to_rows(wrong)}
    assert found.keys() == {*MODES}
    assert {mode for mode, word in found.items() if word == "WRONG"} == {*MODES[1:]}
    assert [entry.quality for entry in wrong.cells].count(Quality.WRONG) == 2


def test_outputs_that_are_wrong_since_are_a_regression(tmp_path: Path) -> None:
    """Those that were wrong before are none."""
    times = {MODES[0]: 10.0, MODES[1]: 5.0, MODES[2]: 6.0}
    good = run_figures.of_report(made(tmp_path / "good", times), "good")
    bad = run_figures.of_report(made(tmp_path / "bad", times, relative_error=0.01), "bad")
    found = comparison.compare(good, bad, margins.load())
    assert [cell.verdict for cell in found.cells].count(ChangeVerdict.WRONG) == 2
    assert ChangeVerdict.WRONG not in {cell.verdict for cell in comparison.compare(bad, bad, margins.load()).cells}


def trial(way: ShapeWay, *calls: tuple[int, float, bool], **facts: object) -> ShapeTrial:
    made = tuple(ShapeCall(size=size, ms=ms, compiled=compiled) for size, ms, compiled in calls)
    return ShapeTrial(way=way, calls=made, elements=30, padded_elements=40, **facts)  # type: ignore[arg-type]  # its own


def test_ways_to_meet_changing_sizes_are_compared(tmp_path: Path) -> None:
    """First and later calls of each size, hits, padding against static; a reason and an error are named once."""
    calls = ((20, 900.0, True), (10, 800.0, True), (10, 1.0, False), (20, 3.0, False), (20, 5.0, False))
    padded = ((20, 700.0, True), (10, 6.0, False), (10, 6.0, False), (20, 4.0, False), (20, 4.0, False))
    trials = (
        trial(ShapeWay.STATIC, *calls, recompilations=1, reasons=("net.py:7: size",)),
        ShapeTrial(way=ShapeWay.DYNAMIC, error="size 20 refused"),
        trial(ShapeWay.PADDED, *padded, limited=True),
    )
    report = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 12}, shapes=trials)
    static, dynamic, buckets = figures(report, MODES[1]).shapes
    assert [(one.input_size, one.first_call_ms, one.later_call_ms) for one in static.sizes] == [
        (10, 800, 1),
        (20, 900, 4),
    ]
    assert (static.calls, static.cache_hits, static.recompilations, static.total_ms) == (5, 3, 1, 1709)
    assert (static.padding, static.padding_time) == (None, None)
    assert (dynamic.error, dynamic.total_ms, dynamic.cache_hits) == ("size 20 refused", None, None)
    assert (buckets.padding, buckets.padding_time) == (pytest.approx(4 / 3), 2)
    assert (buckets.limited, buckets.cache_hits) == (True, None)
    section = compiled(report)
    assert section is not None
    assert [len(table.rows) for table in section.tables] == [2, 6, 8]
    told = [line for finding in section.findings for line in finding.lines]
    assert sum("net.py:7: size" in line for line in told) == 1
    assert sum("size 20 refused" in line for line in told) == 2  # of both modes


def test_the_best_configuration_is_one_mode(tmp_path: Path) -> None:
    """Its rate is that of a cell which ran, and no mean of an eager and a compiled one."""
    report = made(tmp_path / "run", {MODES[0]: 10, MODES[1]: 5, MODES[2]: 12})
    section = best(report)
    assert section is not None
    ((row,),) = (table.rows for table in section.tables)
    (rate,) = (one.inference_metrics["batch_size_8"] for one in report.results if one.compile_mode == MODES[1])
    assert str(row[1]).startswith(number(rate.throughput_samples_per_sec))
    assert row[3] == "fp32 default"


def test_loading_stays_eager(tmp_path: Path) -> None:
    """A mode makes cells of inference and training alone."""
    cells = CompiledRun(tmp_path / "run", workloads=(Workload.LOAD, Workload.TRAINING)).stored.plan.cells
    modes = {workload: {cell.compile_mode for cell in cells if cell.workload is workload} for workload in Workload}
    assert (modes[Workload.LOAD], modes[Workload.TRAINING]) == ({CompileMode.EAGER}, set(MODES))
