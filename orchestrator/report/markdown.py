"""Formats sections as GitHub's Markdown."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.report.sections import Finding, Section, Table
from orchestrator.system.plain_text import plain

_STEERS: Final = re.compile(r"[\\`*_\[\]|~@#$]|:(?=//)|(?<=www)\.")
"""Pattern of characters with a meaning in Markdown or on GitHub (mentions, issues, links, formulas)."""


def escaped(text: str) -> str:
    """Return `text` as one line, with every character escaped that Markdown or GitHub would interpret."""
    return _STEERS.sub(r"\\\g<0>", plain(text)).replace("&", "&amp;").replace("<", "&lt;")


def lines(section: Section | None, heading: str = "") -> Iterator[str]:
    """Yield the lines of a section, ending with an empty line; nothing for None.

    heading: mark before the title, such as "##"; without it the title is omitted.
    """
    if section is None:
        return
    if heading:
        yield from (f"{heading} {escaped(section.title)}", "")
    for words in section.summary:
        yield from (escaped(words), "")
    for table in section.tables:
        yield from _table(table)
    for part in section.parts:
        yield from [escaped(part.title), ""] if part.title else []
        yield from lines(part)
    items = [item for finding in section.findings for item in _finding(finding)]
    if items:
        yield from (*(f"- {escaped(item)}" for item in items), "")
    for words in section.notes:
        yield from (escaped(words), "")


def _finding(finding: Finding) -> Iterator[str]:
    title = ": ".join(filter(None, ("" if finding.badge is None else finding.badge.text, finding.title)))
    if finding.label is not None or not title:
        yield from (": ".join(filter(None, (finding.label, words))) for words in finding.lines)
        return
    lines = finding.lines + (finding.details if finding.opened else ())
    yield ". ".join(filter(None, (title, "; ".join(lines))))


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    if table.caption:
        yield from (f"{escaped(table.caption)}:", "")
    yield _row([column.title for column in table.columns])
    yield "|" + "---|" * len(table.columns)
    yield from (_row(row) for row in table.rows)
    yield ""
    for words in filter(None, (table.note, *table.remarks)):
        yield from (escaped(words), "")


def _row(entries: Sequence[object]) -> str:
    return f"| {' | '.join(escaped(str(entry)) for entry in entries)} |"
