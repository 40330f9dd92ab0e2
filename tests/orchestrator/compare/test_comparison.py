"""Which cells of two runs are compared, what keeps them from it, what changed, and what it means for the exit code."""

import msgspec
import pytest

from orchestrator.compare.comparison import Comparison, compare, exit_code
from orchestrator.compare.run_figures import Side
from orchestrator.config import margins
from orchestrator.figures.cells import Status
from orchestrator.stats.two_runs import ChangeVerdict
from protocol.cell import Workload
from protocol.exit_codes import ExitCode
from tests.fakes.sides import STACK, cell, cells, device, side

MARGINS = margins.load()


def held(before: Side, after: Side, percent: float | None = None) -> Comparison:
    """The comparison, with the margins that ship."""
    return compare(before, after, MARGINS, percent)


def only(one: Comparison) -> tuple[ChangeVerdict, str]:
    """Verdict and reason of the one cell there is."""
    assert len(one.cells) == 1
    return one.cells[0].verdict, one.cells[0].reason


# ── identity facts ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ran_at": 4}, "batch size 8, then 4"),
        ({"parameters": 9}, "parameters 25557032, then 9"),
        ({"metric": "tokens_per_second"}, "metric throughput_samples_per_sec, then tokens_per_second"),
        ({"throttled": True}, "second is throttled"),
        ({"contaminated": True}, "second is contaminated"),
        ({"status": Status.DEGRADED, "ran_at": 4}, "second is measured at a smaller batch"),
        ({"status": Status.FAILED, "values": ()}, "(failed)"),
        ({"gpu_name": "NVIDIA H100"}, "GPU model NVIDIA H200, then NVIDIA H100"),
        ({"memory_mb": 81920.0}, "memory 143771 MB, then 81920 MB"),
        ({"power_limit_w": 500.0}, "power limit 700 W, then 500 W"),
        ({"power_limit_w": None}, "power limit 700 W, then unknown"),
    ],
)
def test_a_cell_that_differs_in_more_than_speed_is_not_comparable(changes: dict[str, object], reason: str) -> None:
    """The fact is named, and the cell counts for nothing; a GPU with another power limit is another GPU."""
    of_device = {name: value for name, value in changes.items() if name in device().__struct_fields__}
    of_cell = {name: value for name, value in changes.items() if name not in of_device}
    one = held(side(cell()), side(cell(**of_cell), devices=(device(**of_device),)))
    assert (only(one)[0], reason in only(one)[1]) == (ChangeVerdict.NOT_COMPARABLE, True)
    assert one.mean is None
    assert exit_code([one], {ChangeVerdict.SLOWER}) is ExitCode.INCOMPLETE


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "fp32"},
        {"mode": "solo"},
        {"batch_size": 4},
        {"input_size": 512},
        {"memory_format": "contiguous"},
        {"compile_mode": "default"},
        {"new_tokens": 5},
        {"phase": Workload.TRAINING},
    ],
)
def test_another_cell_is_no_partner(changes: dict[str, object]) -> None:
    """What cells are found by: both are told to be without a partner."""
    one = held(side(cell()), side(cell(**changes)))
    assert (one.cells, len(one.only_before), len(one.only_after)) == ((), 1, 1)
    assert one.only_before[0].cell != one.only_after[0].cell
    assert exit_code([one], ()) is ExitCode.INCOMPLETE


def test_an_unknown_number_of_parameters_is_no_difference() -> None:
    """A baseline of probes, or of an older run, need not know it."""
    assert only(held(side(cell(parameters=None)), side(cell())))[0] is ChangeVerdict.SAME


