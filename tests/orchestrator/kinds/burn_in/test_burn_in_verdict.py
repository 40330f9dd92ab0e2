"""kinds/burn_in/verdict.py: PASS on evidence alone, and every reason told."""

import dataclasses

import msgspec
import pytest

from orchestrator.gpu.health.judges import Action
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.kinds.burn_in.bit_comparison import Deviation, Sample
from orchestrator.kinds.burn_in.findings import Idle, Pace, Planned, RateVerdict, Wrong
from orchestrator.kinds.burn_in.levels import CHECKS
from orchestrator.kinds.burn_in.memory_share import Covered
from orchestrator.kinds.burn_in.verdict import bound, judge
from orchestrator.stats.slowdown_reasons import Reason as Cause
from orchestrator.stats.slowdown_reasons import Why
from protocol.cell import Workload
from protocol.verification import Mismatch
from tests.fakes import findings
from tests.fakes.works import CLEAN, DONE, changed, covering

WRONG = {Workload.SOAK: dataclasses.replace(DONE, mismatches=17)}
WRONG_COPIES = {Workload.LINKS: dataclasses.replace(DONE, mismatches=17)}


def mismatch(*, beyond: bool | None = True, again: int = 0, same: bool = True, elements: int = 1) -> Mismatch:
    """One wrong product."""
    return findings.mismatch(
        iteration=7,
        elements=elements,
        bits=2,
        same_when_read_again=same,
        wrong_again=again,
        beyond_rounding=beyond,
    )


def wrong(**facts: object) -> Wrong:
    """A mismatch of the soak in the third round."""
    return Wrong(Workload.SOAK, "bf16", 2, "2026-11-22T01:00:00Z", mismatch(**facts))  # type: ignore[arg-type]  # as given


def test_a_clean_night_passes() -> None:
    """Every planned cell did its work for the time asked for, and nothing was found."""
    found = judge(CLEAN)
    assert (found.verdict, found.reasons, found.action) == (HealthVerdict.PASS, (), Action.NOTHING)


