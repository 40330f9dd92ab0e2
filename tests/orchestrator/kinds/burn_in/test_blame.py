"""orchestrator/kinds/burn_in/blame.py: whose fault wrong bits between devices are."""

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.kinds.burn_in import blame
from orchestrator.kinds.burn_in.blame import Blamed, blamed
from protocol.verification import BEFORE_SENT, WARMING_UP, Mismatch, Verification
from tests.fakes.findings import mismatch

OWN = BEFORE_SENT
OTHER = "copy to the host and back"
SUM = "sum"
DEVICES = ("a", "b", "c")
EIGHT = tuple("abcdefgh")


def seen(devices: tuple[str, ...], *wrong: tuple[str, str]) -> dict[str, Verification]:
    """What each device found; wrong: who found it, and what: of its own, in a sum, or from another device."""
    found: dict[str, list[Mismatch]] = {device: [] for device in devices}
    for device, what in wrong:
        sender = what if what in devices else None
        found[device].append(mismatch(what=what, sender=sender, of_all=what == SUM))
    return {
        device: Verification(key=(), method="m", checks=9, mismatches=len(own), kept=tuple(own))
        for device, own in found.items()
    }


def with_iterations(found: Verification, iteration: int) -> Verification:
    """The same, seen then."""
    kept = tuple(msgspec.structs.replace(one, iteration=iteration) for one in found.kept)
    return msgspec.structs.replace(found, kept=kept)


def burn_in_run(*launches: Mapping[str, Verification], proven: str = "") -> list[Blamed]:
    """Return the blame for the mismatches of each launch. proven: devices that other checks found faulty."""
    culprits = blame.culprits(launches, proven)
    return [one for launch in launches for one in blamed(launch, culprits)]


def guilty(found: Iterable[Blamed]) -> set[str]:
    """Devices that some check proves faulty are FAIL."""
    return {one.device for one in found if not one.doubtful}


def doubtful(found: Iterable[Blamed]) -> set[str]:
    """Those that are UNKNOWN."""
    found = list(found)
    return {one.device for one in found if one.doubtful} - guilty(found)


@pytest.mark.parametrize(
    ("wrong", "fail", "unknown"),
    [
        ((), set(), set()),
        # its own numbers were wrong: what the others received of them follows
        ((("b", OWN), ("a", "b"), ("c", "b"), ("a", SUM), ("b", SUM), ("c", SUM)), {"b"}, {"a", "c"}),
        ((("b", OWN), ("a", "b")), {"b"}, set()),
        # its own numbers were wrong, and so was what it received
        ((("b", OWN), ("b", "a")), {"b"}, {"a"}),
        # sound where it was sent, wrong everywhere it arrived
        ((("a", "b"), ("c", "b")), {"b"}, {"a", "c"}),
        # wrong from wherever it came
        ((("a", "b"), ("a", "c")), {"a"}, {"b", "c"}),
        # one that errs both ways
        ((("a", "b"), ("c", "a")), {"a"}, {"b", "c"}),
        # between two of them alone, one way or both
        ((("a", "b"),), {"a", "b"}, set()),
        ((("a", "b"), ("b", "a")), {"a", "b"}, set()),
        # each with each: two of them explain it, whichever two
        ((("a", "b"), ("b", "c"), ("c", "a")), {"a", "b", "c"}, set()),
        # a sum that one of them has wrong, that two or all have wrong, and those that may follow from a copy
        ((("c", SUM),), {"c"}, set()),
        ((("a", SUM), ("b", SUM)), set(), {"a", "b"}),
        ((("a", SUM), ("b", SUM), ("c", SUM)), set(), {"a", "b", "c"}),
        ((("a", "b"), ("c", "b"), ("a", SUM)), {"b"}, {"a", "c"}),
        ((("b", "a"), ("c", SUM)), {"a", "b"}, {"c"}),
        ((("b", "a"), ("a", SUM), ("b", SUM)), {"a", "b"}, set()),
        # two faults at once
        ((("b", OWN), ("a", "b"), ("c", "a")), {"a", "b", "c"}, set()),
    ],
)
def test_whose_fault_it_is(wrong: tuple[tuple[str, str], ...], fail: set[str], unknown: set[str]) -> None:
    """Three devices tell a sender, a receiver and a link apart; a sum beside what others have wrong is left open."""
    found = burn_in_run(seen(DEVICES, *wrong))
    assert (guilty(found), doubtful(found)) == (fail, unknown)


