"""orchestrator/kinds/gate: which cells get another round, what is warned of, and the answer at the end."""

import json
import random
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from orchestrator.analysis import evidence, report_builder
from orchestrator.compare import run_figures
from orchestrator.compare.comparison import SessionSpread
from orchestrator.compare.run_figures import Side
from orchestrator.engine.adaptive_launches import look
from orchestrator.errors import RunFolderError
from orchestrator.figures.exit_code import CauseKind, RunVerdict
from orchestrator.kinds.gate import noise, outcome, planning, sides, undecided
from orchestrator.kinds.gate.kind import GATE
from orchestrator.kinds.gate.outcome import Answer
from orchestrator.state.added_launches import Look
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import Cell
from protocol.exit_codes import ExitCode
from tests.fakes.gates import Factor, TwoSides, two_sides, with_baseline
from tests.fakes.runs import FakeRun, shipped

QUIET, NOISY = 0.003, 0.3


def varying(by: float, second: float = 1.0, model: str = "") -> Factor:
    """Launches that vary by so much. second: time of the second side, of this model or of all."""

    def factor(cell: Cell, number: int) -> float:
        of_second = "bf16" in cell.model and cell.model.startswith(model)
        noise = random.Random(f"{cell.model} {number} {by}").gauss(0, by)
        return (second if of_second else 1.0) * 2.718**noise

    return factor


def seen(run: FakeRun) -> Look:
    return look(run.paths, run.stored, GATE)


def answer(run: FakeRun) -> Answer:
    report = run.ended()
    loaded = run.archive()
    return outcome.answer(loaded, evidence.gather(loaded), report)


class Judged(NamedTuple):
    """A gate of two cells after its three rounds. looked: before its end. verdict: that of its report."""

    looked: Look
    answer: Answer
    verdict: RunVerdict


def judged(folder: Path, factor: Factor) -> Judged:
    run = two_sides(folder, factor)
    looked = seen(run)
    report, loaded = run.ended(), run.archive()
    return Judged(looked, outcome.answer(loaded, evidence.gather(loaded), report), report.verdict)


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """The second side takes as long, twice, half; and it is undecided in one model of two."""
    made = {
        "same": varying(QUIET),
        "slower": varying(QUIET, 2.0),
        "faster": varying(QUIET, 0.5),
        "open": varying(NOISY, 1.5, model="resnet50"),
    }
    return {name: judged(tmp_path_factory.mktemp(name), factor) for name, factor in made.items()}


@pytest.mark.parametrize(
    ("name", "verdict", "code"),
    [
        ("same", ChangeVerdict.SAME, ExitCode.PASSED),
        ("slower", ChangeVerdict.SLOWER, ExitCode.MISSED),
        ("faster", ChangeVerdict.FASTER, ExitCode.PASSED),
    ],
)
def test_what_is_decided_gets_no_launches(gates: dict[str, Judged], name: str, verdict: str, code: ExitCode) -> None:
    """Three rounds of a quiet machine are enough."""
    gate = gates[name]
    assert gate.looked == Look()
    assert {cell.verdict for cell in gate.answer.comparison.cells} == {verdict}
    assert len(gate.answer.comparison.cells) == 2
    assert gate.answer.verdict.exit_code == code


def test_an_undecided_cell_gets_a_round_of_both_sides(tmp_path: Path) -> None:
    """The cell that varies, and not the one that is decided. The second side is first, as the fourth round has it."""
    quiet, noisy = varying(QUIET), varying(NOISY)
    run = two_sides(tmp_path, lambda cell, number: (noisy if "resnet" in cell.model else quiet)(cell, number))
    [doubt] = seen(run).doubts
    named = {cell.id: cell for cell in run.stored.plan.cells}
    assert [named[cell].model for cell in doubt.cells] == ["resnet50 (precision=bf16)", "resnet50 (precision=fp32)"]
    assert doubt.gpu == run.stored.devices[0].uuid
    run.added(*((cell, planning.FIRST_ROUNDS) for cell in doubt.cells))
    for cell in doubt.cells:
        run.measured(named[cell], number=planning.FIRST_ROUNDS, forward_ms=10.0)
    run.samples()
    assert [named[cell].model for cell in seen(run).doubts[0].cells] == [
        named[cell].model for cell in doubt.cells[::-1]
    ]


def test_a_machine_that_varies_too_much_is_said(tmp_path: Path, gates: dict[str, Judged]) -> None:
    """By how much it varies, and what helps; a quiet machine is not warned of."""
    noisy = seen(two_sides(tmp_path, varying(NOISY)))
    assert "300 s" in noisy.warning
    assert "varies by" in noisy.advice
    assert "--time-limit" in noisy.advice
    assert gates["same"].looked.warning == ""