@pytest.mark.parametrize(
    ("facts", "verdict", "words"),
    [
        (
            {"wrong": (wrong(),)},
            HealthVerdict.FAIL,
            "round 3, 2026-11-22T01:00:00Z: product: 1 element, 2",
        ),
        ({"wrong": (wrong(again=10),)}, HealthVerdict.FAIL, "wrong again in 10 of 10 repetitions"),
        ({"wrong": (wrong(same=False),)}, HealthVerdict.FAIL, "an error of reading"),
        ({"wrong": (wrong(beyond=None),)}, HealthVerdict.FAIL, "verified products in bf16"),
        ({"wrong": (wrong(beyond=False, again=10, elements=1000),)}, HealthVerdict.UNKNOWN, "another algo"),
        ({"wrong": (wrong(beyond=False, again=9, elements=1000),)}, HealthVerdict.FAIL, "1,000 elements"),
        ({"wrong": (wrong(beyond=False, again=10, elements=999),)}, HealthVerdict.FAIL, "999 elements"),
        ({"tallies": CLEAN.tallies | WRONG}, HealthVerdict.FAIL, "products: 17 mismatches, without details"),
        (
            {"tallies": CLEAN.tallies | WRONG, "wrong": (wrong(),) * 16},
            HealthVerdict.FAIL,
            "repetitionsverified products: 1 more mismatch",
        ),
        (
            {"tallies": CLEAN.tallies | WRONG_COPIES, "unclear": 17},
            HealthVerdict.UNKNOWN,
            "17 mismatches without details",
        ),
        ({"tallies": CLEAN.tallies | WRONG_COPIES, "unclear": 16}, HealthVerdict.FAIL, "1 more mismatch"),
        (
            {"tallies": CLEAN.tallies | WRONG_COPIES | WRONG, "unclear": 17},
            HealthVerdict.FAIL,
            "products: 17 mismatches, without",
        ),
        ({"wrong": (wrong(beyond=None, again=10, elements=1000),)}, HealthVerdict.FAIL, "1,000 elements"),
        (
            {"tallies": CLEAN.tallies | WRONG, "wrong": (wrong(beyond=False, again=10, elements=1000),) * 16},
            HealthVerdict.UNKNOWN,
            "1 more mismatch, without details",
        ),
        (
            {"tallies": CLEAN.tallies | WRONG, "wrong": (wrong(beyond=False, again=10, elements=1000), wrong())},
            HealthVerdict.FAIL,
            "15 more mismatches",
        ),
        ({"health": HealthVerdict.FAIL, "health_reason": "Xid 79"}, HealthVerdict.FAIL, "health: Xid 79"),
        ({"health": HealthVerdict.UNKNOWN, "health_reason": "unread"}, HealthVerdict.UNKNOWN, "health: unread"),
        ({"health": HealthVerdict.WARN, "health_reason": "PCIe"}, HealthVerdict.WARN, "health: PCIe"),
        (
            {"unread": ("one", "two")},
            HealthVerdict.UNKNOWN,
            "whether 2 launches without a result that counts found wrong bits cannot",
        ),
        ({"tainted": True}, HealthVerdict.UNKNOWN, "tainted"),
        ({"interrupted": "stopped on request"}, HealthVerdict.UNKNOWN, "cut short: stopped on request"),
        ({"served_s": 500}, HealthVerdict.UNKNOWN, "at work for 500 s of the 600 s"),
        ({"reboots": 1}, HealthVerdict.UNKNOWN, "started anew"),
        (
            {"idle": (Idle("01:00", 75.4),)},
            HealthVerdict.UNKNOWN,
            "without load for 75 s from 01:00 on, and nothing tells why",
        ),
        (
            {"idle": (Idle("01:00", 75), Idle("02:00", 99), Idle("03:00", 80))},
            HealthVerdict.UNKNOWN,
            "without load for 99 s from 02:00 on, and nothing tells why, the longest of 3 such gaps",
        ),
        (
            {"beside": ("PID 7", "PID 7", "PID 5")},
            HealthVerdict.UNKNOWN,
            "3 launches worked beside others (PID 5, PID 7): its load was not that of the burn-in",
        ),
        (
            covering(Covered(0.8499, "85.0 % of the memory (8,499 of 10,000 MiB)", "too little was free")),
            HealthVerdict.UNKNOWN,
            "the memory test covered 85.0 % of the memory (8,499 of 10,000 MiB), and 85 % are needed: too little",
        ),
        (covering(None), HealthVerdict.UNKNOWN, "the memory test does not say how much of the memory it covered"),
        (covering(None, checks=0), HealthVerdict.PASS, ""),  # such a test is missing already: see Planned
        ({"undecided": ("soak: no majority",)}, HealthVerdict.UNKNOWN, "soak: no majority"),
        ({"failures": ("soak: crashed",)}, HealthVerdict.UNKNOWN, "soak: crashed"),
        (
            {"without_file": ("soak: result lost",)},
            HealthVerdict.UNKNOWN,
            "no result any more: soak: result lost; `resume`",
        ),
        ({"made_up": ("soak: crashed",)}, HealthVerdict.WARN, "another one made up for it: soak: crashed"),
        ({"wrong": (dataclasses.replace(wrong(), doubt="it may be a sum"),)}, HealthVerdict.UNKNOWN, "it may be a sum"),
        (
            {"tallies": CLEAN.tallies | WRONG, "wrong": (dataclasses.replace(wrong(), doubt="who knows"),) * 16},
            HealthVerdict.UNKNOWN,
            "1 more mismatch, without details",
        ),
        ({"paces": {"over the night": RateVerdict(Pace.SLOWER, "-4 %")}}, HealthVerdict.WARN, "over the night: -4 %"),
        (
            {
                "paces": {
                    "over the night": RateVerdict(Pace.SLOWER, "-4 %", Why(reason=Cause.HEAT, words="heat did it"))
                }
            },
            HealthVerdict.WARN,
            "over the night: -4 %; heat did it",
        ),
        ({"paces": {"over the night": RateVerdict(Pace.UNTOLD, "too short")}}, HealthVerdict.PASS, ""),
        ({"paces": {"over the night": RateVerdict(Pace.STEADY, "-0.1 %")}}, HealthVerdict.PASS, ""),
        ({"too_hot": "too hot: at 90"}, HealthVerdict.FAIL, "too hot: at 90"),
        ({"health": HealthVerdict.NOT_APPLICABLE}, HealthVerdict.PASS, ""),
        ({"served_s": 539}, HealthVerdict.UNKNOWN, "at work for 539 s of the 600 s"),
        ({"served_s": 541}, HealthVerdict.PASS, ""),
    ],
)
def test_what_each_finding_means(facts: dict[str, object], verdict: HealthVerdict, words: str) -> None:
    """One finding alone: its verdict, and the words that tell it."""
    found = judge(changed(**facts))
    assert found.verdict is verdict
    assert words in "".join(reason.text for reason in found.reasons)