@pytest.mark.parametrize(
    ("wrong", "fail"),
    [
        # a device and, away from it, a link
        (("ab", "ac", "ad", "fg"), "afg"),
        # two devices, with partners of their own, and with the same ones
        (("ab", "ac", "de", "df"), "ad"),
        (("ab", "ac", "ad", "hb", "hc", "hd"), "ah"),
        # two devices, with wrong copies between them too
        (("ab", "ac", "ad", "de", "df"), "ad"),
        # a chain and a ring: b and c, or others that are as few
        (("ab", "bc", "cd"), "abcd"),
        (("ab", "bc", "cd", "da"), "abcd"),
        # a device, and a link between two of its partners, either of which explains that
        (("ha", "hb", "hc", "hd", "ab"), "abcdh"),
    ],
)
def test_the_fewest_devices_are_blamed_where_no_others_are_as_few(wrong: Sequence[str], fail: str) -> None:
    """Of devices that have nothing to do with each other, each group for itself."""
    assert guilty(burn_in_run(*(seen(EIGHT, (one, other)) for one, other in wrong))) == set(fail)


@pytest.mark.parametrize("devices", [EIGHT[:size] for size in range(3, 9)])
@pytest.mark.parametrize("sends", [True, False])
def test_a_device_that_errs_with_any_of_the_others_is_the_only_one_that_fails(
    devices: tuple[str, ...], *, sends: bool
) -> None:
    """With any two of them or more, in one launch or each in another one; those are left open, the rest is sound."""
    for size in range(2, len(devices)):
        for partners in itertools.combinations(devices[1:], size):
            pairs = [(partner, devices[0]) if sends else (devices[0], partner) for partner in partners]
            for launches in ([seen(devices, *pairs)], [seen(devices, pair) for pair in pairs]):
                found = burn_in_run(*launches)
                assert (guilty(found), doubtful(found)) == ({devices[0]}, {*partners})
                assert {one.culprit for one in found} == {devices[0]}
                assert blame.culprits(launches) == {devices[0]: size}


@pytest.mark.parametrize("copy", [("a", "b"), ("b", "a")])
def test_a_device_whose_own_numbers_were_wrong_explains_its_copies_of_all_launches(copy: tuple[str, str]) -> None:
    """It fails, whoever sent; the other end is left open. Copies of others are looked at without it."""
    launches = [seen(EIGHT, copy), seen(EIGHT, ("a", OWN)), seen(EIGHT, ("c", "d"))]
    found = burn_in_run(*launches)
    assert (guilty(found), doubtful(found)) == ({"a", "c", "d"}, {"b"})
    assert blame.culprits(launches) == {"a": 0}


@pytest.mark.parametrize("devices", [EIGHT[:size] for size in range(2, 9)])
def test_a_bad_link_counts_against_both_its_ends_however_often(devices: tuple[str, ...]) -> None:
    """Nothing tells which of them it is."""
    for one, other in itertools.combinations(devices, 2):
        found = burn_in_run(*(seen(devices, pair) for pair in ((one, other), (other, one), (one, other))))
        assert guilty(found) == {one, other}
        assert all(each.link and each.culprit is None for each in found)
        ends = (other, one)  # sender and receiver
        assert [(each.device, each.ends) for each in found[:2]] == [(other, ends), (one, ends)]


