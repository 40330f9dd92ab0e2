"""The driver's errors (Xid): what each number means, and when they could not be heard."""

import re

import pytest

from orchestrator.gpu.health import verdict, xids
from orchestrator.gpu.health.course import Course, follow
from orchestrator.gpu.health.judges import Action, State
from orchestrator.gpu.health.records import Deafened, HealthRecord, Vitals, Watch
from orchestrator.gpu.health.verdict import HealthVerdict
from orchestrator.gpu.health.xids import XidKind
from tests.fakes.health import SECOND_NS, WELL, case, course, state

FAMILIES_OF_XIDS = {
    XidKind.APPLICATION: (8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 60, 68, 69, 80),
    XidKind.RESET: (46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    XidKind.MACHINE: (79,),
    XidKind.LINK: (74, 144, 145, 146, 147, 148, 149, 150),
    XidKind.FOLLOWS: (45,),
    XidKind.MEMORY: (63, 92, 94),
}
"""Written down a second time, so that no number changes its meaning unnoticed."""


def test_the_table_of_xids() -> None:
    """Each number means what NVIDIA's documentation says; every other one is suspect."""
    known = {number: meaning for meaning, numbers in FAMILIES_OF_XIDS.items() for number in numbers}
    assert {number: xids.kind(number) for number in known} == known
    assert {xids.kind(number) for number in range(200) if number not in known} == {XidKind.SUSPECT}


@pytest.mark.parametrize(
    ("numbers", "expected", "action"),
    [
        ((79,), HealthVerdict.FAIL, Action.REBOOT),
        ((48, 45), HealthVerdict.FAIL, Action.RESET),
        ((74,), HealthVerdict.FAIL, Action.RESET),
        ((63,), HealthVerdict.WARN, Action.RESET),
        ((94,), HealthVerdict.WARN, Action.RESET),
        ((13,), HealthVerdict.WARN, Action.MONITOR),
        ((45,), HealthVerdict.WARN, Action.MONITOR),
        ((12_345,), HealthVerdict.WARN, Action.MONITOR),
    ],
)
def test_xids(numbers: tuple[int, ...], expected: HealthVerdict, action: Action) -> None:
    """Each number has a meaning, and one that is not known is suspect: none of them leaves a PASS."""
    opinion = verdict.of_gpu(case(course(), xids=numbers), ())
    assert (opinion.verdict, opinion.action) == (expected, action)


def test_the_message_has_the_first_error() -> None:
    """45 follows another error."""
    (finding,) = [one for one in verdict.of_gpu(case(course(), xids=(45, 79, 45)), ()).findings if one.name == "xid"]
    assert finding.judgement.message == xids.described(79)
    assert XidKind.MACHINE in finding.judgement.message


@pytest.mark.parametrize(
    ("numbers", "broken", "quarantine"),
    [
        ((), "", False),
        ((13, 45), "", False),
        ((94,), "", False),
        *(((number,), "", True) for number in (79, *FAMILIES_OF_XIDS[XidKind.RESET])),
        ((74,), "", False),
        ((), "the GPU has fallen off the bus", True),
    ],
)
def test_hardware_xids_quarantine_the_gpu(numbers: tuple[int, ...], broken: str, quarantine: bool) -> None:
    """With a reason; errors of an application do not."""
    reaction = verdict.reaction(numbers, broken=broken)
    assert reaction.quarantine is quarantine
    assert bool(reaction.reason) is quarantine


def heard(*records: HealthRecord) -> Course:
    """The course of GPU "a" that such records make, with a look at the end."""
    return follow([*records, Vitals(at_ns=9 * SECOND_NS, uuid="a", values=WELL)]).gpus["a"]


def watch(*, events: bool, log: bool) -> Watch:
    """A telemetry process that hears so much."""
    return Watch(at_ns=0, boot_id="b", deaf={} if events else {"a": "no permission"}, kernel_log=log)


HEARD, DEAF, UNREAD = ("", ""), ("not ", "permission"), ("not ", "read")
"""How a source is named, and the last word of why."""
LOST_LOG = Deafened(at_ns=SECOND_NS, deaf={}, kernel_log=False)
UNADDRESSED = Watch(at_ns=0, boot_id="b", kernel_log=True, unlogged={"a": "its PCI address is unknown"})
MISSED = Deafened(at_ns=SECOND_NS, deaf={}, unlogged={"a": "overwritten"})
NO_EVENTS = Deafened(at_ns=2 * SECOND_NS, deaf={"a": "no permission"})
UNADDRESSED_WORDS, MISSED_WORDS = ("not ", "unknown"), ("not ", "overwritten")


@pytest.mark.parametrize(
    ("records", "expected", "said"),
    [
        ((watch(events=True, log=True),), State.PASS, []),
        ((watch(events=False, log=True),), State.PASS, [DEAF, HEARD]),
        ((watch(events=True, log=False),), State.PASS, [HEARD, UNREAD]),
        ((watch(events=False, log=False),), State.UNREADABLE, [DEAF, UNREAD]),
        ((watch(events=True, log=True), LOST_LOG), State.PASS, [HEARD, UNREAD]),
        (
            (watch(events=False, log=True), Deafened(at_ns=1, deaf={"a": "no permission"}, kernel_log=False)),
            *(State.UNREADABLE, [DEAF, UNREAD]),
        ),
        ((watch(events=False, log=True), LOST_LOG), State.UNREADABLE, [DEAF, UNREAD]),
        ((UNADDRESSED,), State.PASS, [HEARD, UNADDRESSED_WORDS]),
        ((UNADDRESSED, NO_EVENTS), State.UNREADABLE, [DEAF, UNADDRESSED_WORDS]),
        ((watch(events=True, log=True), MISSED), State.PASS, [HEARD, MISSED_WORDS]),
        ((watch(events=False, log=True), MISSED), State.UNREADABLE, [DEAF, MISSED_WORDS]),
        ((watch(events=True, log=True), MISSED, NO_EVENTS), State.UNREADABLE, [DEAF, MISSED_WORDS]),
    ],
)
def test_a_deaf_source_of_xids_is_reported(
    records: tuple[HealthRecord, ...], expected: State, said: list[tuple[str, str]]
) -> None:
    """The message has both sources where one of them was deaf at any time."""
    opinion = verdict.of_gpu(case(heard(*records)), ())
    (finding,) = [one for one in opinion.findings if one.name == "xid"]
    sources = re.findall(r"(not )?heard(?: \([^)]*?(\w+)\))?", finding.judgement.message)
    assert (finding.judgement.state, sources) == (expected, said)


def test_an_xid_before_both_sources_failed_is_a_warning() -> None:
    """Where xid is required, what came afterwards is missing."""
    seen = heard(watch(events=True, log=False), Deafened(at_ns=1, deaf={"a": "NVML error 999"}))
    free, strict = (verdict.of_gpu(case(seen, xids=(13,)), required) for required in ((), ("xid",)))
    assert (free.verdict, strict.verdict, strict.lacking) == (HealthVerdict.WARN, HealthVerdict.UNKNOWN, ("xid",))
    assert "Xid 13" in str(free.findings)
    assert "NVML error 999" in str(free.findings)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (watch(events=False, log=True), watch(events=False, log=False), State.UNREADABLE),
        (watch(events=False, log=False), watch(events=False, log=True), State.UNREADABLE),
        (watch(events=True, log=True), NO_EVENTS, State.PASS),
        (watch(events=True, log=False), NO_EVENTS, State.UNREADABLE),
    ],
)
def test_a_time_without_any_source_is_unread(first: HealthRecord, second: HealthRecord, expected: State) -> None:
    """Of a session that heard no Xid, and after NVML's events failed, unless the kernel's log was read."""
    records = [first, Vitals(at_ns=0, uuid="a", values=WELL), second, Vitals(at_ns=SECOND_NS, uuid="a", values=WELL)]
    assert state(verdict.of_gpu(case(follow(records).gpus["a"]), ()), "xid") is expected
