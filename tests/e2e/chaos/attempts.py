"""Attempts at a cell: no more than its failures allow, none behind a result, and numbered without a gap."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.e2e.chaos.kinds import RETRIES
from tests.e2e.chaos.story import Story


def too_many(story: Story) -> Iterator[str]:
    """Attempts that nothing called for, by the retries that docs/failures.md promises."""
    tries: dict[tuple[str, int], list[int]] = defaultdict(list)
    numbers: dict[str, list[int]] = defaultdict(list)
    for launch, start in story.start.items():
        tries[start["cell"], start["round"]].append(launch)
        numbers[start["cell"]].append(start["attempt"])
    for (cell, _), launches in tries.items():
        yield from _uncalled_for(story, cell, launches)
    for cell, given in numbers.items():
        if given != list(range(1, len(given) + 1)):
            yield f"the attempts at {cell} are numbered {given}"


def _uncalled_for(story: Story, cell: str, launches: list[int]) -> Iterator[str]:
    had = Counter[str]()
    final = ""
    for launch in launches:
        if final:
            yield f"launch {launch} is one attempt too many at {cell}: it had {final}"
        if story.promised(launch):
            final = "a result"
        elif (end := next(iter(story.ends[launch][-1:]), None)) is not None and end["failure"]:
            category = end["failure"]["category"]
            had[category] += 1
            final = f"'{category}' {had[category]} times" if had[category] > RETRIES.get(category, 0) else final
