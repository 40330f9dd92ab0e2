"""What of a text fits on one page: its paragraphs share the lines that there are. Pure.

    MUST ─▶ a line of what is TOLD ─▶ all of what is GRAVEST ─▶ a line of what is MORE ─▶ more of all  until it is full
             └ of each section the first paragraph, then of each the second, and so on: here and in MORE

What has fewer lines than it would take ends with "...". So the same text is whole where there is room for it, and the
least that it says is known beforehand where there is none.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from orchestrator.report.sections import Rank
from orchestrator.report.text import WIDTH, Paragraph, wrap


def is_whole(paragraphs: Iterable[Paragraph], room: int, cut: Paragraph) -> bool:
    """Whether nothing has to be cut, so that `cut` does not stand there."""
    return sum(len(one.lines) for one in paragraphs if one is not cut) <= room


def on_one_page(paragraphs: Iterable[Paragraph], room: int, cut: Paragraph) -> Iterator[str]:
    """The lines of a page, at most `room` of them where what must be there is no more.

    cut: stands in its place among the paragraphs where anything was cut or left out, and not at all where nothing was.
    """
    every = list(paragraphs)
    if is_whole(every, room, cut):
        yield from (line for one in every if one is not cut for line in one.lines)
        return
    for one, most in zip(every, _shares(every, room), strict=True):
        yield from _head(one.lines, most)


def _shares(paragraphs: Sequence[Paragraph], room: int) -> list[int]:
    """How many lines each of them gets."""
    wanted = []
    places: dict[str, int] = {}
    for number, one in enumerate(paragraphs):
        place = places[one.section] = places.get(one.section, -1) + 1
        wanted += [(*_turn(one.rank, place, depth), number) for depth in range(len(one.lines))]
    wanted.sort()
    shares = [0] * len(paragraphs)
    for taken, (step, _, number) in enumerate(wanted):
        if step == 0 or taken < room:
            shares[number] += 1
    return shares


def _turn(rank: Rank, place: int, depth: int) -> tuple[int, int]:
    """When a paragraph gets a line. place: among those of its section. depth: how many lines it has before."""
    if rank is Rank.MUST or (rank is Rank.GRAVEST and depth == 0):
        return 0, 0
    if rank is Rank.GRAVEST:
        return 2, depth
    if depth == 0:
        return (1 if rank is Rank.TOLD else 3), place
    return 4, depth


def _head(lines: Sequence[str], most: int) -> Iterator[str]:
    """The first lines, and of the rest as much as the last of them holds."""
    yield from lines[: max(most - 1, 0) if most < len(lines) else most]
    if 0 < most < len(lines):
        rest = " ".join([lines[most - 1], *(line.strip() for line in lines[most:])])
        indent = " " * (len(rest) - len(rest.lstrip()))
        if cell_len(rest) <= WIDTH:
            yield rest
        else:  # between words: half of a time of day is another one
            yield f"{next(wrap(rest.lstrip(), indent, columns=WIDTH - 3))}..."
