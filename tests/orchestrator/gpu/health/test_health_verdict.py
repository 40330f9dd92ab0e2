"""What the health signals mean, row by row: the verdict on one GPU. Pure, without any GPU."""

from dataclasses import replace

import pytest

from orchestrator.config.health_signals import SIGNALS, Board, BoardClass, board_class
from orchestrator.gpu.health import verdict
from orchestrator.gpu.health.clocks import ClockUse
from orchestrator.gpu.health.course import Course
from orchestrator.gpu.health.judges import Action, State
from orchestrator.gpu.health.verdict import HealthVerdict
from protocol.failure import Category, Failure, Phase
from tests.fakes.health import H200, RTX, SECOND_NS, V100, WELL, case, course, state

ROWS = [
    ("recovery_action", {"recovery_action": 1}, HealthVerdict.FAIL, Action.RESET),
    ("recovery_action", {"recovery_action": 2}, HealthVerdict.FAIL, Action.REBOOT),
    ("recovery_action", {"recovery_action": 3}, HealthVerdict.WARN, Action.MONITOR),
    ("recovery_action", {"recovery_action": 99}, HealthVerdict.FAIL, Action.REBOOT),
    ("ecc_uncorrected", {"ecc_uncorrected": 1}, HealthVerdict.FAIL, Action.RESET),
    ("ecc_uncorrected", {"ecc_uncorrected_lifetime": 1}, HealthVerdict.FAIL, Action.RESET),
    ("ecc_corrected", {"ecc_corrected": 11}, HealthVerdict.WARN, Action.MONITOR),
    ("sram", {"sram_threshold": 1}, HealthVerdict.FAIL, Action.REPLACE),
    ("rows_failed", {"rows_failed": 1}, HealthVerdict.FAIL, Action.REPLACE),
    ("rows_pending", {"rows_pending": 1}, HealthVerdict.FAIL, Action.RESET),
    ("thermal_violation", {"thermal_violation_ns": 2 * SECOND_NS}, HealthVerdict.WARN, Action.MONITOR),
    ("gpu_temperature", {"gpu_margin_c": 0}, HealthVerdict.FAIL, Action.REPLACE),
    ("gpu_temperature", {"gpu_margin_c": 5}, HealthVerdict.WARN, Action.MONITOR),
    ("memory_temperature", {"memory_margin_c": -1}, HealthVerdict.FAIL, Action.REPLACE),
    ("pcie_replays", {"pcie_replays": 31}, HealthVerdict.WARN, Action.MONITOR),
    ("pcie_generation", {"pcie_generation": 3}, HealthVerdict.WARN, Action.MONITOR),
    ("pcie_width", {"pcie_width": 8}, HealthVerdict.WARN, Action.MONITOR),
    ("nvlinks", {"nvlinks_up": 17}, HealthVerdict.FAIL, Action.RESET),
    ("nvlink_errors", {"nvlink_errors": 1}, HealthVerdict.WARN, Action.MONITOR),
    ("fabric", {"fabric_state": 1}, HealthVerdict.FAIL, Action.REBOOT),
    ("fabric", {"fabric_state": 2}, HealthVerdict.FAIL, Action.REBOOT),
    ("fabric", {"fabric_status": 999}, HealthVerdict.FAIL, Action.REBOOT),
]


@pytest.mark.parametrize(("signal", "later", "expected", "action"), ROWS)
def test_each_signal_has_its_limit(signal: str, later: dict[str, int], expected: HealthVerdict, action: Action) -> None:
    """A value beyond its limit, and it alone, decides the verdict and says what to do."""
    opinion = verdict.of_gpu(case(course({}, later)), ())
    assert (opinion.verdict, opinion.action) == (expected, action)
    unwell = [one.name for one in opinion.findings if one.judgement.state in {State.WARN, State.FAIL}]
    assert unwell == [signal]


