"""A baseline beside a run: every device of the run is held against it, and what it is not held against is said."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.compare import baselines, references, run_figures, wording
from orchestrator.compare.as_html import page
from orchestrator.compare.as_junit import to_junit
from orchestrator.compare.as_markdown import to_markdown
from orchestrator.compare.as_text import to_text
from orchestrator.compare.chapters import ended
from orchestrator.compare.comparison import FAIL_ON, MISSING, Comparison, compare, exit_code, failing
from orchestrator.compare.references import Against
from orchestrator.compare.run_figures import Side, SideCell, SideDevice
from orchestrator.compare.thresholds import Threshold
from orchestrator.compare.unpaired_cells import _HOW, BASELINE, THIS_RUN
from orchestrator.config import margins
from orchestrator.figures.table import LimitName
from orchestrator.report.as_markdown import to_markdown as report_markdown
from orchestrator.report.as_text import to_text as report_text
from orchestrator.report.chapters import comparisons
from orchestrator.report.numbers import difference
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import Mode, Workload
from protocol.exit_codes import ExitCode
from tests.fakes.runs import FakeRun, gpus
from tests.fakes.sides import baseline, cell, device, side

STRICT = {ChangeVerdict.SLOWER, ChangeVerdict.NOT_COMPARABLE}
MODE = f"{Mode.LOADED} in {{}}, {Mode.SOLO} in {BASELINE} ({_HOW[Mode.SOLO]})"
OF_THE_RUN = MODE.format(THIS_RUN)


def held(before: Side, after: Side) -> Comparison:
    """The comparison, with the margins that ship."""
    return compare(before, after, margins.load())


def on(number: int, name: str, rate: float = 100.0, **changes: object) -> SideCell:
    """A cell of three launches on that GPU."""
    return cell(name, rate, rate * 1.002, rate * 0.999, gpu_uuid=f"GPU-{number}", **changes)


def boards(*numbers: int) -> tuple[SideDevice, ...]:
    """GPUs of one model."""
    return tuple(device(number) for number in numbers)


TWO = baseline(on(2, "a"), on(2, "gemm", 99.0), on(3, "b"), on(3, "gemm", 101.0), devices=boards(2, 3))
"""As the one that ships: each of two GPUs has measured one model, and both gemm."""


# ── every device of the run ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_gpu_is_compared_with_whichever_gpu_of_a_baseline_measured_its_cell() -> None:
    """One GPU beside two that have measured a model each: the second of them is no GPU without a partner."""
    one = held(TWO, side(on(7, "a"), on(7, "b", 50.0), on(7, "gemm"), name="after", devices=boards(7)))
    assert [(found.model_name, found.gpu_before, found.gpu_after, found.verdict) for found in one.cells] == [
        ("a", "GPU 2", "GPU 7", ChangeVerdict.SAME),
        ("b", "GPU 3", "GPU 7", ChangeVerdict.SLOWER),
        ("gemm", "GPU 2 and GPU 3", "GPU 7", ChangeVerdict.SAME),
    ]
    assert one.cells[2].launches_before == 6
    assert (one.only_before, one.only_after, one.unheld) == ((), (), ())
    assert exit_code([one], {ChangeVerdict.SLOWER}) is ExitCode.MISSED


def test_every_gpu_of_a_node_is_compared_with_a_baseline_of_one() -> None:
    """The six slow ones of eight are found; each cell is called by its own GPU, and boards are counted by theirs."""
    cells = [on(at, "a", 100.0 if at < 2 else 50.0) for at in range(8)]
    one = held(baseline(on(9, "a"), devices=boards(9)), side(*cells, name="after", devices=boards(*range(8))))
    assert one.counts == {ChangeVerdict.SAME: 2, ChangeVerdict.SLOWER: 6}
    name = wording.naming(one)
    assert [name(found) for found in one.cells] == [f"GPU {at} a inference bf16 b8" for at in range(8)]
    assert one.title.startswith("8 ")
    assert one.unheld == ()
    suite = ET.fromstring(to_junit([one], {ChangeVerdict.SLOWER}))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("9", "7", "0")  # all together, too
    assert len({case.get("name") for case in suite}) == 9


def test_a_baseline_and_a_score_take_the_same_gpus_of_it() -> None:
    """The one in the middle of three, so that one bad board of them hides no regression and makes none."""
    three = baseline(on(1, "a"), on(2, "a", 10.0), on(3, "a", 101.0), devices=boards(1, 2, 3))
    run = side(on(7, "a"), devices=boards(7))
    one = held(three, run)
    assert [(found.gpu_before, found.verdict) for found in one.cells] == [("GPU 1", ChangeVerdict.SAME)]
    assert one.cells[0].ratio == pytest.approx(1)
    assert baselines.hold(run, three).comparison.overall_score == pytest.approx(100)


def test_the_same_board_gets_no_margin_for_boards() -> None:
    """Also where others of the baseline measured the cell, too: it stands beside itself."""
    run = side(on(2, "a"), on(2, "gemm"), devices=boards(2))
    one = held(TWO, run)
    assert [(found.gpu_before, found.margin_percent) for found in one.cells] == [("GPU 2", pytest.approx(1))] * 2
    assert one.title.startswith("nothing ")


@pytest.mark.parametrize(
    ("was", "is_now", "verdict"), [(103.0, 98.5, ChangeVerdict.SLOWER), (95.0, 95.0, ChangeVerdict.SAME)]
)
def test_a_board_of_the_baseline_is_compared_with_itself(was: float, is_now: float, verdict: ChangeVerdict) -> None:
    """What it differs by from its siblings neither hides that it became slower nor looks like it."""
    rates = [100.0, 100.1, 99.9, 100.2]
    known = baseline(*(on(at, "a", rate) for at, rate in enumerate([*rates, was])), devices=boards(*range(5)))
    run = side(*(on(at, "a", rate) for at, rate in enumerate([*rates, is_now])), devices=boards(*range(5)))
    one = held(known, run)
    assert [found.verdict for found in one.cells] == [ChangeVerdict.SAME] * 4 + [verdict]
    assert [found.gpu_before for found in one.cells] == [found.gpu_after for found in one.cells]


def test_a_board_whose_own_cell_does_not_compare_is_compared_with_the_others() -> None:
    """It was throttled when the baseline was measured, so nothing is known of it."""
    known = baseline(on(2, "a", 60.0, throttled=True), on(3, "a"), devices=boards(2, 3))
    one = held(known, side(on(2, "a"), devices=boards(2)))
    assert [(found.gpu_before, found.verdict) for found in one.cells] == [("GPU 3", ChangeVerdict.SAME)]


def test_a_score_takes_all_gpus_of_a_baseline_also_where_one_is_the_same_board() -> None:
    """It compares machines: the one in the middle, and not the board's own past."""
    three = baseline(on(1, "a"), on(2, "a", 50.0), on(3, "a", 101.0), devices=boards(1, 2, 3))
    found = baselines.hold(side(on(2, "a", 50.0), devices=boards(2)), three)
    assert found.comparison.overall_score == pytest.approx(50)