def test_an_undecided_gate_says_what_to_do(gates: dict[str, Judged]) -> None:
    """In Markdown and JUnit, with exit code 4: it passes only where every cell is judged."""
    found = gates["open"].answer
    assert found.verdict.exit_code == ExitCode.INCOMPLETE
    verdicts = {cell.cell: cell for cell in found.comparison.cells}
    open_ = verdicts["resnet50 inference fp32 -> bf16 b8"]
    assert open_.verdict == ChangeVerdict.INCONCLUSIVE
    assert "--time-limit" in open_.reason
    assert "--time-limit" in found.render("md")
    cases = ElementTree.fromstring(found.junit()).iter("testcase")
    assert "--time-limit" in next(case for case in cases if case.get("name") == open_.cell)[0].attrib["message"]


def test_figures_of_both_sides_are_shown(gates: dict[str, Judged]) -> None:
    """Percentiles and memory beside the throughput that decides, in each format."""
    found = gates["slower"].answer
    figures = found.figures["resnet50 inference fp32 -> bf16 b8"]
    assert list(figures) == ["p50, ms", "p95, ms", "p99, ms", "peak memory, MB"][: len(figures)]
    before, after = figures["p50, ms"]
    assert before is not None
    assert after == pytest.approx(2 * before, rel=0.05)
    for kind in outcome.FORMATS:
        assert "p50, ms" in found.render(kind)
    assert json.loads(found.render("json"))["exit_code"] == ExitCode.MISSED


def measured(folder: Path) -> Side:
    """A run of both models at batch 8 and 16."""
    run = FakeRun(folder, models=shipped("resnet50", "bert-base"), batch_sizes=(8, 16), launches=3)
    run.everything(factor=lambda _, cell, number: varying(QUIET)(cell, number))
    run.samples()
    return run_figures.of_report(run.ended(), "main")


@pytest.mark.parametrize(("slower", "code"), [(1.0, ExitCode.PASSED), (1.3, ExitCode.MISSED)])
def test_a_baseline_is_compared_with_the_cells_that_both_have(tmp_path: Path, slower: float, code: ExitCode) -> None:
    """Its cells that the options leave out are not missed: batch 16 is not measured here."""
    baseline = measured(tmp_path / "before")
    run = with_baseline(tmp_path / "now", baseline, lambda cell, number: slower * varying(QUIET)(cell, number))
    assert {cell.batch_size for cell in run.stored.plan.cells} == {8}
    found = answer(run)
    assert {cell.batch_size for cell in found.comparison.cells} == {8}
    assert found.comparison.only_before == ()
    assert found.verdict.exit_code == code


def test_a_gate_that_lost_its_baseline_says_so(tmp_path: Path) -> None:
    """Somebody deleted the file; a gate cannot end without it."""
    run = with_baseline(tmp_path / "now", measured(tmp_path / "before"), varying(QUIET))
    run.paths.compared_with.unlink()
    with pytest.raises(RunFolderError, match="compared_with"):
        answer(run)


def test_a_gate_counts_the_spread_between_sessions_that_the_history_has(tmp_path: Path) -> None:
    """30 % slower is no change on a machine whose sessions lie 20 % apart."""
    run = with_baseline(
        tmp_path / "now",
        measured(tmp_path / "before"),
        lambda cell, number: 1.3 * varying(QUIET)(cell, number),
        SessionSpread(0.2, 0.2, runs=5),
    )
    found = answer(run)
    assert found.verdict.exit_code == ExitCode.INCOMPLETE
    assert {cell.verdict for cell in found.comparison.cells} == {ChangeVerdict.INCONCLUSIVE}


def test_a_round_with_a_baseline_is_of_this_run_alone(tmp_path: Path) -> None:
    """The baseline has the launches that it has."""
    run = with_baseline(tmp_path / "now", measured(tmp_path / "before"), varying(NOISY))
    doubts = seen(run).doubts
    assert doubts
    assert all(len(doubt.cells) == 1 for doubt in doubts)


def test_other_batches_and_parameters_are_no_reason_against_a_comparison(tmp_path: Path) -> None:
    """They are what the sides differ in on purpose."""
    run = TwoSides(tmp_path, models=shipped("resnet50"), batch_sizes=(8,))
    for cell_id, number in next(iter(run.stored.plan.order.values())):
        cell = next(cell for cell in run.stored.plan.cells if cell.id == cell_id)
        run.measured(cell, number=number, parameters=1_000_000 * (1 + run.is_second(cell)))
    run.samples()
    found = answer(run)
    assert [cell.verdict for cell in found.comparison.cells] == [ChangeVerdict.SAME]