@pytest.mark.parametrize(
    ("signal", "once", "expected"),
    [
        ("recovery_action", {"recovery_action": 1}, State.FAIL),
        ("ecc_uncorrected", {"ecc_uncorrected": 1}, State.FAIL),
        ("sram", {"sram_threshold": 1}, State.FAIL),
        ("rows_failed", {"rows_failed": 1}, State.FAIL),
        ("pcie_width", {"pcie_width": 8}, State.WARN),
        ("power_limit", {"power_limit_mw": 500_000}, State.WARN),
        ("nvlinks", {"nvlinks_up": 17}, State.FAIL),
    ],
)
def test_the_worst_look_counts_and_not_the_last(signal: str, once: dict[str, int], expected: State) -> None:
    """What was bad in the middle of a run and is well at its end was bad while it measured."""
    opinion = verdict.of_gpu(case(course({}, once, {}), use=ClockUse(readings=600, capped=0.5)), ())
    assert state(opinion, signal) is expected


@pytest.mark.parametrize(
    "harmless",
    [
        {"ecc_corrected": 10},
        {"pcie_replays": 30},
        {"gpu_margin_c": 6},
        {"thermal_violation_ns": SECOND_NS // 2},
    ],
)
def test_below_its_limit_a_signal_is_well(harmless: dict[str, int]) -> None:
    """The limit itself, or what stays below it, is no finding."""
    assert verdict.of_gpu(case(course({}, harmless)), ()).verdict is HealthVerdict.PASS


def test_a_moment_of_heat_is_no_failure() -> None:
    """One look above the limit warns; only two in a row, so ten seconds, fail."""
    assert verdict.of_gpu(case(course({}, {"gpu_margin_c": -1}, {})), ()).verdict is HealthVerdict.WARN


@pytest.mark.parametrize(("seconds", "expected"), [(9.9, State.WARN), (10.0, State.FAIL)])
@pytest.mark.parametrize("signal", ["gpu_temperature", "memory_temperature"])
def test_ten_seconds_of_heat_are_a_failure(signal: str, seconds: float, expected: State) -> None:
    """A margin that is spent fails from ten seconds on, however well it was before and after; a shorter time warns."""
    made = Course()
    spent = WELL | {"gpu_margin_c": 0, "memory_margin_c": 0}
    for values, passed in ((WELL, 0.0), (spent, 10.0), (spent, seconds), (WELL, 10.0)):
        made.take(values, {}, passed)
    assert state(verdict.of_gpu(case(made), ()), signal) is expected


def test_an_idle_link_at_a_low_generation_is_well() -> None:
    """A link that saves power is no finding; one that was never seen under load is unread, not well."""
    idle = {"pcie_generation": 1, "gpu_percent": 0}
    assert verdict.of_gpu(case(course(idle, {})), ()).verdict is HealthVerdict.PASS
    assert state(verdict.of_gpu(case(course(idle)), ()), "pcie_generation") is State.UNREADABLE


def test_old_errors_count_too() -> None:
    """An error from before the run is a failure as well, and the report says that it is old."""
    opinion = verdict.of_gpu(case(course({"ecc_uncorrected": 3})), ())
    finding = next(one for one in opinion.findings if one.name == "ecc_uncorrected")
    assert (opinion.verdict, finding.start, finding.rise) == (HealthVerdict.FAIL, 3, 0)
    assert "before this run" in finding.judgement.message


@pytest.mark.parametrize(("pages", "expected"), [(62, HealthVerdict.PASS), (63, HealthVerdict.FAIL)])
def test_pages_are_retired_before_ampere(pages: int, expected: HealthVerdict) -> None:
    """Boards without row remapping are held against the pages they may retire."""
    opinion = verdict.of_gpu(case(course({"retired_pages": pages}), V100), ())
    assert opinion.verdict is expected
    assert state(opinion, "rows_failed") is State.NOT_APPLICABLE


def test_what_a_board_cannot_have_is_not_applicable() -> None:
    """No ECC, no NVLink and no fabric on a GeForce: it passes without them, also where they are required."""
    bare = course(refusals=dict.fromkeys([name for name in WELL if "ecc" in name or "nvlink" in name], "not supported"))
    opinion = verdict.of_gpu(case(bare, RTX), ("ecc_uncorrected", "nvlinks"))
    assert opinion.verdict is HealthVerdict.PASS
    assert {state(opinion, name) for name in ("ecc_uncorrected", "nvlinks", "fabric", "sram")} == {State.NOT_APPLICABLE}
    assert len(opinion.applicable) < len(SIGNALS)


def test_a_required_signal_that_cannot_be_read_blocks_the_pass() -> None:
    """Unreadable is UNKNOWN where it is required, and otherwise a lower number beside the verdict."""
    seen = course(refusals={"ecc_uncorrected": "no permission"})
    free, strict = verdict.of_gpu(case(seen), ()), verdict.of_gpu(case(seen), ("ecc_uncorrected", "xid"))
    assert free.verdict is HealthVerdict.PASS
    assert len(free.readable) == len(free.applicable) - 1
    assert (strict.verdict, strict.lacking) == (HealthVerdict.UNKNOWN, ("ecc_uncorrected",))


def test_nothing_read_is_unknown() -> None:
    """A GPU that nobody looked at, or that refuses every answer, is never PASS."""
    silent = Course()
    silent.take({}, dict.fromkeys(WELL, "no permission"), 0.0)
    silent.deaf = "no permission"
    for seen in (Course(), silent):
        assert verdict.of_gpu(case(seen, use=ClockUse()), ()).verdict is HealthVerdict.UNKNOWN


def test_a_failure_outranks_what_is_unknown() -> None:
    """Readings that broke off do not hide a fault that was seen before."""
    assert verdict.of_gpu(case(course({"rows_failed": 1})), (), gap="they broke off").verdict is HealthVerdict.FAIL
    assert verdict.of_gpu(case(course()), (), gap="they broke off").verdict is HealthVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ({"broken": "it has fallen off the bus (NVML error 15)"}, Action.REBOOT),
        ({"broken": "it must be reset (NVML error 16)"}, Action.RESET),
        ({"damaged": "its InfoROM is damaged (NVML error 14)"}, Action.REPLACE),
    ],
)
def test_a_gpu_that_is_broken(said: dict[str, str], action: Action) -> None:
    """NVML's word for it is a failure under its own name, whatever else could be read."""
    opinion = verdict.of_gpu(case(replace(course(), **said)), ())  # type: ignore[arg-type]  # texts of Course
    (finding,) = [one for one in opinion.findings if one.judgement.state is State.FAIL]
    assert (opinion.verdict, opinion.action) == (HealthVerdict.FAIL, action)
    assert (finding.name, finding.judgement.message) == ("gpu", *said.values())


