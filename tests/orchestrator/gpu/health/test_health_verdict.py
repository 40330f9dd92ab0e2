"""The health signals of one GPU and their verdicts, without any GPU."""

from dataclasses import replace

import pytest

from orchestrator.config.health_signals import SIGNALS, Board, BoardClass, board_class
from orchestrator.gpu.health import verdict
from orchestrator.gpu.health.clocks import ClockUse
from orchestrator.gpu.health.course import Course
from orchestrator.gpu.health.judges import Action, State
from orchestrator.gpu.health.records import UNSUPPORTED
from orchestrator.gpu.health.verdict import HealthVerdict, Opinion
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
    ("gpu_temperature", {"gpu_margin_c": 0}, HealthVerdict.FAIL, Action.COOL),
    ("gpu_temperature", {"gpu_margin_c": 5}, HealthVerdict.WARN, Action.MONITOR),
    ("memory_temperature", {"memory_margin_c": -1}, HealthVerdict.FAIL, Action.COOL),
    ("pcie_replays", {"pcie_replays": 31}, HealthVerdict.WARN, Action.MONITOR),
    ("pcie_generation", {"pcie_generation": 3}, HealthVerdict.WARN, Action.MONITOR),
    ("pcie_width", {"pcie_width": 8}, HealthVerdict.WARN, Action.MONITOR),
    ("nvlinks", {"nvlinks_up": 17}, HealthVerdict.FAIL, Action.RESET),
    ("nvlink_errors", {"nvlink_errors": 1}, HealthVerdict.WARN, Action.MONITOR),
    ("fabric", {"fabric_state": 1}, HealthVerdict.FAIL, Action.REBOOT),
    ("fabric", {"fabric_state": 2}, HealthVerdict.FAIL, Action.REBOOT),
    ("fabric", {"fabric_status": 999}, HealthVerdict.FAIL, Action.REBOOT),
]


def of_gpu(seen: Course, board: Board = H200, *required: str, gap: str = "", **others: object) -> Opinion:
    """The opinion on one GPU."""
    return verdict.of_gpu(case(seen, board, **others), required, gap=gap)


