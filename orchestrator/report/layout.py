"""How the reports of one kind of run (benchmark, triage, burn-in, …) are laid out: chapters, title, verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.figures.report import Report
from orchestrator.report.sections import Badge, Chapter


class Answer(NamedTuple):
    """Verdict of a special kind of run on its devices, shown instead of the run's own. reach: what supports it."""

    badge: Badge
    reach: str


@dataclass(frozen=True)
class Layout:
    """The layout of a kind of run's reports. `default_layout.DEFAULT` is the layout of a benchmark.

    text, brief, markdown, html: chapters of each format, in order. title: name of the kind of run, or "". answer:
    returns what replaces the run's verdict, if anything. one_page: the text report is at most a page. checks: cells are
    checks of a device, without figures. judges_gpus: this kind of run gives each GPU a verdict, which includes its
    health. profile: returns the requested profile in a word.
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
