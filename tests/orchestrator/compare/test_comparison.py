"""Which cells of two runs are compared, what keeps them from it, what changed, and what it means for the exit code."""

from collections.abc import Collection

import msgspec
import pytest

from orchestrator.compare.comparison import FAIL_ON, Comparison, SessionSpread, compare, exit_code
from orchestrator.compare.run_figures import Side, SideCell
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
        ({"throttled": True}, "throttled in"),
        ({"contaminated": True}, "contaminated by"),
        ({"status": Status.DEGRADED, "ran_at": 4}, "a smaller batch"),
        ({"status": Status.FAILED, "values": ()}, "(failed)"),
        ({"gpu_name": "NVIDIA H100"}, "GPU model NVIDIA H200, then NVIDIA H100"),
        ({"memory_mb": 81920.0}, "memory 143771 MB, then 81920 MB"),
        ({"power_limit_w": 500.0}, "power limit 700 W, then 500 W"),
        ({"power_limit_w": None}, "700 W, then unknown"),
    ],
)
def test_a_cell_that_differs_in_more_than_speed_is_not_comparable(changes: dict[str, object], reason: str) -> None:
    """The fact is named, and the cell counts for nothing; a GPU with another power limit is another GPU."""
    of_device = {name: value for name, value in changes.items() if name in device().__struct_fields__}
    of_cell = {name: value for name, value in changes.items() if name not in of_device}
    one = held(side(cell()), side(cell(**of_cell), devices=(device(**of_device),)))
    assert (only(one)[0], reason in only(one)[1]) == (ChangeVerdict.NOT_COMPARABLE, True)
    assert one.means == ()
    assert exit_code([one], FAIL_ON) is ExitCode.INCOMPLETE


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
    ("after", "devices", "verdict", "reason"),
    [
        (cell("resnet50", 99.0, 99.1, 99.2, steady=False), "cuda", ChangeVerdict.NO_CHANGE, "times were not"),
        (cell("resnet50", 65.0, steady=False), "cuda", ChangeVerdict.INCONCLUSIVE, "times were not"),
        (cell("resnet50", 65.0, 65.1, 65.2, steady=False), "cuda", ChangeVerdict.PROBABLY_SLOWER, "times were not"),
        (cell("resnet50", 20.0, 20.1, 20.2, steady=False), "cuda", ChangeVerdict.PROBABLY_SLOWER, "times were not"),
        (cell("resnet50", 99.0), "cuda", ChangeVerdict.NO_CHANGE, "one launch"),
        (cell("resnet50", 50.0), "cuda", ChangeVerdict.SLOWER, "one launch"),
        (cell("resnet50", 50.0, 50.1), "cuda", ChangeVerdict.SLOWER, "two launches"),
        (cell("resnet50", 50.0, host_bound=True), "cuda", ChangeVerdict.INCONCLUSIVE, "one launch"),
        (cell("resnet50", 50.0), "cpu", ChangeVerdict.INCONCLUSIVE, "one launch"),
        (cell("resnet50", 50.0, 50.1, 50.2), "cpu", ChangeVerdict.SLOWER, ""),
        (cell("resnet50", 90.0, 90.1, 90.2, host_bound=True), "cuda", ChangeVerdict.INCONCLUSIVE, ""),
    ],
)
def test_what_the_launches_do_not_show_the_prior_says(
    after: SideCell, devices: str, verdict: ChangeVerdict, reason: str
) -> None:
    """2 % for a steady cell that is not bound by the host, else 30 %; the verdict says on how few launches it rests."""
    of_kind = (device(kind=devices),)
    one = held(side(devices=of_kind), side(after, devices=of_kind))
    assert (only(one)[0], only(one)[1].startswith(reason)) == (verdict, True)
    assert bool(only(one)[1]) is bool(reason)
    assert one.cells[0].low is not None


def test_times_that_were_not_steady_lend_no_variance() -> None:
    """Neither to the others nor to themselves."""
    before = side(cell("loose", 100.0, 50.0, 200.0), cell("slow"))
    after = side(cell("loose", 110.0, 95.0, 95.0, steady=False), cell("slow", 90.0, 90.2, 89.9))
    one = held(before, after)
    assert [found.verdict for found in one.cells] == [ChangeVerdict.INCONCLUSIVE, ChangeVerdict.SLOWER]
    assert one.cells[1].ratio == pytest.approx(0.9, rel=0.01)


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_three_launches_are_advised_where_there_was_one(kind: str) -> None:
    """Of a cell that one launch cannot settle."""
    devices = (device(kind=kind),)
    one = held(side(devices=devices), side(cell("resnet50", 60.0, host_bound=True), devices=devices))
    assert one.cells[0].launches_needed == 3


