"""A report on standard output: the brief form, in colour on a terminal, or the full text."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.figures.report import Report
from orchestrator.report.as_brief import to_brief
from orchestrator.report.as_text import to_text
from orchestrator.report.layout import Layout


def shown(report: Report, layout: Layout, details: Sequence[str], *, full: bool, answer: str = "") -> str | bytes:
    """Return the text of a report, then the lines `details`, to be printed by `streams.say`.

    full: the whole text, else the brief form: bytes if it is coloured. answer: text in place of the report, unless "".
    """
    if full or answer:
        return "\n".join((answer or to_text(report, layout), *details))
    coloured = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    text = to_brief(report, layout, details, columns=shutil.get_terminal_size().columns, colour=coloured)
    return text.encode() if coloured else text


def places(reports: Sequence[Path], folder: Path | None, *, full: bool) -> Iterator[str]:
    """Yield a line for each file of a report, then one with the command that prints the full report, unless `full`.

    folder: of the run, which the command names; None: it names the first of `reports`, which must not be empty then.
    """
    yield from (f"Report: {path}" for path in reports)
    if not full:
        yield f"Full:   gpubench-orchestrate report {folder or reports[0]} --full"
