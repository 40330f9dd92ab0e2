"""What a kind of run decides of its reports, as one value: the chapters of each format, and what stands above them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.figures.report import Report
from orchestrator.report.sections import Badge, Chapter


class Answer(NamedTuple):
    """What a run says of its devices: a line, and how far the run came to be able to say it."""

    badge: Badge
    reach: str


@dataclass(frozen=True)
class Layout:
    """How the reports of a kind of run are laid out. `default_layout.DEFAULT` is that of a benchmark.

    text, markdown, html: chapters in order, between those that every report begins and ends with. title: what the
    kind is called above them; empty where it needs no name. answer: stands in place of how the run ended.
    one_page: its text has no more lines than a page. checks: its cells have checks in place of figures. profile: what
    was asked for, in a word.
    """

    text: tuple[Chapter, ...]
    markdown: tuple[Chapter, ...]
    html: tuple[Chapter, ...]
    title: str = ""
    answer: Callable[[Report], Answer | None] = lambda _: None
    one_page: bool = False
    checks: bool = False
    profile: Callable[[Report], str] = lambda report: report.test_configuration.profile
