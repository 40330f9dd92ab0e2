"""state/queues.py: a queue without an item is what a tuple without it would be, and the first goes without a copy."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.state import queues
from orchestrator.state.queues import Rest

ITEMS = st.lists(st.integers(0, 50), unique=True, max_size=12)


@given(items=ITEMS, data=st.data())
def test_it_is_what_a_tuple_is(items: list[int], data: st.DataObject) -> None:
    """After any items were removed: length, order, slices, and equality in both directions."""
    plain: tuple[int, ...] = tuple(items)
    queue: Sequence[int] = plain
    while plain:
        gone = data.draw(st.sampled_from(plain))
        plain, queue = tuple(item for item in plain if item != gone), queues.without(queue, gone)
        assert queue == plain
        assert plain == queue
        assert (len(queue), tuple(queue), bool(queue)) == (len(plain), plain, bool(plain))
        begin, end = data.draw(st.integers(-3, 12)), data.draw(st.integers(-3, 12))
        assert queue[begin:end] == plain[begin:end]
        assert [queue[at] for at in range(-len(plain), len(plain))] == [
            plain[at] for at in range(-len(plain), len(plain))
        ]
        assert (gone in queue, (*queue, gone) == queue) == (False, False)


def test_the_first_goes_without_a_copy() -> None:
    """All that is left shares the items; others are copied."""
    items = tuple(range(1000))
    first = queues.without(items, 0)
    second = queues.without(first, 1)
    assert isinstance(first, Rest)
    assert isinstance(second, Rest)
    assert first._items is items
    assert second._items is items
    assert not isinstance(queues.without(second, 7), Rest)
