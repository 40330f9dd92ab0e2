"""The report as plain text of at most 80 characters a line. It begins and ends with the verdict."""

from collections.abc import Iterator
from typing import Final

from orchestrator.figures.report import Report
from orchestrator.report import one_page, text
from orchestrator.report.chapters.overview import ended, head
from orchestrator.report.default_layout import DEFAULT
from orchestrator.report.layout import Layout
from orchestrator.report.sections import Rank
from orchestrator.report.text import Paragraph

_PAGE_LINES: Final = 60
_NODE_GPUS: Final = 8
_LINES_PER_FURTHER_GPU: Final = 3
_CUT: Final = Paragraph(Rank.MUST, ("  the JSON report has all reasons in full",))


def to_text(report: Report, layout: Layout = DEFAULT) -> str:
    """Return the report as text, ending with a newline."""
    lines = _one_page(report, layout) if layout.one_page else _chapters(report, layout)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _chapters(report: Report, layout: Layout) -> Iterator[str]:
    yield from _lines(_head(report, layout))
    for chapter in layout.text:
        yield from text.lines(chapter(report))
    yield from _lines(_end(report, layout))


def _lines(paragraphs: Iterator[Paragraph]) -> Iterator[str]:
    return (line for paragraph in paragraphs for line in paragraph.lines)


def _head(report: Report, layout: Layout) -> Iterator[Paragraph]:
    section = head(report, layout)
    yield Paragraph(Rank.MUST, (text.RULE, text.centred(section.title), text.RULE, ""))
    yield from text.paragraphs(section, heading=False)


def _end(report: Report, layout: Layout) -> Iterator[Paragraph]:
    yield from text.paragraphs(ended(report, layout))
    yield Paragraph(Rank.MUST, (text.RULE,))


def _one_page(report: Report, layout: Layout) -> Iterator[str]:
    room = _PAGE_LINES + _LINES_PER_FURTHER_GPU * max(len(report.gpu_info) - _NODE_GPUS, 0)
    sections = [section for chapter in layout.text if (section := chapter(report)) is not None]
    for limited in (False, True):
        middle = [
            paragraph for section in sections for paragraph in text.paragraphs(section, heading=False, limited=limited)
        ]
        page = (*_head(report, layout), *middle, _CUT, *_end(report, layout))
        if one_page.is_whole(page, room, _CUT):
            break
    yield from one_page.on_one_page(page, room, _CUT)