def test_a_score_never_averages_loading_with_training() -> None:
    """A load of ten times as long says something of a disk, and nothing of the speed of the GPU."""
    before = baseline(on(2, "a", phase=Workload.TRAINING), on(2, "a", 10.0, phase=Workload.LOAD), devices=boards(2))
    after = side(on(2, "a", 110.0, phase=Workload.TRAINING), on(2, "a", 100.0, phase=Workload.LOAD), devices=boards(2))
    found = baselines.hold(after, before).comparison
    assert (found.overall_score, found.cells) == (pytest.approx(110), 1)
    assert found.improvement_percent["a_throughput"] == pytest.approx(10)
    assert found.not_comparable == {baselines.NOT_SCORED: 1}


def test_what_one_gpu_of_a_baseline_was_is_no_doubt_where_another_one_compares() -> None:
    """Of a GPU with another power limit nothing is taken; where there is no other one, the fact is named."""
    slower = replace(device(3), power_limit_w=500.0)
    two = baseline(on(2, "a"), on(3, "a", 60.0), on(3, "b"), devices=(device(2), slower))
    one = held(two, side(on(7, "a"), on(7, "b"), devices=boards(7)))
    assert [(found.gpu_before, found.verdict, found.reason) for found in one.cells] == [
        ("GPU 2", ChangeVerdict.SAME, ""),
        ("GPU 3", ChangeVerdict.NOT_COMPARABLE, "power limit 500 W, then 700 W"),
    ]