@pytest.mark.parametrize(("signal", "later", "expected", "action"), ROWS)
def test_each_signal_has_its_limit(signal: str, later: dict[str, int], expected: HealthVerdict, action: Action) -> None:
    """A value beyond its limit, and it alone, decides the verdict and says what to do."""
    opinion = of_gpu(course({}, later))
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
def test_the_worst_look_counts(signal: str, once: dict[str, int], expected: State) -> None:
    """What was bad in the middle of a run and good at its end was bad while it measured."""
    opinion = of_gpu(course({}, once, {}), use=ClockUse(readings=600, capped=0.5))
    assert state(opinion, signal) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{"ecc_corrected": 10}], HealthVerdict.PASS),
        ([{"pcie_replays": 30}], HealthVerdict.PASS),
        ([{"gpu_margin_c": 6}], HealthVerdict.PASS),
        ([{"thermal_violation_ns": SECOND_NS // 2}], HealthVerdict.PASS),
        ([{"gpu_margin_c": -1}, {}], HealthVerdict.WARN),  # for a moment; only ten seconds fail
    ],
)
def test_values_at_the_limit_are_no_failure(changes: list[dict[str, int]], expected: HealthVerdict) -> None:
    """The limit itself, or what stays below it, is no finding."""
    assert of_gpu(course({}, *changes)).verdict is expected


@pytest.mark.parametrize(("seconds", "expected"), [(9.9, State.WARN), (10.0, State.FAIL)])
@pytest.mark.parametrize("signal", ["gpu_temperature", "memory_temperature"])
def test_ten_seconds_of_heat_are_a_failure(signal: str, seconds: float, expected: State) -> None:
    """A spent margin fails from ten seconds on, whatever it was before and after; a shorter time warns."""
    made = Course()
    spent = WELL | {"gpu_margin_c": 0, "memory_margin_c": 0}
    for values, passed in ((WELL, 0.0), (spent, 10.0), (spent, seconds), (WELL, 10.0)):
        made.take(values, {}, passed)
    assert state(of_gpu(made), signal) is expected


def test_an_idle_link_at_a_low_generation_passes() -> None:
    """It saves power. A link that was never seen under load is unread, not healthy."""
    idle = {"pcie_generation": 1, "gpu_percent": 0}
    assert of_gpu(course(idle, {})).verdict is HealthVerdict.PASS
    assert state(of_gpu(course(idle)), "pcie_generation") is State.UNREADABLE


def test_old_errors_count_too() -> None:
    """An error from before the run is a failure as well, with a message that it is old."""
    opinion = of_gpu(course({"ecc_uncorrected": 3}))
    finding = next(one for one in opinion.findings if one.name == "ecc_uncorrected")
    assert (opinion.verdict, finding.start, finding.rise) == (HealthVerdict.FAIL, 3, 0)
    assert "before this run" in finding.judgement.message


@pytest.mark.parametrize(("pages", "expected"), [(62, HealthVerdict.PASS), (63, HealthVerdict.FAIL)])
def test_pages_are_retired_before_ampere(pages: int, expected: HealthVerdict) -> None:
    """Boards without row remapping have a limit of retired pages."""
    opinion = of_gpu(course({"retired_pages": pages}), V100)
    assert opinion.verdict is expected
    assert state(opinion, "rows_failed") is State.NOT_APPLICABLE


def test_a_required_signal_that_cannot_be_read_blocks_the_pass() -> None:
    """Unreadable is UNKNOWN where it is required, and else a lower number of readable signals."""
    seen = course(refusals={"ecc_uncorrected": "no permission"})
    free, strict = of_gpu(seen), of_gpu(seen, H200, "ecc_uncorrected", "xid")
    assert free.verdict is HealthVerdict.PASS
    assert len(free.readable) == len(free.applicable) - 1
    assert (strict.verdict, strict.lacking) == (HealthVerdict.UNKNOWN, ("ecc_uncorrected",))


HAS = course()
LACKS = course(refusals={"nvlinks_up": UNSUPPORTED})
TIMED_OUT = course(refusals={"nvlinks_up": "NVML error 10"})
FALLEN = replace(Course(), broken="the GPU has fallen off the bus (NVML error 15)")


@pytest.mark.parametrize(
    ("own", "siblings", "expected", "verdicts"),
    [
        (LACKS, (), State.NOT_APPLICABLE, (HealthVerdict.PASS, HealthVerdict.PASS)),
        (LACKS, (LACKS, LACKS), State.NOT_APPLICABLE, (HealthVerdict.PASS, HealthVerdict.PASS)),
        (LACKS, (LACKS, FALLEN), State.NOT_APPLICABLE, (HealthVerdict.PASS, HealthVerdict.PASS)),
        (LACKS, (HAS, HAS), State.WARN, (HealthVerdict.WARN, HealthVerdict.UNKNOWN)),
        (LACKS, (LACKS, HAS), State.WARN, (HealthVerdict.WARN, HealthVerdict.UNKNOWN)),
        (LACKS, (LACKS, TIMED_OUT), State.UNREADABLE, (HealthVerdict.PASS, HealthVerdict.UNKNOWN)),
        (TIMED_OUT, (), State.UNREADABLE, (HealthVerdict.PASS, HealthVerdict.UNKNOWN)),
        (TIMED_OUT, (LACKS, LACKS), State.UNREADABLE, (HealthVerdict.PASS, HealthVerdict.UNKNOWN)),
        (
            course(refusals={"nvlinks_up": "no permission"}),
            (),
            State.UNREADABLE,
            (HealthVerdict.PASS, HealthVerdict.UNKNOWN),
        ),
    ],
)
def test_what_no_gpu_of_a_kind_has_is_not_applicable(
    own: Course, siblings: tuple[Course, ...], expected: State, verdicts: tuple[HealthVerdict, HealthVerdict]
) -> None:
    """By the driver's word on all of them. One GPU that lacks it alone warns, and is no PASS where it is required."""
    free, strict = of_gpu(own, siblings=siblings), of_gpu(own, H200, "nvlinks", siblings=siblings)
    assert state(free, "nvlinks") is state(strict, "nvlinks") is expected
    assert (free.verdict, strict.verdict) == verdicts
    assert strict.lacking == (("nvlinks",) if verdicts[1] is HealthVerdict.UNKNOWN else ())
    counts = len(free.applicable) - len(free.readable)
    assert counts == (0 if expected is State.NOT_APPLICABLE else 1)


def test_the_one_value_of_a_signal_that_should_be_readable_decides() -> None:
    """A signal of several values, of which the driver calls one unsupported and another one is refused."""
    refusals = {"pcie_generation": UNSUPPORTED, "pcie_generation_max": "NVML error 999"}
    assert state(of_gpu(course(refusals=refusals)), "pcie_generation") is State.UNREADABLE
    refusals = dict.fromkeys(refusals, UNSUPPORTED)
    assert state(of_gpu(course(refusals=refusals)), "pcie_generation") is State.NOT_APPLICABLE


def test_value_that_becomes_unsupported_is_unread() -> None:
    """The board had it at the first look."""
    seen = course()
    seen.take({name: WELL[name] for name in WELL if name != "nvlinks_up"}, {"nvlinks_up": UNSUPPORTED}, 10.0)
    opinion = of_gpu(seen, H200, "nvlinks")
    assert (opinion.verdict, opinion.lacking) == (HealthVerdict.UNKNOWN, ("nvlinks",))


def test_nothing_read_is_unknown() -> None:
    """Without a look, or with refusals alone. A gap in the readings does not hide an earlier fault."""
    silent = Course()
    silent.take({}, dict.fromkeys(WELL, "no permission"), 0.0)
    unsupported = Course()
    unsupported.take({}, dict.fromkeys(WELL, UNSUPPORTED), 0.0)
    silent.deaf = unsupported.deaf = "no permission"
    for seen in (Course(), silent, unsupported):
        assert of_gpu(seen, use=ClockUse()).verdict is HealthVerdict.UNKNOWN
    assert of_gpu(course({"rows_failed": 1}), gap="they broke off").verdict is HealthVerdict.FAIL
    assert of_gpu(course(), gap="they broke off").verdict is HealthVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ({"broken": "(NVML error 15)"}, Action.REBOOT),
        ({"broken": "(NVML error 16)"}, Action.RESET),
        ({"damaged": "(NVML error 14)"}, Action.REPLACE),
    ],
)
def test_a_gpu_that_is_broken(said: dict[str, str], action: Action) -> None:
    """NVML's reason is a failure under its own name, whatever else could be read."""
    opinion = of_gpu(replace(course(), **said))  # type: ignore[arg-type]  # texts of Course
    (finding,) = [one for one in opinion.findings if one.judgement.state is State.FAIL]
    assert (opinion.verdict, opinion.action) == (HealthVerdict.FAIL, action)
    assert (finding.name, finding.judgement.message) == ("gpu", *said.values())