@st.composite
def burn_in_runs(draw: st.DrawFn) -> list[dict[str, Verification]]:
    """Launches of three to eight devices in which anything may be wrong."""
    devices = EIGHT[: draw(st.integers(3, 8))]
    one = st.tuples(st.sampled_from(devices), st.sampled_from((*devices, OWN, SUM)))
    wrong = draw(st.lists(st.lists(one.filter(lambda pair: pair[0] != pair[1]), max_size=6), max_size=6))
    return [seen(devices, *launch) for launch in wrong]


@given(burn_in_runs())
def test_nobody_fails_that_had_nothing_to_do_with_it(launches: list[dict[str, Verification]]) -> None:
    """Each has found something wrong or sent it, and every wrong copy is somebody's fault."""
    found = burn_in_run(*launches)
    for launch in launches:
        own = {uuid for uuid, one in launch.items() if any(not it.of_all and it.sender is None for it in one.kept)}
        for receiver, verification in launch.items():
            for one in verification.kept:
                if one.sender is not None and one.sender not in own:
                    assert guilty(found) & {receiver, one.sender}
    ends = {uuid for launch in launches for uuid, one in launch.items() if one.kept}
    senders = {one.sender for launch in launches for verification in launch.values() for one in verification.kept}
    assert guilty(found) <= ends | senders


def test_many_devices_with_many_faults_are_judged_at_once() -> None:
    """There may be as many CPU devices as the machine has cores."""
    devices = tuple(f"cpu:{number}" for number in range(32))
    every = [(one, other) for one, other in itertools.combinations(devices, 2)]
    assert guilty(burn_in_run(seen(devices, *every))) == {*devices}
    chosen = random.Random(5).sample(every, 60)
    assert guilty(burn_in_run(seen(devices, *chosen))) <= {device for pair in chosen for device in pair}


def test_a_copy_between_two_that_are_to_blame_is_of_both() -> None:
    """Each explains others alone; of the one between them nobody knows whose it is."""
    found = burn_in_run(*(seen(EIGHT, (one, other)) for one, other in ("ab", "ac", "ad", "de", "df")))
    between = [(one.device, one.link, one.culprit) for one in found if one.ends == ("d", "a")]
    assert between == [("d", True, None), ("a", True, None)]


def test_a_sum_stands_beside_a_copy_that_is_probably_not_the_devices_own() -> None:
    """Both may be: neither hides the other."""
    found = burn_in_run(seen(DEVICES, ("a", "b"), ("c", "b"), ("a", SUM)))
    assert [(one.mismatch.of_all, one.doubtful) for one in found if one.device == "a"] == [(False, True), (True, True)]


@pytest.mark.parametrize(
    ("own", "copy", "unknown"),
    [
        ((OWN, 3), 3, ""),
        ((OWN, 3), 900, "a"),
        ((OTHER, 3), 3, "a"),
    ],
)
def test_only_what_was_wrong_before_it_was_sent_clears_who_received_it(
    own: tuple[str, int], copy: int, unknown: str
) -> None:
    """And then alone: another copy of a faulty device may have gone wrong on its way, or at its other end."""
    what, iteration = own
    launch = seen(DEVICES, ("b", what), ("a", "b"))
    launch["b"] = with_iterations(launch["b"], iteration)
    launch["a"] = with_iterations(launch["a"], copy)
    found = burn_in_run(launch)
    assert (guilty(found), doubtful(found)) == ({"b"}, {*unknown})


@pytest.mark.parametrize(("sent", "copied", "unknown"), [(True, True, ""), (True, False, "a"), (False, True, "a")])
def test_iterations_of_warming_up_are_others(sent: bool, copied: bool, unknown: str) -> None:
    """They count from 0 as those of the measurement do. sent, copied: whether it was while warming up."""
    b, a = (OWN + WARMING_UP * sent, f"copy from b{WARMING_UP * copied}")
    launch = seen(DEVICES, ("b", b))
    copy = mismatch(what=a, sender="b")
    launch["a"] = msgspec.structs.replace(launch["a"], mismatches=1, kept=(copy,))
    found = burn_in_run(launch)
    assert (guilty(found), doubtful(found)) == ({"b"}, {*unknown})