LOST = Failure(category=Category.DEVICE_LOST, message="it has fallen off the bus", phase=Phase.MEASURE)
ECC = Failure(category=Category.DEVICE_HARDWARE, message="uncorrectable ECC error", phase=Phase.MEASURE, code=214)


@pytest.mark.parametrize(
    ("failures", "action", "message"),
    [
        ((ECC,), Action.RESET, "device hardware error: uncorrectable ECC error (code 214)"),
        ((ECC, LOST), Action.REBOOT, "device hardware error: uncorrectable ECC error (code 214), and 1 more"),
    ],
)
@pytest.mark.parametrize("board", [H200, Board("H200 MIG 1g.18gb", "Hopper", BoardClass.SLICE)])
def test_launches_that_the_hardware_ended(
    board: Board, failures: tuple[Failure, ...], action: Action, message: str
) -> None:
    """They are a failure of a GPU all of whose readings are well, and of a slice, whose own they are."""
    opinion = verdict.of_gpu(case(course(), board, failures=failures), ())
    (finding,) = [one for one in opinion.findings if one.judgement.state is State.FAIL]
    assert (opinion.verdict, opinion.action, finding.name) == (HealthVerdict.FAIL, action, "launches")
    assert finding.judgement.message == message


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (ClockUse(readings=6000, slowed=0.009), HealthVerdict.PASS),
        (ClockUse(readings=6000, slowed=0.02, slowed_worst=0.59), HealthVerdict.WARN),
        (ClockUse(readings=6000, slowed=0.02, slowed_worst=0.6), HealthVerdict.FAIL),
    ],
)
def test_clocks_that_are_held_down(use: ClockUse, expected: HealthVerdict) -> None:
    """More than a hundredth of the time warns; most of ten minutes fails."""
    assert verdict.of_gpu(case(course(), use=use), ()).verdict is expected


