"""kinds/burn_in/verdict.py: PASS on evidence alone, every finding with its verdict, and what to do about it."""

import dataclasses

import msgspec
import pytest

from orchestrator.config.workloads import WORKLOADS
from orchestrator.figures.burn_in import Pace
from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.bit_comparison import Deviation, Sample
from orchestrator.kinds.burn_in.findings import Ahead, Idle, Planned, RateVerdict, Wrong
from orchestrator.kinds.burn_in.levels import CHECKS
from orchestrator.kinds.burn_in.memory_test import Covered
from orchestrator.kinds.burn_in.verdict import ALGORITHM_ELEMENTS, bound, judge
from orchestrator.stats.slowdown_reasons import Reason as Cause
from orchestrator.stats.slowdown_reasons import Why
from protocol.cell import Workload
from protocol.verification import Mismatch
from tests.fakes import findings
from tests.fakes.works import CLEAN, DONE, changed, covering

PASS, WARN, UNKNOWN, FAIL = HealthVerdict.PASS, HealthVerdict.WARN, HealthVerdict.UNKNOWN, HealthVerdict.FAIL
NOTHING, MONITOR, PAIRS, REPLACE = Action.NOTHING, Action.MONITOR, Action.PAIRS, Action.REPLACE
RESUME, AGAIN = Action.RESUME, Action.AGAIN


def mismatch(*, beyond: bool | None = True, again: int = 0, same: bool = True, elements: int = 1) -> Mismatch:
    """One wrong product."""
    facts = {"same_when_read_again": same, "wrong_again": again, "beyond_rounding": beyond}
    return findings.mismatch(iteration=7, elements=elements, bits=2, **facts)


def wrong(doubt: str = "", **facts: object) -> Wrong:
    """A mismatch of the soak in the third round."""
    one = mismatch(**facts)
    return dataclasses.replace(Wrong(Workload.SOAK, "bf16", 2, "2026-11-22T01:00:00Z", one), doubt=doubt)


def mismatches(*workloads: Workload) -> dict[str, object]:
    """Seventeen of each of these checks."""
    return {"tallies": CLEAN.tallies | dict.fromkeys(workloads, dataclasses.replace(DONE, mismatches=17))}


def slower(why: Why | None = None, pace: Pace = Pace.SLOWER) -> dict[str, object]:
    """What its rates show."""
    return {"paces": {"over time": RateVerdict(pace, "-4 %", why)}}


def deviation(*, between_gpus: bool) -> dict[str, object]:
    """Other bits than seven of eight others gave."""
    sample = Sample("a", "verified products", 4, 9, (), ("x",), "2026-11-22T01:00:00Z")
    return {"deviations": (Deviation(sample, 2, 7, 8, between_gpus=between_gpus),)}


SOAK, LINKS = mismatches(Workload.SOAK), mismatches(Workload.LINKS)
ALGORITHM = wrong(beyond=False, again=10, elements=ALGORITHM_ELEMENTS)
STOPPED, CRASHED = {"interrupted": "stopped on request"}, ("soak: crashed",)