@pytest.mark.parametrize(
    "one", [dataclasses.replace(wrong(), doubt="who knows"), wrong(beyond=False, again=10, elements=1000)]
)
def test_mismatches_of_one_check_say_nothing_of_those_of_another(one: Wrong) -> None:
    """A mismatch without details is excused by others of its kind alone: a transfer says nothing of a product."""
    one = dataclasses.replace(one, workload=Workload.LINKS)
    single = dataclasses.replace(DONE, mismatches=1)
    tallies = CLEAN.tallies | {Workload.LINKS: single, Workload.TRUTH: single}
    first, second = judge(changed(wrong=(one,), tallies=tallies)).reasons
    assert (first.verdict, second.verdict) == (HealthVerdict.FAIL, HealthVerdict.UNKNOWN)
    assert first.text == "the check of truth: 1 mismatch, without details"


@pytest.mark.parametrize("at", range(len(CHECKS)))
def test_a_cell_that_did_no_work_is_no_pass(at: int) -> None:
    """Whatever the other cells of its kind did: UNKNOWN, with what is missing, and why if that is known."""
    cells = list(CLEAN.planned)
    for why, words in (("", "no launch of it has a result"), ("no time was left", "no time was left")):
        cells[at] = Planned(cells[at].workload, "training of vae in fp32", 0, why)
        (reason,) = judge(changed(planned=tuple(cells))).reasons
        told = f"training of vae in fp32 never came to an end: {words}"
        assert (reason.verdict, reason.text) == (HealthVerdict.UNKNOWN, told)


@pytest.mark.parametrize(("others", "verdict"), [(0, HealthVerdict.UNKNOWN), (7, HealthVerdict.PASS)])
def test_what_the_software_cannot_verify_needs_others_of_its_kind(others: int, verdict: HealthVerdict) -> None:
    """It is told among what was not tested; every night would be UNKNOWN for it."""
    cell = Planned(Workload.REPLAY, "training of vae in fp32", 0, "no deterministic form", impossible=True)
    tallies = CLEAN.tallies | {Workload.REPLAY: dataclasses.replace(DONE, checks=others)}
    found = judge(changed(planned=(cell,), tallies=tallies))
    assert found.verdict is verdict
    assert ("no deterministic form" in "".join(reason.text for reason in found.reasons)) is (not others)


def test_other_bits_than_most_gpus_fail() -> None:
    """Round, cell and how many gave the others."""
    sample = Sample("a", "verified products", 4, 9, (), ("x",), "2026-11-22T01:00:00Z")
    found = judge(changed(deviations=(Deviation(sample, 2, 7, 8, between_gpus=True),)))
    assert found.verdict is HealthVerdict.FAIL
    assert found.action is Action.REPLACE
    assert "round 5, 2026-11-22T01:00:00Z: other bits than 7 of 8 GPUs gave, from output 3 on" in found.reasons[0].text


def test_other_bits_than_in_other_rounds_fail() -> None:
    """Where no other GPU says what is right, the GPU's own launches do."""
    sample = Sample("a", "verified products", 0, 9, (), ("x",), "2026-11-22T01:00:00Z")
    found = judge(changed(deviations=(Deviation(sample, 0, 3, 4, between_gpus=False),)))
    assert found.verdict is HealthVerdict.FAIL
    assert "round 1, 2026-11-22T01:00:00Z: other bits than 3 of 4 launches on this GPU gave" in found.reasons[0].text


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"health": HealthVerdict.FAIL}, Action.REPLACE),
        ({"health": HealthVerdict.UNKNOWN}, Action.MONITOR),
        ({"health": HealthVerdict.WARN}, Action.MONITOR),
        ({"too_hot": "too hot"}, Action.REPLACE),
        ({"failures": ("soak: crashed",)}, Action.MONITOR),
        ({"made_up": ("soak: crashed",)}, Action.MONITOR),
        ({"wrong": (dataclasses.replace(wrong(), doubt="who knows"),)}, Action.PAIRS),
        ({"reboots": 1}, Action.MONITOR),
        ({"idle": (Idle("01:00", 75),)}, Action.MONITOR),
        ({"tainted": True}, Action.NOTHING),
        ({"interrupted": "stopped on request"}, Action.RESUME),
        ({"served_s": 500}, Action.RESUME),
        ({"served_s": 500, "beside": ("PID 7",)}, Action.AGAIN),
        ({"interrupted": "stopped on request", "reboots": 1}, Action.AGAIN),
        ({"tainted": True, "interrupted": "stopped on request"}, Action.NOTHING),
        ({"made_up": ("soak: crashed",), "undecided": ("soak",)}, Action.NOTHING),
        ({"interrupted": "stopped on request", "goes_on": True}, Action.NOTHING),
        ({"taken_out": "it is gone"}, Action.AGAIN),
        ({"undecided": ("soak",)}, Action.NOTHING),
        ({"wrong": (wrong(beyond=False, again=10, elements=1000),)}, Action.MONITOR),
        ({"paces": {"over the night": RateVerdict(Pace.SLOWER, "-4 %")}}, Action.MONITOR),
    ],
)
def test_what_to_do(facts: dict[str, object], action: Action) -> None:
    """Only what is the GPU's own fault takes it out of service."""
    assert judge(changed(**facts)).action is action


