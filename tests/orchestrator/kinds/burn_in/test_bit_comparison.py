"""kinds/burn_in/bit_comparison.py: who gave other bits than most, and when nobody can tell."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.kinds.burn_in.bit_comparison import Sample, compare, not_tested, undecided

RIGHT, WRONG, OTHER = ("aa", "bb"), ("aa", "cc"), ("dd", "bb")


def burn_in_runs(**given: list[tuple[str, ...]]) -> list[Sample]:
    """What each GPU gave, round by round, of one cell with one key."""
    return [
        Sample(device, "soak", number, 10 * number + at, ("H200", "580"), digests)
        for at, (device, rounds) in enumerate(given.items())
        for number, digests in enumerate(rounds)
    ]


def test_gpus_that_agree_have_nothing_said_of_them() -> None:
    """Every launch was compared, none deviates."""
    found = compare(burn_in_runs(a=[RIGHT] * 3, b=[RIGHT] * 3))
    assert found.deviations == ()
    assert found.undecided == {}
    assert found.compared == {"a": 3, "b": 3}
    assert not_tested("a", found, 1) == {}


def test_a_launch_that_differs_is_blamed_on_its_gpu_and_round() -> None:
    """The majority of the GPUs says what is right; the first digest that differs is named."""
    (found,) = compare(burn_in_runs(a=[RIGHT] * 3, b=[RIGHT, WRONG, RIGHT], c=[RIGHT] * 3)).deviations
    assert (found.sample.device, found.sample.round, found.at) == ("b", 1, 1)
    assert (found.between_gpus, found.against, found.of) == (True, 3, 3)


@pytest.mark.parametrize("wrong", [[WRONG, WRONG], [WRONG, OTHER]])
def test_a_gpu_that_is_always_wrong_is_found_by_the_others(wrong: list[tuple[str, ...]]) -> None:
    """All its launches deviate, though they agree with each other, or with nothing."""
    found = compare(burn_in_runs(a=[RIGHT] * 2, b=wrong, c=[RIGHT] * 2))
    assert [(one.sample.device, one.against) for one in found.deviations] == [("b", 2)] * 2
    assert found.undecided == {}


def test_two_gpus_that_disagree_are_both_undecided() -> None:
    """One of two is wrong, and comparing cannot tell which: nothing is claimed of either."""
    found = compare(burn_in_runs(a=[RIGHT] * 2, b=[WRONG] * 2))
    assert found.deviations == ()
    assert found.undecided == {("soak", ("H200", "580")): ("a", "b")}
    assert [len([*undecided(device, found)]) for device in "abc"] == [1, 1, 0]


def test_of_one_cell_with_two_keys_each_is_told() -> None:
    """A GPU at another batch size that disagrees with itself does not hide that two others disagree."""
    halved = [dataclasses.replace(one, key=("H200", "smaller")) for one in burn_in_runs(c=[RIGHT, WRONG])]
    found = compare([*burn_in_runs(a=[RIGHT] * 2, b=[WRONG] * 2), *halved])
    assert [len([*undecided(device, found)]) for device in "abc"] == [1, 1, 1]


def test_a_gpu_that_disagrees_with_itself_is_undecided() -> None:
    """Alone, with other bits in each round: no other GPU is named."""
    (words,) = undecided("a", compare(burn_in_runs(a=[RIGHT, WRONG])))
    assert (words.startswith("soak"), "GPU" in words) == (True, False)


@pytest.mark.parametrize("rounds", [{"a": [RIGHT, RIGHT, WRONG]}, {"a": [RIGHT, RIGHT, OTHER], "b": [WRONG] * 3}])
def test_without_a_majority_of_gpus_a_gpu_is_compared_with_itself(rounds: dict[str, list[tuple[str, ...]]]) -> None:
    """There is nobody else, or one that disagrees: a launch that differs from the other rounds is found."""
    (one,) = compare(burn_in_runs(**rounds)).deviations
    assert (one.sample.device, one.sample.round, one.between_gpus, one.against, one.of) == ("a", 2, False, 2, 3)


def test_a_gpu_that_contradicts_itself_hides_nothing_of_the_others() -> None:
    """It has no usual bits; where all that have some give the same, and it did too, only it deviates."""
    found = compare(burn_in_runs(a=[RIGHT, WRONG], b=[RIGHT] * 2))
    (one,) = found.deviations
    assert (one.sample.device, one.sample.round, one.between_gpus, one.against, one.of) == ("a", 1, True, 2, 2)
    assert found.undecided == {}
    found = compare(burn_in_runs(a=[RIGHT, WRONG], b=[RIGHT] * 2, c=[RIGHT, OTHER]))
    assert [one.sample.device for one in found.deviations] == ["a", "c"]
    assert found.undecided == {}


@pytest.mark.parametrize(
    "rounds",
    [
        # what b always gives nobody else gave: it may always be wrong
        {"a": [WRONG, OTHER], "b": [RIGHT] * 2},
        # two that always give the same disagree, beside one that contradicts itself
        {"a": [RIGHT, OTHER], "b": [RIGHT] * 2, "c": [WRONG] * 2},
        # most of those that always give the same are not most of the GPUs
        {"a": [RIGHT, OTHER], "b": [RIGHT] * 2, "c": [WRONG] * 2, "d": [WRONG] * 2},
        # most of the GPUs never gave it
        {"a": [RIGHT, WRONG], "b": [RIGHT] * 2, "c": [WRONG, OTHER], "d": [WRONG, OTHER]},
        # each contradicts itself
        {"a": [RIGHT, WRONG], "b": [RIGHT, WRONG]},
    ],
)
def test_nothing_is_claimed_where_what_is_steady_has_no_support(rounds: dict[str, list[tuple[str, ...]]]) -> None:
    """All stay undecided, and none deviates."""
    found = compare(burn_in_runs(**rounds))
    assert found.deviations == ()
    assert found.undecided == {("soak", ("H200", "580")): tuple(rounds)}


def test_other_keys_are_never_compared() -> None:
    """Another driver may choose another algorithm, and its bits are no fault."""
    one, other = burn_in_runs(a=[RIGHT])[0], burn_in_runs(b=[WRONG])[0]
    found = compare([one, Sample(other.device, "soak", 0, 5, ("H200", "590"), WRONG)])
    assert (found.deviations, found.undecided, found.compared) == ((), {}, {})
    assert [len(not_tested(device, found, 1)) for device in ("a", "b")] == [1, 1]


def test_what_was_compared_with_no_other_gpu_is_named() -> None:
    """One GPU alone is held against its own rounds; cells that others did too are left out of what is named."""
    alone = burn_in_runs(a=[RIGHT] * 2)
    assert len(not_tested("a", compare(alone), 1)) == 1
    both = [dataclasses.replace(one, cell="replay") for one in burn_in_runs(a=[RIGHT] * 2, b=[RIGHT] * 2)]
    found = compare([*alone, *both])
    (why,) = not_tested("a", found, 2).values()
    assert why.startswith("soak: ")
    assert not_tested("b", found, 1) == {}


def test_a_launch_without_digests_says_nothing() -> None:
    """It verified, but has nothing that others could be held against."""
    assert compare(burn_in_runs(a=[()], b=[()])).compared == {}


@given(st.lists(st.lists(st.sampled_from([RIGHT, WRONG, OTHER]), min_size=1, max_size=4), min_size=1, max_size=5))
def test_within_the_majority_nobody_is_blamed(
    rounds: list[list[tuple[str, ...]]],
) -> None:
    """Whatever was given: where more than half of the GPUs always gave the right bits, only others deviate."""
    steady = [[RIGHT] for _ in range(len(rounds) + 1)]
    devices = {f"gpu{number}": own for number, own in enumerate([*rounds, *steady])}
    found = compare(burn_in_runs(**devices))
    assert found.undecided == {}
    assert all(one.sample.digests != RIGHT for one in found.deviations)
    wrong = sum(digests != RIGHT for own in rounds for digests in own)
    assert len(found.deviations) == wrong


@given(st.lists(st.lists(st.sampled_from([RIGHT, WRONG, OTHER]), min_size=1, max_size=4), min_size=1, max_size=6))
def test_a_gpu_that_always_gives_the_same_is_outvoted_by_more_than_half_of_all_alone(
    rounds: list[list[tuple[str, ...]]],
) -> None:
    """However many of the others contradict themselves: those that do are no smaller electorate."""
    devices = {f"gpu{number}": own for number, own in enumerate(rounds)}
    for one in compare(burn_in_runs(**devices)).deviations:
        if len({*devices[one.sample.device]}) == 1:
            usual = [next((bits for bits in own if own.count(bits) * 2 > len(own)), None) for own in rounds]
            assert any(usual.count(bits) * 2 > len(rounds) for bits in (RIGHT, WRONG, OTHER))