@pytest.mark.parametrize(
    ("facts", "verdict", "action", "carried"),
    [
        ({}, PASS, NOTHING, ()),
        # wrong bits
        ({"wrong": (wrong(),)}, FAIL, REPLACE, ("bf16", "round 3, 2026-11-22T01:00:00Z", "1 element, 2 bits")),
        ({"wrong": (wrong(again=10),)}, FAIL, REPLACE, ("10 of 10",)),
        ({"wrong": (wrong(same=False),)}, FAIL, REPLACE, ("read error",)),
        ({"wrong": (wrong(beyond=None),)}, FAIL, REPLACE, ("bf16",)),
        ({"wrong": (wrong("who knows"),)}, UNKNOWN, PAIRS, ("who knows",)),
        ({"wrong": (ALGORITHM,)}, UNKNOWN, MONITOR, ("another algorithm",)),
        ({"wrong": (wrong(beyond=False, again=9, elements=1000),)}, FAIL, REPLACE, ("1,000 elements",)),
        ({"wrong": (wrong(beyond=False, again=10, elements=999),)}, FAIL, REPLACE, ("999 elements",)),
        ({"wrong": (wrong(beyond=None, again=10, elements=1000),)}, FAIL, REPLACE, ("1,000 elements",)),
        (deviation(between_gpus=True), FAIL, REPLACE, ("round 5, 2026-11-22T01:00:00Z", "7 of 8 GPUs", "output 3")),
        (deviation(between_gpus=False), FAIL, REPLACE, ("round 5, ", "7 of 8 launches")),
        # without details: those with details speak for them
        (SOAK, FAIL, REPLACE, ("17 mismatches",)),
        ({**SOAK, "wrong": (wrong(),) * 16}, FAIL, REPLACE, ("1 more mismatch",)),
        ({**SOAK, "wrong": (ALGORITHM,) * 16}, UNKNOWN, MONITOR, ("1 more mismatch",)),
        ({**SOAK, "wrong": (wrong("who knows"),) * 16}, UNKNOWN, PAIRS, ("1 more mismatch",)),
        ({**SOAK, "wrong": (ALGORITHM, wrong())}, FAIL, REPLACE, ("15 more mismatches",)),
        ({**LINKS, "unclear": 17}, UNKNOWN, PAIRS, ("17 mismatches",)),
        ({**LINKS, "unclear": 16}, FAIL, REPLACE, ("1 more mismatch",)),
        (
            {**mismatches(Workload.LINKS, Workload.SOAK), "unclear": 17},
            FAIL,
            REPLACE,
            ("17 mismatches without details in the soak of matrix products",),
        ),
        # health
        (
            {"health": FAIL, "health_reason": "Xid 79", "health_action": Action.REBOOT, "too_hot": "too hot"},
            FAIL,
            Action.REBOOT,
            ("health: Xid 79", "too hot"),
        ),
        ({"health": UNKNOWN, "health_reason": "unread"}, UNKNOWN, MONITOR, ("health: unread",)),
        ({"health": WARN, "health_reason": "PCIe"}, WARN, MONITOR, ("health: PCIe",)),
        ({"health": HealthVerdict.NOT_APPLICABLE}, PASS, NOTHING, ()),
        ({"too_hot": "too hot: at 90"}, FAIL, Action.COOL, ("too hot: at 90",)),
        # missing evidence
        ({"unread": ("one", "two")}, UNKNOWN, AGAIN, ("2 launches", "one")),
        ({"tainted": True}, UNKNOWN, NOTHING, ("injected",)),
        (STOPPED, UNKNOWN, RESUME, ("stopped on request",)),
        ({**STOPPED, "goes_on": True}, UNKNOWN, NOTHING, ()),
        ({"quarantined": "it is gone"}, UNKNOWN, AGAIN, ("it is gone",)),
        ({"served_s": 539}, UNKNOWN, RESUME, ("539 s of the 600 s",)),
        ({"served_s": 541}, PASS, NOTHING, ()),
        ({"reboots": 1}, UNKNOWN, MONITOR, ("machine",)),
        ({"idle": (Idle("01:00", 75.4),)}, UNKNOWN, MONITOR, ("75 s from 01:00",)),
        (
            {"idle": (Idle("01:00", 75), Idle("02:00", 99), Idle("03:00", 80))},
            UNKNOWN,
            MONITOR,
            ("99 s from 02:00", "3 such"),
        ),
        ({"beside": ("PID 7", "PID 7", "PID 5")}, UNKNOWN, NOTHING, ("3 launches", "(PID 5, PID 7)")),
        (
            covering(Covered(0.8499, "85.0 % (8,499 of 10,000 MiB)", "too little was free")),
            UNKNOWN,
            MONITOR,
            ("85.0 % (8,499 of 10,000 MiB)", "required 85 %", "too little was free"),
        ),
        (covering(None), UNKNOWN, MONITOR, ("memory",)),
        (covering(None, checks=0), PASS, NOTHING, ()),  # such a test is missing already: see Planned
        ({"undecided": ("soak: no majority",)}, UNKNOWN, NOTHING, ("soak: no majority",)),
        ({"failures": CRASHED}, UNKNOWN, MONITOR, CRASHED),
        ({"lost_results": ("soak: result lost",)}, UNKNOWN, RESUME, ("soak: result lost",)),
        ({"repeated": CRASHED}, WARN, MONITOR, CRASHED),
        ({"repeated": CRASHED, "undecided": ("soak",)}, UNKNOWN, NOTHING, CRASHED),
        # rates
        (slower(), WARN, Action.SLOW, ("-4 % (over time)",)),
        (slower(Why(reason=Cause.HEAT, words="heat did it")), WARN, Action.SLOW, ("-4 %; heat did it",)),
        (slower(pace=Pace.INCONCLUSIVE), PASS, NOTHING, ()),
        (slower(pace=Pace.STEADY), PASS, NOTHING, ()),
    ],
)
def test_each_finding_has_its_verdict_and_its_action(
    facts: dict[str, object], verdict: HealthVerdict, action: Action, carried: tuple[str, ...]
) -> None:
    """Only what is the GPU's own fault takes it out of service; the reasons carry what was found."""
    found = judge(changed(**facts))
    assert (found.verdict, found.action) == (verdict, action)
    text = "\n".join(reason.text for reason in found.reasons)
    assert [part for part in carried if part not in text] == [], text
    assert bool(found.reasons) is (verdict is not PASS)