LOST = Failure(category=Category.DEVICE_LOST, message="the GPU has fallen off the bus", phase=Phase.MEASURE)
ECC = Failure(category=Category.DEVICE_HARDWARE, message="uncorrectable ECC error", phase=Phase.MEASURE, code=214)


@pytest.mark.parametrize(
    ("failures", "action", "message"),
    [
        ((ECC,), Action.RESET, "(code 214)"),
        ((ECC, LOST), Action.REBOOT, "(code 214), and 1 more"),
    ],
)
@pytest.mark.parametrize("board", [H200, Board("H200 MIG 1g.18gb", "Hopper", BoardClass.SLICE)])
def test_launches_that_the_hardware_ended(
    board: Board, failures: tuple[Failure, ...], action: Action, message: str
) -> None:
    """They are a failure of a GPU whose readings are healthy, and of a slice."""
    opinion = of_gpu(course(), board, failures=failures)
    (finding,) = [one for one in opinion.findings if one.judgement.state is State.FAIL]
    assert (opinion.verdict, opinion.action, finding.name) == (HealthVerdict.FAIL, action, "launches")
    assert finding.judgement.message.endswith(message)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (ClockUse(readings=6000, slowed=0.009), HealthVerdict.PASS),
        (ClockUse(readings=6000, slowed=0.02, slowed_worst=0.59), HealthVerdict.WARN),
        (ClockUse(readings=6000, slowed=0.02, slowed_worst=0.6), HealthVerdict.FAIL),
    ],
)
def test_slowed_clocks(use: ClockUse, expected: HealthVerdict) -> None:
    """More than a hundredth of the time warns; most of ten minutes fails."""
    assert of_gpu(course(), use=use).verdict is expected