@pytest.mark.parametrize(
    ("name", "code", "causes"),
    [
        ("slower", ExitCode.MISSED, {CauseKind.SLOWER}),
        ("open", ExitCode.INCOMPLETE, {CauseKind.UNDECIDED}),
        ("same", ExitCode.PASSED, set()),
    ],
)
def test_the_report_has_the_verdict_of_the_gate(
    gates: dict[str, Judged], name: str, code: ExitCode, causes: set[CauseKind]
) -> None:
    """The exit code, `status`, `explain` and the history read it there."""
    verdict = gates[name].verdict
    assert (verdict.exit_code, {cause.kind for cause in verdict.causes}) == (code, causes)


def test_a_gate_that_goes_on_has_no_verdict_yet(tmp_path: Path) -> None:
    """Its report says that it goes on, and nothing of cells that more launches may still decide."""
    run = two_sides(tmp_path, varying(QUIET, 2.0))
    loaded = run.archive()
    report = report_builder.merge(loaded, evidence.gather(loaded, goes_on=True), GATE.report)
    assert CauseKind.STOPPED in (kinds := {cause.kind for cause in report.verdict.causes})
    assert CauseKind.SLOWER not in kinds


def test_a_cell_without_a_result_on_either_side_is_undecided(tmp_path: Path) -> None:
    """No evidence, no exit code 0: nobody knows whether a cell is slower for which there was no time."""
    run = TwoSides(tmp_path, models=shipped("resnet50", "bert-base"), batch_sizes=(8,))
    named = {cell.id: cell for cell in run.stored.plan.cells}
    for cell_id, number in next(iter(run.stored.plan.order.values())):
        if "bert" in named[cell_id].model:
            run.dropped(named[cell_id], "no time", number=number)
        else:
            run.measured(named[cell_id], number=number)
    run.samples()
    found = answer(run)
    assert found.verdict.exit_code == ExitCode.INCOMPLETE


def test_a_fault_of_the_run_is_graver_than_a_verdict(tmp_path: Path) -> None:
    """Its exit code stays, and it is a case of its own in JUnit."""
    run = two_sides(tmp_path, varying(QUIET, 2.0))
    run.finish(broken=True, reason="it fell over")
    loaded = run.archive()
    found = outcome.answer(loaded, evidence.gather(loaded), run.report())
    assert found.verdict.exit_code == ExitCode.INTERNAL
    assert {cause.kind for cause in found.verdict.causes} == {CauseKind.BROKEN, CauseKind.SLOWER}
    cases = {case.get("name"): case for case in ElementTree.fromstring(found.junit()).iter("testcase")}
    assert [kind.tag for kind in cases[CauseKind.BROKEN]][:1] == ["failure"]


def test_launches_are_added_only_where_they_can_settle_a_cell(gates: dict[str, Judged]) -> None:
    """Not for a cell that nobody watched, once a slow-down is excluded: it stays INCONCLUSIVE."""
    cell = gates["open"].answer.comparison.cells[0]
    assert cell.verdict is ChangeVerdict.INCONCLUSIVE
    assert undecided.needs_launches(cell)
    unwatched = replace(cell, launches_needed=None, needed_beyond=False)
    assert undecided.needs_launches(replace(unwatched, low=0.8))
    assert not undecided.needs_launches(replace(unwatched, low=0.95))


def test_one_launch_says_nothing_of_how_launches_differ(tmp_path: Path) -> None:
    """No spread is shown, and the advice does without."""
    run = TwoSides(tmp_path, models=shipped("resnet50"), batch_sizes=(8,))
    for cell in run.stored.plan.cells:
        run.measured(cell)
    run.samples()
    loaded = run.archive()
    before, after, _ = sides.compared(loaded, evidence.gather(loaded, goes_on=True))
    assert noise.variation(before, after) is None
    assert "varies" not in noise.advice(planning.requested(run.stored.configuration), None)


def test_cells_are_named_by_what_differs_between_the_sides(gates: dict[str, Judged]) -> None:
    """In the comparison and beside the other figures."""
    found = gates["same"].answer
    names = {"resnet50 inference fp32 -> bf16 b8", "bert-base inference fp32 -> bf16 b8"}
    assert {cell.cell for cell in found.comparison.cells} == names
    assert set(found.figures) <= names