@pytest.mark.parametrize("one", [wrong("who knows"), ALGORITHM])
def test_mismatches_of_one_check_excuse_none_of_another(one: Wrong) -> None:
    """A mismatch without details is excused only by others of its kind: a transfer says nothing of a product."""
    one = dataclasses.replace(one, workload=Workload.LINKS)
    single = dataclasses.replace(DONE, mismatches=1)
    tallies = CLEAN.tallies | {Workload.LINKS: single, Workload.TRUTH: single}
    first, second = judge(changed(wrong=(one,), tallies=tallies)).reasons
    assert (first.verdict, second.verdict) == (FAIL, UNKNOWN)
    assert WORKLOADS[Workload.TRUTH].title in first.text


@pytest.mark.parametrize("why", ["", "no time"])
@pytest.mark.parametrize("at", range(len(CHECKS)))
def test_a_cell_that_did_no_work_is_no_pass(at: int, why: str) -> None:
    """Whatever the other cells of its kind did: UNKNOWN, with its name, and why if that is known."""
    cells = list(CLEAN.planned)
    cells[at] = Planned(cells[at].workload, "vae in fp32", 0, why)
    (reason,) = judge(changed(planned=tuple(cells))).reasons
    assert reason.verdict is UNKNOWN
    assert (reason.text.startswith("vae in fp32"), reason.text.endswith(why)) == (True, True)


@pytest.mark.parametrize(("others", "verdict"), [(0, UNKNOWN), (7, PASS)])
def test_what_the_software_cannot_verify_needs_others_of_its_kind(others: int, verdict: HealthVerdict) -> None:
    """It is listed as not tested; every burn-in would be UNKNOWN for it."""
    cell = Planned(Workload.REPLAY, "training of vae in fp32", 0, "no deterministic form", impossible=True)
    tallies = CLEAN.tallies | {Workload.REPLAY: dataclasses.replace(DONE, checks=others)}
    found = judge(changed(planned=(cell,), tallies=tallies))
    assert found.verdict is verdict
    assert ["no deterministic form" in reason.text for reason in found.reasons] == [True] * (not others)


@pytest.mark.parametrize(
    "facts",
    [
        {"wrong": (wrong(),)},
        {"wrong": (wrong("who knows"),)},
        {"too_hot": "too hot"},
        {"failures": CRASHED, "served_s": 500},
        {"quarantined": "it is gone"},
        {"served_s": 500},  # `resume` continues with the faults
        STOPPED,
    ],
)
def test_a_tainted_verdict_asks_for_nothing(facts: dict[str, object]) -> None:
    """Injected faults are no reason to take a GPU out of service; the verdict and its reasons stay."""
    real, tainted = judge(changed(**facts)), judge(changed(**facts, tainted=True))
    assert real.action is not NOTHING
    assert tainted.verdict is real.verdict
    assert {tainted.action, *(reason.action for reason in tainted.reasons)} == {NOTHING}