def test_a_lowered_power_limit_matters_where_it_is_reached() -> None:
    """Running into the board's own limit is normal under load; into a lowered one is a finding."""
    lowered, capped = course({"power_limit_mw": 500_000}), ClockUse(readings=600, capped=0.9)
    assert of_gpu(course(), use=capped).verdict is HealthVerdict.PASS
    assert of_gpu(lowered).verdict is HealthVerdict.PASS
    assert of_gpu(lowered, use=capped).verdict is HealthVerdict.WARN


UNLISTED = Board("NVIDIA H800", "Hopper", BoardClass.PROFESSIONAL, bridged=True)


@pytest.mark.parametrize(
    ("board", "own", "others", "expected"),
    [
        (UNLISTED, (8,), ((8,), (8,)), State.PASS),
        (UNLISTED, (7,), ((8,), (8,)), State.FAIL),
        (UNLISTED, (0,), ((8,),), State.FAIL),
        (UNLISTED, (0,), ((8,), (0,), (0,)), State.FAIL),
        (UNLISTED, (7,), ((8,), (0,), (0,)), State.FAIL),
        (UNLISTED, (8,), ((12,),), State.FAIL),
        (UNLISTED, (8, 0), (), State.FAIL),
        (UNLISTED, (8, 0), ((0,),), State.FAIL),
        (UNLISTED, (8,), ((12, 0),), State.FAIL),
        (H200, (0,), (), State.WARN),
        (H200, (0,), ((18,),), State.FAIL),
    ],
)
def test_links_are_compared_with_the_most_of_their_kind(
    board: Board, own: tuple[int, ...], others: tuple[tuple[int, ...], ...], expected: State
) -> None:
    """In the table, or of a sibling at its best, or before. A sibling without any does not count."""
    seen, *siblings = (course(*({"nvlinks_up": up} for up in ups)) for ups in (own, *others))
    assert state(of_gpu(seen, board, siblings=tuple(siblings)), "nvlinks") is expected


def test_signals_that_a_board_does_not_have_are_not_applicable() -> None:
    """ECC, NVLink and fabric of a GeForce, also where required; all of a slice, which shares them with others."""
    bare = course(refusals=dict.fromkeys([name for name in WELL if "ecc" in name or "nvlink" in name], "not supported"))
    opinion = of_gpu(bare, RTX, "ecc_uncorrected", "nvlinks")
    assert opinion.verdict is HealthVerdict.PASS
    assert {state(opinion, name) for name in ("ecc_uncorrected", "nvlinks", "fabric", "sram")} == {State.NOT_APPLICABLE}
    assert len(opinion.applicable) < len(SIGNALS)
    assert state(of_gpu(course({"fabric_state": 0})), "fabric") is State.NOT_APPLICABLE
    kind = board_class("NVIDIA H200 MIG 1g.18gb", "MIG-5317350e")
    assert kind is BoardClass.SLICE
    slice_ = Board("NVIDIA H200 MIG 1g.18gb", "Hopper", kind)
    assert of_gpu(course({"rows_failed": 1}), slice_).verdict is HealthVerdict.NOT_APPLICABLE
    assert of_gpu(course(), slice_, xids={79: 1}).verdict is HealthVerdict.FAIL  # of the GPU that it is cut from
