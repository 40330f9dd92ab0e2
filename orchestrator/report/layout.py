"""The layout of a kind of run's reports: chapters of each format, title, and what replaces the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.figures.report import Report
from orchestrator.report.sections import Badge, Chapter


class Answer(NamedTuple):
    """What a run says about its devices, shown instead of the verdict. reach: how much of the run supports it."""

    badge: Badge
    reach: str


@dataclass(frozen=True)
class Layout:
    """The layout of a kind of run's reports. `default_layout.DEFAULT` is the layout of a benchmark.

    text, brief, markdown, html: chapters of each format, in order. title: name of the kind of run, or "". answer:
    returns what replaces the verdict. one_page: the text report is at most a page. checks: cells have checks instead
    of figures. judges_gpus: each GPU has a verdict of this kind, which includes its health. profile: returns the
    requested profile in a word.
    """

    text: tuple[Chapter, ...]
    markdown: tuple[Chapter, ...]
    html: tuple[Chapter, ...]
    title: str = ""
    answer: Callable[[Report], Answer | None] = lambda _: None
    one_page: bool = False
    checks: bool = False
    judges_gpus: bool = False
    brief: tuple[Chapter, ...] = ()
    profile: Callable[[Report], str] = lambda report: report.test_configuration.profile