@pytest.mark.parametrize(
    ("facts", "verdicts"),
    [
        ({"served_s": 500, "failures": CRASHED}, [UNKNOWN, UNKNOWN]),
        ({"quarantined": "it is gone", "failures": CRASHED}, [UNKNOWN, UNKNOWN]),
        ({"undecided": ("soak",), **STOPPED}, [UNKNOWN, UNKNOWN]),
        ({"health": UNKNOWN, "served_s": 500}, [UNKNOWN, UNKNOWN]),
        ({"wrong": (wrong(),), "repeated": CRASHED, "served_s": 500}, [FAIL, UNKNOWN, WARN]),
        ({**slower(), "interrupted": "killed", "wrong": (wrong(),)}, [FAIL, UNKNOWN, WARN]),
        ({"health": WARN, "health_reason": "PCIe", "reboots": 1}, [UNKNOWN, WARN]),
    ],
)
def test_the_gravest_reason_is_first_and_decides(facts: dict[str, object], verdicts: list[HealthVerdict]) -> None:
    """All of them are there; of those that are as grave, one that asks for something is the first."""
    found = judge(changed(**facts))
    assert [reason.verdict for reason in found.reasons] == verdicts
    assert (found.verdict, found.action) == (found.reasons[0].verdict, found.reasons[0].action)
    assert found.action is not NOTHING


@pytest.mark.parametrize(
    ("workload", "changes", "carried"),
    [
        (Workload.SOAK, {}, ("1 element, 2 bits", "all 10 repetitions")),
        (Workload.SOAK, {"elements": 0, "bits": 0}, ("product", "all 10 repetitions")),
        (
            Workload.REPLAY,
            {"bits": 0, "what": "1 of 11 gradients differ"},
            ("1 of 11 gradients differ", "all 10 repetitions"),
        ),
        (
            Workload.REPLAY,
            {"elements": 0, "bits": 0, "what": "a loss of 2, not 1"},
            ("a loss of 2, not 1", "all 10 repetitions"),
        ),
        (Workload.REPLAY, {"elements": 0, "bits": 0, "repeated": 0}, ("product",)),
    ],
)
def test_what_was_wrong_is_reported_as_far_as_it_is_known(
    workload: Workload, changes: dict[str, object], carried: tuple[str, ...]
) -> None:
    """Of gradients nobody knows how many bits: digests of them were compared."""
    one = dataclasses.replace(wrong(), workload=workload, mismatch=msgspec.structs.replace(mismatch(), **changes))
    (reason,) = judge(changed(wrong=(one,))).reasons
    assert [part for part in carried if part not in reason.text] == []
    assert " 0 " not in reason.text.replace("in 0 of", "")


def test_the_bound_is_the_rule_of_three() -> None:
    """No error in 3,000 checks excludes more than one in a thousand; none without a check."""
    assert bound(3000) == pytest.approx(1e-3)
    assert bound(0) is None


# ── what completes a burn-in that is short, or lacks something ────────────────────────────────────────────────────────

LEAST = "20m"
"""The shortest new burn-in that would do."""


def test_an_interrupted_burn_in_is_not_also_a_short_one() -> None:
    """It has one reason, with its cause."""
    (reason,) = judge(changed(interrupted="stopped on request", served_s=10)).reasons
    assert ("stopped on request" in reason.text, reason.action) == (True, RESUME)