@pytest.mark.parametrize(
    "facts",
    [
        {"wrong": (wrong(),)},
        {"wrong": (dataclasses.replace(wrong(), doubt="who knows"),)},
        {"too_hot": "too hot"},
        {"failures": ("soak: crashed",), "served_s": 500},
        {"taken_out": "it is gone"},
    ],
)
def test_a_tainted_verdict_asks_for_nothing(facts: dict[str, object]) -> None:
    """Faults that were injected are no reason to take a GPU out of service; the verdict and its reasons stay."""
    real, tainted = judge(changed(**facts)), judge(changed(**facts, tainted=True))
    assert real.action is not Action.NOTHING
    assert tainted.verdict is real.verdict
    assert {tainted.action, *(reason.action for reason in tainted.reasons)} == {Action.NOTHING}


@pytest.mark.parametrize(
    "facts",
    [
        {"served_s": 500, "failures": ("soak: crashed",)},
        {"taken_out": "it is gone", "failures": ("soak: crashed",)},
        {"undecided": ("soak",), "interrupted": "stopped on request"},
        {"health": HealthVerdict.UNKNOWN, "served_s": 500},
        {"wrong": (wrong(),), "made_up": ("soak: crashed",), "served_s": 500},
    ],
)
def test_what_to_do_is_what_the_first_reason_says(facts: dict[str, object]) -> None:
    """It stands beside the verdict, and the gravest reason below it: a milder one says nothing there."""
    found = judge(changed(**facts))
    assert len(found.reasons) > 1
    assert (found.verdict, found.action) == (found.reasons[0].verdict, found.reasons[0].action)
    assert found.action is not Action.NOTHING


@pytest.mark.parametrize(
    ("workload", "changes", "words"),
    [
        (Workload.SOAK, {}, "product: 1 element, 2 bits wrong; wrong again in 0 of 10 repetitions"),
        (Workload.SOAK, {"elements": 0, "bits": 0}, "product: found wrong, though no element differs; wrong again in"),
        (
            Workload.REPLAY,
            {"bits": 0, "what": "step 5: 1 of 11 gradients differ"},
            "1 of 11 gradients differ; wrong again",
        ),
        (
            Workload.REPLAY,
            {"elements": 0, "bits": 0, "what": "step 5: a loss of 2, not 1"},
            "a loss of 2, not 1; wrong",
        ),
        (Workload.REPLAY, {"elements": 0, "bits": 0, "repeated": 0}, "product: wrong bits; its launch ended before"),
    ],
)
def test_what_was_wrong_is_told_as_far_as_it_is_known(
    workload: Workload, changes: dict[str, object], words: str
) -> None:
    """Of gradients nobody knows how many bits: digests of them were compared."""
    one = dataclasses.replace(wrong(), workload=workload, mismatch=msgspec.structs.replace(mismatch(), **changes))
    (reason,) = judge(changed(wrong=(one,))).reasons
    assert words in reason.text
    assert " 0 " not in reason.text.replace("in 0 of", "")


def test_the_gravest_wins_and_all_are_told() -> None:
    """A slow GPU that is also wrong fails, and both are said, the gravest first."""
    slow = {"over the night": RateVerdict(Pace.SLOWER, "-4 %")}
    found = judge(changed(paces=slow, interrupted="killed", wrong=(wrong(),)))
    assert [reason.verdict for reason in found.reasons] == [
        HealthVerdict.FAIL,
        HealthVerdict.UNKNOWN,
        HealthVerdict.WARN,
    ]
    assert found.action is Action.REPLACE


def test_a_warning_of_the_health_does_not_hide_a_gap() -> None:
    """Whatever is told first."""
    found = judge(changed(health=HealthVerdict.WARN, health_reason="PCIe", reboots=1))
    assert found.verdict is HealthVerdict.UNKNOWN
    assert [reason.verdict for reason in found.reasons] == [HealthVerdict.UNKNOWN, HealthVerdict.WARN]


def test_the_bound_is_the_rule_of_three() -> None:
    """No error in 3,000 checks excludes more than one in a thousand; none without a check."""
    assert bound(3000) == pytest.approx(1e-3)
    assert bound(0) is None