@pytest.mark.parametrize("changes", [{"throttled": True}, {"contaminated": True}])
def test_a_known_disturbance_leaves_the_change(changes: dict[str, bool]) -> None:
    """Throttled or beside another process: not comparable, but how far it moved is shown; of other work it is not."""
    (found,) = held(side(), side(cell("resnet50", 50.0, 50.0, 50.0, **changes))).cells
    assert (found.verdict, found.ratio) == (ChangeVerdict.NOT_COMPARABLE, pytest.approx(0.5, rel=0.01))
    (found,) = held(side(), side(cell(ran_at=4, **changes))).cells
    assert found.ratio is None


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (False, None, "in the second"),
        (None, False, "in the first"),
        (None, None, "and the second"),
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
    few = cell("resnet50", 93.0, 95.5, 90.5)
    sides = (side(few), side(msgspec.structs.replace(few, throttled=None)))
    watched, unwatched = (held(side(), after).cells[0] for after in sides)
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
    assert [mean.ratio for mean in one.means] == [pytest.approx(0.95, abs=0.003)]
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
    other, siblings = (device(7),), MARGINS.siblings
    probe = {"gpu_uuid": "GPU-7", "phase": Workload.PROBE}

    def percent(before: Side, after: Side, threshold: float | None = None) -> float | None:
        return held(before, after, threshold).cells[0].margin_percent

    load = cell(phase=Workload.LOAD)
    assert percent(side(), side()) == pytest.approx(1)
    assert percent(side(load), side(load)) == pytest.approx(2)
    assert percent(side(), side(cell(gpu_uuid="GPU-7"), devices=other)) == pytest.approx(
        1 + 100 * MARGINS.siblings.clock.share
    )
    capped = side(cell(gpu_uuid="GPU-7", power_capped=True), devices=other)
    assert percent(side(), capped) == pytest.approx(1 + 100 * siblings.power.share)
    memory = side(cell("hbm", **probe), devices=other)
    assert percent(side(cell("hbm", phase=Workload.PROBE)), memory) == pytest.approx(
        1 + 100 * MARGINS.siblings.bandwidth.share
    )
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
        ("GPU 1", "GPU 0", ChangeVerdict.NO_CHANGE)
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
    assert both.title == "driver 570.86 -> 580.95; torch 2.11.0 -> 2.12.0; VBIOS 96.00 -> 97.00"
    assert any("joint effect" in note for note in both.notes)
    assert held(side(), side()).title.startswith("nothing ")
    gone = {key: value for key, value in STACK.items() if key != "driver"}
    assert held(side(), side(stack=gone)).title == "driver 570.86 -> unknown"


def test_an_unknown_version_has_not_changed() -> None:
    """A run without a result knows no versions. No number of iterations means that they were adaptive."""
    gone = {key: value for key, value in STACK.items() if key != "torch"}
    assert held(side(), side(stack=gone)).changes == ()
    assert held(side(), side(stack={**STACK, "iterations": "20"})).title == "iterations adaptive -> 20"


def test_sessions_are_in_every_interval_also_of_the_mean() -> None:
    """With no spread between them intervals are narrower, and the mean of many cells much; what was learned is told."""
    sides = side(*cells(20)), side(*cells(20, seed=2))
    with_prior, without = held(*sides), compare(*sides, MARGINS, session=SessionSpread(0.0, 0.0))
    learned = compare(*sides, MARGINS, session=SessionSpread(0.01, 0.03, runs=4))
    widths = [
        (one.cells[0].high - one.cells[0].low, one.means[0].high - one.means[0].low)
        for one in (without, with_prior, learned)
    ]
    assert widths == sorted(widths)
    assert widths[1][1] > 2 * widths[0][1]
    assert [any("learned from 4 runs" in note for note in one.notes) for one in (with_prior, learned)] == [False, True]


def test_the_mean_is_of_one_phase() -> None:
    """Loading is never averaged with training; all cells together may be slower where none is by itself."""
    phases = (Workload.LOAD, Workload.TRAINING)
    before = [cell(f"m{number}", 100.0, phase=phase) for phase in phases for number in range(20)]
    after = [
        cell(f"m{number}", 100.0 if phase is Workload.LOAD else 93.0, phase=phase)
        for phase in phases
        for number in range(20)
    ]
    one = held(side(*before), side(*after))
    assert ChangeVerdict.SLOWER not in one.counts
    assert [(mean.phase, mean.cells, mean.verdict) for mean in one.means] == [
        ("load", 20, None),
        ("training", 20, ChangeVerdict.SLOWER),
    ]
    assert exit_code([one], FAIL_ON) is ExitCode.MISSED


# ── exit codes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def same(count: int) -> tuple[list[SideCell], list[SideCell]]:
    """Cells of two runs in which nothing changed, with one launch each."""
    return [cell(f"same-{at}", 100.0) for at in range(count)], [cell(f"same-{at}", 99.8) for at in range(count)]