@pytest.mark.parametrize(
    ("lasting", "action"),
    [
        ({}, RESUME),
        ({"idle": (Idle("01:00", 75),)}, AGAIN),
        ({"beside": ("PID 7",)}, AGAIN),
        ({"reboots": 1}, AGAIN),
        ({"failures": ("soak: crashed",)}, AGAIN),
    ],
)
def test_missing_time_is_repeated_for_unless_more_time_does_not_help(
    lasting: dict[str, object], action: Action
) -> None:
    """The reason has when and why it is missing."""
    first, *_ = judge(changed(served_s=500, lost_time="a worker stood still, 80 s from 01:00 on", **lasting)).reasons
    assert first.action is action
    carried = ("500 s of the 600 s", "a worker stood still, 80 s from 01:00 on", "`resume`" if lasting else " resume`")
    assert [part for part in carried if part not in first.text] == []


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({}, RESUME),
        ({"ahead": Ahead(50, 25, LEAST)}, RESUME),
        ({"ahead": Ahead(49, 25, LEAST)}, AGAIN),
        ({"ahead": Ahead(0, 25, LEAST)}, AGAIN),
        ({"quarantined": "too hot"}, AGAIN),
        ({"goes_on": True}, NOTHING),
        # Then they are what makes up for its time; else it ends with some of them lost.
        ({"served_s": 500, "ahead": Ahead(50, 25, LEAST)}, RESUME),
        ({"served_s": 500, "ahead": Ahead(49, 25, LEAST)}, AGAIN),
    ],
)
def test_a_lost_result_is_measured_again_where_time_is_left(facts: dict[str, object], action: Action) -> None:
    """Each of two: `resume` goes on for time that is missing, and for no file."""
    reasons = judge(changed(lost_results=("soak: lost", "truth: lost"), **facts)).reasons
    mine = [reason for reason in reasons if ": lost" in reason.text]
    assert [(reason.verdict, reason.action) for reason in mine] == [(UNKNOWN, action)] * 2
    assert {reason.action for reason in reasons} <= {action, *([NOTHING] if "goes_on" in facts else [])}
    assert all(("`resume`" in reason.text) is (action is RESUME) for reason in mine)


A_SOAK = next(one for one in CLEAN.planned if one.workload is Workload.SOAK)
OTHERS = tuple(one for one in CLEAN.planned if one is not A_SOAK)


def never_tried(cells: int = 1) -> tuple[Planned, ...]:
    """The plan with so many cells that came to no end for want of time, and no others that did not."""
    return (*OTHERS, *(dataclasses.replace(A_SOAK, checks=0, why="dropped", untried=True) for _ in range(cells)))


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"served_s": 175}, RESUME),
        ({"served_s": 175, "ahead": Ahead(24, 25, LEAST)}, AGAIN),
        ({"served_s": 175, "planned": never_tried(16)}, RESUME),
        ({"served_s": 175, "planned": never_tried(17)}, AGAIN),
        ({"ahead": Ahead(0, 25, LEAST)}, AGAIN),  # its time was served
        ({"served_s": 175, "failures": ("truth: crashed",)}, AGAIN),
        ({"goes_on": True}, NOTHING),
        ({"planned": (*OTHERS, dataclasses.replace(A_SOAK, checks=0, why="dropped"))}, NOTHING),  # it failed
    ],
)
def test_a_cell_that_had_no_time_needs_more_of_it(facts: dict[str, object], action: Action) -> None:
    """The rest of the burn-in where that has room for it, else a longer one; no `resume` that fixes nothing."""
    found = judge(changed(**{"planned": never_tried()} | facts))
    reason = next(reason for reason in found.reasons if reason.text.startswith(A_SOAK.name))
    assert ("dropped" in reason.text, reason.action) == (True, action)
    assert (LEAST in reason.text) is (action is AGAIN)


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"served_s": 500, "ahead": Ahead(25, 25, LEAST)}, RESUME),
        ({"served_s": 500, "ahead": Ahead(24, 25, LEAST)}, AGAIN),
        ({"served_s": 500, "ahead": Ahead(60, 25, LEAST), "planned": never_tried(3)}, AGAIN),
        ({"interrupted": "stopped on request", "ahead": Ahead(-3, 25, LEAST)}, RESUME),  # it has its time
    ],
)
def test_a_burn_in_whose_rest_has_no_room_for_what_it_lacks_begins_again(
    facts: dict[str, object], action: Action
) -> None:
    """With how long it must be; one that was stopped with its time served needs only to be brought to its end."""
    reason = next(reason for reason in judge(changed(**facts)).reasons if reason.action is not NOTHING)
    assert reason.action is action
    assert (LEAST in reason.text) is (action is AGAIN)