# ── doubts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (side(), side(cell(steady=False)), "times were not steady after warm-up"),
        (side(), side(cell("resnet50", 50.0)), "one launch: no verdict"),
        (side(devices=(device(kind="cpu"),)), side(devices=(device(kind="cpu"),)), "a CPU device gets no performance"),
    ],
)
def test_what_stands_against_a_verdict_leaves_the_ratio(before: Side, after: Side, reason: str) -> None:
    """INCONCLUSIVE, with the reason, and no test."""
    one = held(before, after)
    assert one.cells[0].verdict is ChangeVerdict.INCONCLUSIVE
    assert one.cells[0].reason.startswith(reason)
    assert (one.cells[0].p, one.cells[0].low) == (None, None)
    assert one.cells[0].ratio is not None
    assert exit_code([one], {ChangeVerdict.SLOWER}) is ExitCode.INCOMPLETE


def test_what_gets_no_verdict_is_no_test_either() -> None:
    """It neither lends its variance to the others nor takes their figures."""
    before = side(cell("loose", 100.0, 50.0, 200.0), cell("slow"))
    after = side(cell("loose", 300.0, 100.0, 900.0, steady=False), cell("slow", 90.0, 90.2, 89.9))
    one = held(before, after)
    assert [found.verdict for found in one.cells] == [ChangeVerdict.INCONCLUSIVE, ChangeVerdict.SLOWER]
    assert one.cells[1].ratio == pytest.approx(0.9, rel=0.01)


@pytest.mark.parametrize(("kind", "needed"), [("cuda", 3), ("cpu", None)])
def test_three_launches_are_advised_where_there_was_one(kind: str, needed: int | None) -> None:
    """Of a CPU device none are: they would not help."""
    devices = (device(kind=kind),)
    one = held(side(devices=devices), side(cell("resnet50", 50.0), devices=devices))
    assert one.cells[0].launches_needed == needed


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (False, None, "the second was throttled"),
        (None, False, "the first was throttled"),
        (None, None, "the first and the second were throttled"),
    ],
)
@pytest.mark.parametrize(
    ("speed", "verdict", "code"),
    [(1.0, ChangeVerdict.INCONCLUSIVE, 4), (1.1, ChangeVerdict.INCONCLUSIVE, 4), (0.9, ChangeVerdict.SLOWER, 1)],
)
def test_what_nobody_watched_is_no_evidence_for_anything_good(
    *, first: bool | None, second: bool | None, reason: str, speed: float, verdict: ChangeVerdict, code: int
) -> None:
    """A GPU without telemetry may have been throttled: neither SAME nor FASTER; what is slower is told all the same."""
    after = cell("resnet50", *(speed * rate for rate in (100.0, 100.3, 99.8)), throttled=second)
    one = held(side(cell(throttled=first)), side(after))
    assert (only(one)[0], reason in only(one)[1]) == (verdict, True)
    assert one.cells[0].low is not None
    assert (one.cells[0].launches_needed, one.cells[0].needed_beyond) == (None, False)
    assert exit_code([one], {ChangeVerdict.SLOWER}) == code


def test_more_launches_are_not_advised_without_telemetry() -> None:
    """They would not show that it is the same."""
    noisy = cell("resnet50", 99.0, 101.0, 100.0)
    sides = (side(noisy), side(msgspec.structs.replace(noisy, throttled=None)))
    watched, unwatched = (held(side(noisy), after).cells[0] for after in sides)
    assert [one.verdict for one in (watched, unwatched)] == [ChangeVerdict.INCONCLUSIVE] * 2
    assert (watched.launches_needed is None, unwatched.launches_needed is None) == (False, True)


# ── verdicts and margins ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_slower_run_is_a_regression() -> None:
    """Every cell by 5 %: SLOWER, and exit code 1; the other way round FASTER, and 0."""
    before, after = side(*cells(20)), side(*cells(20, speed=0.95, seed=2))
    one, back = held(before, after), held(after, before)
    assert one.counts == {ChangeVerdict.SLOWER: 20}
    assert held(before, after, 10.0).counts == {ChangeVerdict.SAME: 20}  # to who allows 10 %
    assert back.counts == {ChangeVerdict.FASTER: 20}
    assert one.mean.ratio == pytest.approx(0.95, abs=0.003)
    assert exit_code([one], {ChangeVerdict.SLOWER}) is ExitCode.MISSED
    assert exit_code([back], {ChangeVerdict.SLOWER}) is ExitCode.PASSED
    assert exit_code([one], ()) is ExitCode.PASSED


