"""The layout of a kind of run: chapters of each format, title, and what replaces the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.figures.report import Report
from orchestrator.report.sections import Badge, Chapter


class Answer(NamedTuple):
    """What a run says about its devices. reach: how much of the run supports it."""

    badge: Badge
    reach: str


@dataclass(frozen=True)
class Layout:
    """The layout of a kind of run's reports. `default_layout.DEFAULT` is a benchmark's.

    text, brief, markdown, html: chapters in order, between those that all reports share. title: of the kind, or "".
    answer: replaces the verdict. one_page: limits the text to a page. checks: cells have checks instead of figures.
    profile: the requested profile in a word.
    """

    text: tuple[Chapter, ...]
    markdown: tuple[Chapter, ...]
    html: tuple[Chapter, ...]
    title: str = ""
    answer: Callable[[Report], Answer | None] = lambda _: None
    one_page: bool = False
    checks: bool = False
    brief: tuple[Chapter, ...] = ()
    profile: Callable[[Report], str] = lambda report: report.test_configuration.profile