@pytest.mark.parametrize(
    ("doubt", "verdict"),
    [({"steady": False}, ChangeVerdict.SAME), ({"throttled": None}, ChangeVerdict.INCONCLUSIVE)],
)
def test_what_is_doubtful_of_one_gpu_of_two_is_doubtful_of_both(
    doubt: dict[str, object], verdict: ChangeVerdict
) -> None:
    """Launches of both are compared, so the doubt about one of them is a remark on the verdict, or prevents it."""
    two = baseline(on(2, "a"), on(3, "a", 100.1, **doubt), devices=boards(2, 3))
    one = held(two, side(on(7, "a"), devices=boards(7)))
    assert [found.verdict for found in one.cells] == [verdict]
    assert one.cells[0].reason


# ── what has no partner ───────────────────────────────────────────────────────────────────────────────────────────────


def test_another_model_of_gpu_is_named_and_not_compared() -> None:
    """NOT COMPARABLE, with the fact, though the baseline has the cell."""
    one = held(TWO, side(on(7, "a"), devices=(replace(device(7), gpu_name="NVIDIA H100"),)))
    assert [found.reason for found in one.cells] == ["GPU model NVIDIA H200, then NVIDIA H100"]
    assert exit_code([one], ()) is ExitCode.INCOMPLETE


def test_a_gpu_of_which_a_baseline_has_nothing_counts_as_not_comparable() -> None:
    """It is named, and its cells fail where what cannot be compared fails; what another GPU has beside is no loss."""
    run = side(on(6, "a"), on(6, "new"), on(7, "other"), name="after", devices=boards(6, 7))
    one = held(replace(TWO, cells=TWO.cells[:1], devices=boards(2)), run)
    assert (one.counts, one.unheld) == ({ChangeVerdict.SAME: 1}, ("GPU 7",))
    assert (exit_code([one], STRICT), exit_code([one], FAIL_ON)) == (ExitCode.MISSED, ExitCode.INCOMPLETE)
    suite = ET.fromstring(to_junit([one], STRICT))[0]
    assert {str(case.get("name")).removesuffix(" inference bf16 b8"): case[0].tag for case in suite} == {
        "GPU 6 a": "system-out",
        "GPU 6 new": "skipped",
        "GPU 7 other": "failure",
    }


@pytest.mark.parametrize(
    ("numbers", "lost"), [((6, 7), "GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 9"), ((20,), "GPU 9")]
)
def test_a_lost_gpu_is_named_on_the_node_of_the_baseline(numbers: tuple[int, ...], lost: str) -> None:
    """On another node all GPUs of the baseline stand for one; only a GPU with another cell is named."""
    alike = [on(at, "a", 100.0 + at / 10) for at in range(8)]
    nine = baseline(*alike, on(9, "b"), devices=boards(*range(8), 9))
    one = held(nine, side(*(on(at, "a") for at in numbers), name="after", devices=boards(*numbers)))
    assert [note.rsplit(": ")[-1] for note in one.notes if "no partner" in note] == [lost]
    assert ("board" in one.title) is (20 in numbers)


def test_a_cell_of_a_baseline_that_no_gpu_of_the_run_has_is_missing() -> None:
    """Once, however many GPUs the baseline measured it on."""
    one = held(TWO, side(on(7, "a"), on(7, "b"), name="after", devices=boards(7)))
    assert [(found.model_name, found.gpu, found.why) for found in one.only_before] == [("gemm", "GPU 2 and GPU 3", "")]
    assert exit_code([one], STRICT) is ExitCode.MISSED
    assert (failing([one], STRICT), failing([one], FAIL_ON)) == ([MISSING], [])
    slow = held(TWO, side(on(7, "a", 50.0), on(7, "b", 50.0), name="after", devices=boards(7)))
    assert failing([slow], FAIL_ON) == [ChangeVerdict.SLOWER]
    assert failing([slow], STRICT | FAIL_ON) == [ChangeVerdict.SLOWER, MISSING]