def test_a_time_that_grew_is_slower() -> None:
    """Loading is measured in milliseconds: less is better."""
    after = side(cell("resnet50", 120.0, 121.0, 119.0, phase=Workload.LOAD))
    one = held(side(cell("resnet50", 100.0, 101.0, 99.0, phase=Workload.LOAD)), after)
    assert only(one) == (ChangeVerdict.SLOWER, "")
    assert one.cells[0].ratio == pytest.approx(100 / 120, rel=0.01)
    assert (one.cells[0].before, one.cells[0].after) == (100.0, 120.0)


def test_the_margin_is_of_the_kind_of_cell_and_of_the_board() -> None:
    """1 %, 2 % end to end; on another board what boards differ by is added; --threshold takes the place of all."""
    other = (device(7),)
    probe = {"gpu_uuid": "GPU-7", "phase": Workload.PROBE}

    def percent(before: Side, after: Side, threshold: float | None = None) -> float | None:
        return held(before, after, threshold).cells[0].margin_percent

    load = cell(phase=Workload.LOAD)
    assert percent(side(), side()) == pytest.approx(1)
    assert percent(side(load), side(load)) == pytest.approx(2)
    assert percent(side(), side(cell(gpu_uuid="GPU-7"), devices=other)) == pytest.approx(1 + 3)
    capped = side(cell(gpu_uuid="GPU-7", power_capped=True), devices=other)
    assert percent(side(), capped) == pytest.approx(1 + 5)
    memory = side(cell("hbm", **probe), devices=other)
    assert percent(side(cell("hbm", phase=Workload.PROBE)), memory) == pytest.approx(1 + 2)
    assert percent(side(), capped, 3.0) == pytest.approx(3)


# ── devices ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cell_that_has_no_result_itself_is_not_missed() -> None:
    """What failed in the only run that has it is no loss of the other, and no failure for `--fail-on`."""
    failed = cell("gone", status=Status.FAILED, values=())
    both = cell("m", 100.0, 100.1)
    for one in (held(side(both, failed), side(both, name="after")), held(side(both), side(both, failed, name="after"))):
        assert (one.only_before, one.only_after) == ((), ())


def test_gpus_find_each_other_by_their_uuid() -> None:
    """Also where their numbers changed, as after a board was taken out; who is left over is told."""
    two = (device(0), device(1))
    before = side(cell("m", 100.0, 100.1), cell("m", 50.0, 50.1, gpu_uuid="GPU-1"), devices=two)
    after = side(cell("m", 50.0, 50.2, gpu_uuid="GPU-1"), devices=(device(1, label="GPU 0"),), name="after")
    one = held(before, after)
    assert [(found.gpu_before, found.gpu_after, found.verdict) for found in one.cells] == [
        ("GPU 1", "GPU 0", ChangeVerdict.SAME)
    ]
    assert [(found.gpu, found.cell) for found in one.only_before] == [("GPU 0", "m inference bf16 b8")]
    assert ["GPU 0" in note for note in one.notes if "no partner" in note] == [True]


def test_other_boards_are_paired_in_order_and_named() -> None:
    """Of the same model first."""
    before = side(cell(), devices=(device(0),))
    devices = (device(5, gpu_name="NVIDIA H100"), device(6))
    after = side(cell(gpu_uuid="GPU-5"), cell("resnet50", 98.5, 98.6, 98.4, gpu_uuid="GPU-6"), devices=devices)
    one = held(before, after)
    assert [(found.gpu_after, found.verdict) for found in one.cells] == [("GPU 6", ChangeVerdict.SAME)]
    assert one.title == "another board"
    assert any("other boards" in note for note in one.notes)
    assert not any("other boards" in note for note in held(before, after, 3.0).notes)