def test_a_device_that_errs_all_the_time_explains_what_no_details_are_kept_of() -> None:
    """Of a hundred mismatches the first are kept, and others received all of them."""
    launch = seen(DEVICES, ("b", OWN), ("a", "b"))
    launch["b"] = msgspec.structs.replace(with_iterations(launch["b"], 7), mismatches=100)
    for iteration, unknown in ((3, {"a"}), (7, set()), (60, set())):
        launch["a"] = with_iterations(launch["a"], iteration)
        found = burn_in_run(launch)
        assert (guilty(found), doubtful(found)) == ({"b"}, unknown)


def test_a_sum_beside_what_another_one_did_not_keep_is_left_open() -> None:
    """It may be the same sum: the details of sixteen mismatches are kept, all are counted."""
    found = seen(DEVICES, ("a", SUM))
    found["b"] = msgspec.structs.replace(found["b"], mismatches=3)
    assert [(one.device, one.doubtful) for one in burn_in_run(found)] == [("a", True)]


@pytest.mark.parametrize(
    ("wrong", "proven", "fail", "unknown"),
    [
        # the other end of a link
        (("ab",), "a", "a", "b"),
        (("ba",), "a", "a", "b"),
        (("ab",), "c", "ab", ""),
        (("ab",), "ab", "ab", ""),
        # nothing is left that needs another one
        (("ab", "ac"), "bc", "bc", "a"),
        # of what is left the fewest, and where others are as few, as if nothing were known
        (("ab", "bc", "cd", "da"), "a", "ac", "bd"),
        (("ab", "bc", "cd"), "b", "bcd", "a"),
        (("ab", "ac"), "b", "ab", "c"),
    ],
)
def test_a_device_that_another_check_has_proven_faulty_explains_its_copies(
    wrong: Sequence[str], proven: str, fail: str, unknown: str
) -> None:
    """It is known which of the two it is: the other one is left open, and never FAIL for that copy alone."""
    found = burn_in_run(*(seen(EIGHT, (one, other)) for one, other in wrong), proven=proven)
    assert (guilty(found), doubtful(found)) == ({*fail}, {*unknown})


@given(burn_in_runs(), st.sets(st.sampled_from(EIGHT)))
def test_a_wrong_copy_is_of_its_culprit_or_of_both_whatever_is_proven(
    launches: list[dict[str, Verification]], proven: set[str]
) -> None:
    """It is never doubtful at both ends, and a proven device is always among the culprits."""
    culprits = blame.culprits(launches, proven)
    for launch in launches:
        for one in blamed(launch, culprits):
            if one.ends is not None:
                assert one.link or one.culprit in one.ends
                assert one.doubtful == (not one.link and one.device != one.culprit)
    assert proven <= {*culprits}


@pytest.mark.parametrize(("proven", "culprit"), [("b", "b"), ("bc", None)])
def test_a_sum_beside_a_device_that_is_proven_faulty_is_left_open(proven: str, culprit: str | None) -> None:
    """What that one gave to it may be wrong: it is named where there is one alone."""
    (one,) = burn_in_run(seen(DEVICES, ("a", SUM)), proven=proven)
    assert (one.device, one.doubtful, one.culprit) == ("a", True, culprit)
    (one,) = burn_in_run(seen(DEVICES, ("a", SUM)), proven="a")
    assert (one.doubtful, one.culprit) == (False, None)


def test_sums_beside_numbers_that_were_wrong_before_are_said_to_be_of_that_device() -> None:
    """In that launch; that device has its own numbers against it."""
    found = burn_in_run(seen(DEVICES, ("b", OWN), ("a", SUM), ("b", SUM)), proven="c")
    assert [(one.device, one.doubtful, one.culprit) for one in found] == [("b", False, None), ("a", True, "b")]