def test_a_lowered_power_limit_matters_where_it_is_reached() -> None:
    """Running into the board's own limit is normal under load; into a lowered one is a finding."""
    lowered, capped = course({"power_limit_mw": 500_000}), ClockUse(readings=600, capped=0.9)
    assert verdict.of_gpu(case(course(), use=capped), ()).verdict is HealthVerdict.PASS
    assert verdict.of_gpu(case(lowered), ()).verdict is HealthVerdict.PASS
    assert verdict.of_gpu(case(lowered, use=capped), ()).verdict is HealthVerdict.WARN


def test_links_are_held_against_siblings_where_no_table_knows_the_board() -> None:
    """A board with fewer links up than the others of its kind fails; a kind with none up at all is a remark."""
    unlisted = Board("NVIDIA H800", "Hopper", BoardClass.PROFESSIONAL, bridged=True)
    eight, seven, none = course({"nvlinks_up": 8}), course({"nvlinks_up": 7}), course({"nvlinks_up": 0})
    assert verdict.of_gpu(case(eight, unlisted, siblings=(eight, eight)), ()).verdict is HealthVerdict.PASS
    assert verdict.of_gpu(case(seven, unlisted, siblings=(eight, eight)), ()).verdict is HealthVerdict.FAIL
    assert verdict.of_gpu(case(none, H200), ()).verdict is HealthVerdict.WARN
    assert verdict.of_gpu(case(none, H200, siblings=(course(),)), ()).verdict is HealthVerdict.FAIL


@pytest.mark.parametrize(
    ("own", "others"),
    [
        ((0,), (8,)),
        ((0,), (8, 0, 0)),
        ((7,), (8, 0, 0)),
        ((8,), (12,)),
        ((8, 0), ()),
        ((8, 0), (0,)),
        ((8,), ((12, 0),)),
    ],
)
def test_links_that_are_down_are_missed_by_what_the_kind_can_have(
    own: tuple[int, ...], others: tuple[int | tuple[int, ...], ...]
) -> None:
    """A sibling counts with the most it had, one that has none does not count, and what was up before is missed."""

    def linked(*ups: int) -> Course:
        return course(*({"nvlinks_up": up} for up in ups))

    unlisted = Board("NVIDIA H800", "Hopper", BoardClass.PROFESSIONAL, bridged=True)
    siblings = tuple(linked(*(ups if isinstance(ups, tuple) else (ups,))) for ups in others)
    assert state(verdict.of_gpu(case(linked(*own), unlisted, siblings=siblings), ()), "nvlinks") is State.FAIL


def test_a_board_without_a_fabric() -> None:
    """A state of "not supported" is no fault of the fabric."""
    assert state(verdict.of_gpu(case(course({"fabric_state": 0})), ()), "fabric") is State.NOT_APPLICABLE


def test_no_verdict_from_a_slice() -> None:
    """What a slice of a GPU shows is shared with others, so it is judged by nobody."""
    kind = board_class("NVIDIA H200 MIG 1g.18gb", "MIG-5317350e")
    assert kind is BoardClass.SLICE
    slice_ = Board("NVIDIA H200 MIG 1g.18gb", "Hopper", kind)
    assert verdict.of_gpu(case(course({"rows_failed": 1}), slice_), ()).verdict is HealthVerdict.NOT_APPLICABLE