def test_all_cells_of_one_launch_at_half_the_speed_fail() -> None:
    """68 cells: each is SLOWER."""
    before, after = [cell(f"m{at}", 100.0) for at in range(68)], [cell(f"m{at}", 50.0) for at in range(68)]
    one = held(side(*before), side(*after))
    assert one.counts == {ChangeVerdict.SLOWER: 68}
    assert exit_code([one], FAIL_ON) is ExitCode.MISSED


@pytest.mark.parametrize(
    ("slow", "code"),
    [
        (cell("slow", 50.0), ExitCode.MISSED),
        (cell("slow", 50.0, steady=False), ExitCode.INCOMPLETE),
        (cell("slow", 15.0, steady=False), ExitCode.MISSED),
        (cell("slow", 89.0, steady=False), ExitCode.INCOMPLETE),
        (cell("slow", 98.0, steady=False), ExitCode.PASSED),
        (cell("slow", 98.0), ExitCode.PASSED),
        (cell("slow", 91.0, host_bound=True), ExitCode.PASSED),
        (cell("slow", 89.0, host_bound=True), ExitCode.INCOMPLETE),
        (cell("slow", 130.0, host_bound=True), ExitCode.PASSED),
    ],
)
def test_one_slow_cell_among_67_that_are_not(slow: SideCell, code: ExitCode) -> None:
    """It decides, whatever the others say."""
    before, after = same(67)
    assert exit_code([held(side(*before, cell("slow", 100.0)), side(*after, slow))], FAIL_ON) is code


def test_67_unsteady_cells_of_68_at_half_the_speed_fail() -> None:
    """Together: no cell can be told by itself."""
    before = [cell(f"m{at}", 100.0) for at in range(68)]
    after = [cell(f"m{at}", 50.0, steady=False) for at in range(67)]
    one = held(side(*before), side(*after, cell("m67", 100.0)))
    assert one.counts[ChangeVerdict.INCONCLUSIVE] == 67
    assert exit_code([one], FAIL_ON) is ExitCode.MISSED


@pytest.mark.parametrize("rates", [(72.0,), (72.0, 90.0, 60.0)])
def test_a_slower_cell_of_a_cpu_that_scatters_is_no_success(rates: tuple[float, ...]) -> None:
    """Its launches cannot tell whether it lost a quarter of its speed: INCONCLUSIVE, however few they are."""
    devices = (device(kind="cpu"),)
    before = cell("slow", *(100.0, 130.0, 80.0)[: len(rates)])
    one = held(side(before, devices=devices), side(cell("slow", *rates), devices=devices))
    assert exit_code([one], FAIL_ON) is ExitCode.INCOMPLETE
    assert only(one)[0] == ChangeVerdict.INCONCLUSIVE


def test_an_unchanged_run_of_one_launch_passes() -> None:
    """Also with cells of the host; the slow-down that is excluded is told."""
    before, after = same(20)
    host = cell("host", 100.0, host_bound=True), cell("host", 95.0, host_bound=True)
    one = held(side(*before, host[0]), side(*after, host[1]))
    assert one.counts == {ChangeVerdict.NO_CHANGE: 21}
    excluded = {found.model_name: found.excluded_percent for found in one.cells}
    assert 4 < excluded["same-0"] < 8
    assert 50 < excluded["host"] < 70
    assert exit_code([one], FAIL_ON) is ExitCode.PASSED


def test_a_cell_that_never_had_a_result_need_not_be_judged() -> None:
    """A model that does not fit in either run."""
    gone = cell("gone", status=Status.FAILED, values=())
    assert exit_code([held(side(cell(), gone), side(cell(), gone))], FAIL_ON) is ExitCode.PASSED
    assert exit_code([held(side(cell(), cell("gone")), side(cell(), gone))], FAIL_ON) is ExitCode.INCOMPLETE


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
    assert exit_code([gone], FAIL_ON) is ExitCode.INCOMPLETE
    assert exit_code([new], {ChangeVerdict.NOT_COMPARABLE}) is ExitCode.PASSED


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ({ChangeVerdict.INCONCLUSIVE}, 1),
        ({ChangeVerdict.NOT_COMPARABLE}, 1),
        ({ChangeVerdict.NO_CHANGE}, 1),
        (FAIL_ON, 4),
        ({ChangeVerdict.FASTER}, 4),
        ((), 4),
    ],
)
def test_who_wants_to_know_more_fails_on_more(fail_on: Collection[ChangeVerdict], code: int) -> None:
    """A run with one cell of no change, one not comparable, one inconclusive."""
    before = side(cell("a", 100.0), cell("b"), cell("c"))
    after = side(cell("a", 100.0), cell("b", throttled=True), cell("c", 50.0, 51.0, steady=False))
    assert exit_code([held(before, after)], fail_on) == code