def test_a_cell_on_another_gpu_of_the_run_is_not_called_unmeasured() -> None:
    """Two runs: GPUs are compared with GPUs, so a cell may be on one that is compared with another."""
    before = side(on(0, "a"), on(1, "b"), devices=boards(0, 1))
    after = side(on(5, "b"), on(6, "a"), name="after", devices=boards(5, 6))
    one = held(before, after)
    why = {found.model_name: found.why for found in one.only_before}
    assert {name: text.split()[-2:] for name, text in why.items()} == {"a": ["GPU", "6"], "b": ["GPU", "5"]}
    assert [found.why.split()[-1] for found in one.only_after] == ["1", "0"]
    shown = [
        to_text([one], ended(ExitCode.INCOMPLETE)),
        to_markdown([one], ended(ExitCode.MISSED)),
        to_junit([one], ()).decode(),
    ]
    for text in (*shown, str(page([one], ended(ExitCode.INCOMPLETE)).sections[-1].summary)):
        assert why["a"] in " ".join(text.split())
    failed = replace(after, cells=tuple(replace(found, values=()) for found in after.cells))
    assert [found.why for found in held(before, failed).only_before] == ["", ""]


# ── the mode ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_mode_is_named_with_the_option_that_measures_it() -> None:
    """Of both sides; the advice is to measure like the first, and nothing is compared."""
    alone = baseline(on(2, "a", mode="solo"), devices=boards(2))
    one = held(alone, side(on(6, "a"), on(7, "a"), name="after", devices=boards(6, 7)))
    assert (one.cells, {found.why for found in one.only_after}) == ((), {f"the mode is {MODE.format('after')}"})
    assert ["--solo" in found.why for found in one.only_before] == [True]
    assert re.search(
        f"2 cells of after .* {re.escape(MODE.format('after'))}",
        " ".join(to_text([one], ended(ExitCode.INCOMPLETE)).split()),
    )
    assert exit_code([one], {ChangeVerdict.SLOWER}) is ExitCode.INCOMPLETE
    back = held(side(on(7, "a"), devices=boards(7)), replace(alone, baseline_version=None))
    assert ["without --solo" in found.why for found in back.only_after] == [True]


def test_a_score_and_a_limit_name_the_mode_that_differs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """In every format: a run of two GPUs is loaded, a baseline of one is solo."""
    made = {}
    for mode in (Mode.SOLO, Mode.LOADED):
        run = FakeRun(tmp_path_factory.mktemp(mode), devices=gpus(2), batch_sizes=(1,), modes=(mode,))
        run.everything()
        made[mode] = run.ended()
    alone = run_figures.of_report(made[Mode.SOLO], "base")
    limit = Threshold(name="as fast", figure=LimitName.OF_BASELINE, phase=Workload.INFERENCE, at_least=95)
    report = references.hold(made[Mode.LOADED], Against(baseline=alone, thresholds=(limit,)))
    assert report.baseline_comparison.not_comparable == {OF_THE_RUN: 2}
    assert [one.note for one in report.thresholds] == [OF_THE_RUN, OF_THE_RUN]
    assert OF_THE_RUN in report.summary.score_note
    for text in (report_text(report), report_markdown(report)):
        assert OF_THE_RUN in " ".join(text.split())


def test_nothing_has_no_sign(tmp_path: Path) -> None:
    """A difference that rounds to nothing is none, in the text and on the page."""
    assert [difference(percent) for percent in (-0.04, 0.04, -0.06)] == ["+0.0%", "+0.0%", "-0.1%"]
    made = []
    for name, forward_ms in (("run", 10.001), ("base", 10.0)):
        run = FakeRun(tmp_path / name, batch_sizes=(1,))
        run.measured(run.cell(batch_size=1), forward_ms=forward_ms)
        made.append(run.ended())
    report = references.hold(made[0], Against(baseline=run_figures.of_report(made[1], "base")))
    assert -0.05 < report.baseline_comparison.improvement_percent["overall"] < 0
    for shown in (report_text(report), str(comparisons.baseline(report).tables)):
        assert "+0.0%" in shown
        assert "-0.0%" not in shown


def test_what_a_baseline_does_not_have_in_any_mode_is_not_in_it() -> None:
    """Another model, and another batch size, are no other mode."""
    run = side(on(7, "new"), on(7, "a", batch_size=4, ran_at=4), devices=boards(7))
    [(why, cells)] = baselines.hold(run, TWO).comparison.not_comparable.items()
    assert (why.startswith("not in"), cells) == (True, 2)
