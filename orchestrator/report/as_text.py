"""The report as text, laid out as in the requirements document: which chapters it has, and in which order.

The verdict comes last: it is what stands above the prompt when the report was printed. A triage begins with its answer.
A burn-in has one page.
"""

from collections.abc import Iterator
from typing import Final

from orchestrator.config.presets import TRIAGE
from orchestrator.figures.report import Report
from orchestrator.report import one_page, text
from orchestrator.report.chapters.batch_scans import batch_scans
from orchestrator.report.chapters.burn_in import burn_in
from orchestrator.report.chapters.comparisons import baseline, costs, thresholds
from orchestrator.report.chapters.devices import described
from orchestrator.report.chapters.excluded import not_measured
from orchestrator.report.chapters.failures import failures
from orchestrator.report.chapters.health import health
from orchestrator.report.chapters.models import models
from orchestrator.report.chapters.overview import ended, head, summary
from orchestrator.report.chapters.spread import spread
from orchestrator.report.chapters.stragglers import full_node, stragglers
from orchestrator.report.chapters.time import time
from orchestrator.report.sections import Chapter, Rank, Section, shown
from orchestrator.report.text import Paragraph

_SIBLINGS: Final = (
    shown(stragglers, tables=()),
    shown(full_node, tables=("means",)),
    shown(spread, tables=("spread", "differing")),
)
_RUN: Final = (health, failures, not_measured)
_COMPARED: Final = (thresholds, shown(baseline, tables=()), costs)
CHAPTERS: Final = (described, models, batch_scans, *_SIBLINGS, *_RUN, time, *_COMPARED, summary)
CHAPTERS_OF_TRIAGE: Final = (*_SIBLINGS, *_RUN, *_COMPARED)
_PAGE: Final = 60
_NODE: Final = 8
_EACH: Final = 3
"""Lines of a page for a node of so many GPUs, and of each one more."""
_CUT: Final = Paragraph(Rank.MUST, ("  all reasons, in full, are in the JSON report",))


def to_text(report: Report) -> str:
    """The whole text, ending with a newline."""
    chapters = CHAPTERS_OF_TRIAGE if report.test_configuration.preset == TRIAGE else CHAPTERS
    night = burn_in(report)
    lines = _chapters(report, chapters) if night is None else _one_page(report, night)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _chapters(report: Report, chapters: tuple[Chapter, ...]) -> Iterator[str]:
    yield from _lines(_head(report))
    for chapter in chapters:
        yield from text.lines(chapter(report))
    yield from _lines(_end(report))


def _lines(paragraphs: Iterator[Paragraph]) -> Iterator[str]:
    return (line for one in paragraphs for line in one.lines)


def _head(report: Report) -> Iterator[Paragraph]:
    section = head(report)
    yield Paragraph(Rank.MUST, (text.RULE, text.centred(section.title), text.RULE, ""))
    yield from text.paragraphs(section, heading=False)


def _end(report: Report) -> Iterator[Paragraph]:
    yield from text.paragraphs(ended(report))
    yield Paragraph(Rank.MUST, (text.RULE,))


def _one_page(report: Report, night: Section) -> Iterator[str]:
    """A burn-in: what stands around its chapter shares the page with it."""
    assert report.burn_in is not None
    room = _PAGE + _EACH * max(len(report.burn_in.gpus) - _NODE, 0)
    for limited in (False, True):
        chapter = text.paragraphs(night, heading=False, limited=limited)
        page = (*_head(report), *chapter, _CUT, *_end(report))
        if one_page.is_whole(page, room, _CUT):
            break
    yield from one_page.on_one_page(page, room, _CUT)
