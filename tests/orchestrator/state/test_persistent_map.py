"""state/persistent_map.py: a copy with one change says what a dict would, and leaves what it was made of alone."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.state import persistent_map as module
from orchestrator.state.persistent_map import Layered

KEYS = st.integers(0, 30)


@pytest.fixture(scope="module", autouse=True)
def often() -> Iterator[None]:
    """Have changes put into a new base after few of them already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST", 2)
        yield


@given(base=st.dictionaries(KEYS, st.integers()), changes=st.lists(st.tuples(KEYS, st.integers()), max_size=60))
def test_it_says_what_a_dict_says(base: dict[int, int], changes: list[tuple[int, int]]) -> None:
    """The same entries in the same order, however many changes were made and wherever they are kept."""
    plain, layered = dict(base), Layered(base)
    for key, value in changes:
        plain[key] = value
        layered = layered.but(key, value)
        assert len(layered) == len(plain)
    assert list(layered.items()) == list(plain.items())
    assert layered == plain
    assert all((layered.get(key), key in layered) == (plain.get(key), key in plain) for key in range(31))


@given(st.lists(st.tuples(KEYS, st.integers()), min_size=1, max_size=60))
def test_what_it_was_made_of_does_not_change(changes: list[tuple[int, int]]) -> None:
    """Every state of a run stays what it was: what decides may compare the new one with the old."""
    states = [Layered[int, int]({})]
    for key, value in changes:
        states.append(states[-1].but(key, value))
    plain: dict[int, int] = {}
    for state, (key, value) in zip(states, changes, strict=False):
        assert dict(state) == plain
        plain[key] = value


def test_a_change_does_not_copy_what_is_large() -> None:
    """The base is shared by all copies until enough has changed; that is what makes them cheap."""
    large = Layered(dict.fromkeys(range(10_000), 0))
    copies = [large]
    for key in range(1_000):
        copies.append(copies[-1].but(key, 1))
    assert len({id(one._base) for one in copies}) <= 1_000 // 100 + 1
    assert max(len(one._changes) for one in copies) <= 100


@given(base=st.dictionaries(KEYS, st.integers()), changes=st.lists(st.tuples(KEYS, st.integers()), max_size=60))
def test_a_thawed_one_changes_in_place(base: dict[int, int], changes: list[tuple[int, int]]) -> None:
    """It says what a dict says, leaves what it was made of alone, and is as good as any when it is frozen again."""
    before = Layered(base).but(0, 7)
    plain, thawed = dict(before), before.thawed()
    for key, value in changes:
        plain[key] = value
        assert thawed.but(key, value) is thawed
        assert (len(thawed), thawed[key]) == (len(plain), value)
    frozen = thawed.frozen()
    assert list(frozen.items()) == list(plain.items())
    assert (len(frozen), len(frozen.but(99, 1)), 99 in frozen) == (len(plain), len(plain) + 1, False)
    assert before == {**base, 0: 7}
