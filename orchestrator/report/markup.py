"""Markdown of others' text: on one line, and nothing but text to what shows it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from orchestrator.system.plain_text import plain

_STEERS: Final = re.compile(r"[\\`*_\[\]|~@#$]|:(?=//)|(?<=www)\.")
"""What Markdown, or the page that shows it (mentions, numbers of issues, links, formulas), would take for more than
text."""


def escaped(text: str) -> str:
    """Text of others, on one line, harmless in Markdown."""
    return _STEERS.sub(r"\\\g<0>", plain(text)).replace("&", "&amp;").replace("<", "&lt;")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of GitHub's Markdown, its text escaped here, and an empty line."""
    yield _row(header)
    yield "|" + "---|" * len(header)
    yield from (_row(row) for row in rows)
    yield ""


def _row(columns: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(column) for column in columns)} |"