@pytest.mark.parametrize("changes", [{"gpu_name": "NVIDIA H100"}, {"kind": "cpu"}])
def test_what_boards_differ_by_is_no_note_where_no_board_is_compared(changes: dict[str, str]) -> None:
    """A GPU against another model, or a CPU device of another node: nothing was added to any margin that counts."""
    kind = changes.get("kind", "cuda")
    before = side(cell(), devices=(device(0, kind=kind),))
    one = held(before, side(cell(gpu_uuid="GPU-7"), devices=(device(7, **changes),)))
    assert len(one.cells) == 1
    assert not any("other boards" in note for note in one.notes)


# ── what changed ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_changed_in_the_stack_is_the_title_and_no_reason_for_a_doubt() -> None:
    """One fact alone, several as a joint effect, none."""
    newer = {**STACK, "driver": "580.95"}
    one = held(side(*cells(5)), side(*cells(5, seed=2), stack=newer))
    assert one.title == "driver 570.86 -> 580.95"
    assert one.counts == {ChangeVerdict.SAME: 5}
    assert not any("joint effect" in note for note in one.notes)
    both = held(side(), side(stack={**newer, "torch": "2.12.0"}, devices=(device(stack={"VBIOS": "97.00"}),)))
    assert both.title == "driver 570.86 -> 580.95, torch 2.11.0 -> 2.12.0, VBIOS 96.00 -> 97.00"
    assert any("joint effect" in note for note in both.notes)
    assert held(side(), side()).title == "nothing of the stack differs"
    gone = {key: value for key, value in STACK.items() if key != "driver"}
    assert held(side(), side(stack=gone)).title == "driver 570.86 -> unknown"


def test_one_session_a_side_is_told_wherever_there_is_an_interval() -> None:
    """Reboots and days are in none of them."""
    assert any("one session a side" in note for note in held(side(), side()).notes)
    assert not any("one session" in note for note in held(side(), side(cell("resnet50", 1.0))).notes)


def test_of_several_comparisons_the_gravest_decides() -> None:
    """One without a conclusion is not made up for by another one; a regression is graver still."""
    healthy, nothing = held(side(), side()), held(side(), side(devices=(device(power_limit_w=500.0),)))
    slower = held(side(), side(cell("resnet50", 90.0, 90.2, 89.9)))
    for comparisons, code in (
        ([healthy, healthy], ExitCode.PASSED),
        ([healthy, nothing], ExitCode.INCOMPLETE),
        ([nothing, healthy], ExitCode.INCOMPLETE),
        ([healthy, nothing, slower], ExitCode.MISSED),
    ):
        assert exit_code(comparisons, {ChangeVerdict.SLOWER}) is code


def test_a_cell_that_the_second_run_lacks_counts_as_not_comparable() -> None:
    """Half of the cells gone is no success for who fails on what cannot be compared; a new cell is no loss."""
    fewer, more = side(cell("a")), side(cell("a"), cell("b"))
    gone, new = held(more, fewer), held(fewer, more)
    assert [found.cell for found in gone.only_before] == ["b inference bf16 b8"]
    assert exit_code([gone], {ChangeVerdict.NOT_COMPARABLE}) is ExitCode.MISSED
    assert exit_code([gone], {ChangeVerdict.SLOWER}) is ExitCode.PASSED
    assert exit_code([new], {ChangeVerdict.NOT_COMPARABLE}) is ExitCode.PASSED


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ({ChangeVerdict.INCONCLUSIVE}, 1),
        ({ChangeVerdict.NOT_COMPARABLE}, 1),
        ({ChangeVerdict.SLOWER}, 0),
        ({ChangeVerdict.FASTER}, 0),
    ],
)
def test_who_wants_to_know_more_fails_on_more(fail_on: set[ChangeVerdict], code: int) -> None:
    """A run with one cell that is the same, one not comparable, one without a verdict."""
    before = side(cell("a"), cell("b"), cell("c"))
    after = side(cell("a"), cell("b", throttled=True), cell("c", steady=False))
    assert exit_code([held(before, after)], fail_on) == code
