"""Fits a text on one page: its paragraphs share the lines of the page by their rank (sections.Rank).

    MUST, a line of each GRAVEST ─▶ a line of each TOLD ─▶ the rest of GRAVEST ─▶ a line of each MORE ─▶ more of all

Sections take turns, paragraph by paragraph, until the page is full. A paragraph that is cut ends with " ...".
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from orchestrator.report.sections import Rank
from orchestrator.report.text import WIDTH, Paragraph, wrap


def is_whole(paragraphs: Iterable[Paragraph], room: int, cut: Paragraph) -> bool:
    """Whether `paragraphs` without `cut` (the one of them that says that lines are missing) fit into `room` lines."""
    return sum(len(paragraph.lines) for paragraph in paragraphs if paragraph is not cut) <= room


def on_one_page(paragraphs: Iterable[Paragraph], room: int, cut: Paragraph) -> Iterator[str]:
    """Yield the lines of a page: at most `room`, or more if MUST and the first lines of GRAVEST need more.

    cut: one of `paragraphs`, which says that lines are missing. It is shown only if some are.
    """
    every = list(paragraphs)
    if is_whole(every, room, cut):
        yield from (line for one in every if one is not cut for line in one.lines)
        return
    for one, most in zip(every, _shares(every, room), strict=True):
        yield from _head(one.lines, most)


def _shares(paragraphs: Sequence[Paragraph], room: int) -> list[int]:
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
    """Return the sort key of a line of a paragraph. Lines with small keys get room on the page first.

    rank: of the paragraph. place: its index among the paragraphs of its section (Paragraph.section). depth: index of
    the line in its paragraph. Both count from 0.
    """
    if rank is Rank.MUST or (rank is Rank.GRAVEST and depth == 0):
        return 0, 0
    if rank is Rank.GRAVEST:
        return 2, depth
    if depth == 0:
        return (1 if rank is Rank.TOLD else 3), place
    return 4, depth


def _head(lines: Sequence[str], most: int) -> Iterator[str]:
    yield from lines[: max(most - 1, 0) if most < len(lines) else most]
    if 0 < most < len(lines):
        rest = " ".join([lines[most - 1], *(line.strip() for line in lines[most:])])
        indent = " " * (len(rest) - len(rest.lstrip()))
        if cell_len(rest) <= WIDTH:
            yield rest
        else:  # between words: half of a time of day is another time
            yield f"{next(wrap(rest.lstrip(), indent, columns=WIDTH - 4))} ..."
