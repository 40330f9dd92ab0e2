"""How the reports of one kind of run (benchmark, triage, burn-in, …) are laid out: chapters, title, verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.figures.report import Report
from orchestrator.report.sections import Badge, Chapter


class Answer(NamedTuple):
    """Verdict on devices in a special kind of run, shown in place of the run's own.

    reach: what the verdict is based on: "Level full, 8 h requested, 7.9 h at work". meaning: text on the exit code; ""
    for the usual text.
    """

    badge: Badge
    reach: str
    meaning: str = ""


@dataclass(frozen=True)
class Layout:
    """The layout of the reports of a kind of run. `default_layout.DEFAULT` is the layout of a benchmark.

    text, brief, markdown, html: chapters of each format, in order. title: name of the kind of run; "" for a benchmark.
    answer: returns the verdict that replaces that of the run; None keeps it. one_page: shorten the text report to a
    page. checks: the run checks devices or operators, so the table of cells has no figures. judges_gpus: the verdict of
    the run includes the health of its GPUs, so that brief and HTML do not repeat it. next_steps: what to do next, for
    brief and HTML. profile: returns the text shown as profile of the run: "quick", "burn-in, level full".
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
    next_steps: Chapter = lambda _: None
    profile: Callable[[Report], str] = lambda report: report.test_configuration.profile
