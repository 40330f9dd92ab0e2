"""An HTML page as text, one element a line, without markup, and its JSON data, one value a line."""

import hashlib
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final

_LINES: Final = frozenset(
    {*("title", "h1", "h2", "h3", "p", "li", "caption", "tr", "dt", "dd", "summary", "pre", "figcaption"), "option"}
)
"""Elements that begin a line of their own."""
_CELLS: Final = frozenset({"td", "th"})
_HIDDEN: Final = frozenset({"style", "script", "nav"})
_LONG: Final = 30
"""Entries of a list that are all written out."""
_SHOWN: Final = 4
"""Entries of a longer one that are."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.data: dict[str, str] = {}
        self._line = ""
        self._hidden = 0
        self._json = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _HIDDEN:
            self._hidden += 1
            self._json = (given.get("id") or "data") if given.get("type") == "application/json" else ""
        elif tag in _LINES:
            self._flush()
            self._line = f"{tag}: "
        elif tag in _CELLS:
            self._line += "| "

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden -= 1
            self._json = ""
        elif tag in _LINES:
            self._flush()
        elif tag in _CELLS:
            self._line += " "

    def handle_data(self, data: str) -> None:
        if self._json:
            self.data[self._json] = self.data.get(self._json, "") + data
        elif not self._hidden:
            self._line += data

    def _flush(self) -> None:
        words = " ".join(self._line.split())
        if words.partition(":")[2].strip() or (words and not words.endswith(":")):
            self.lines.append(words)
        self._line = ""


def page_text(page: str) -> str:
    """The lines of a page, then its data."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    lines = list(reader.lines)
    for name, text in reader.data.items():
        lines += [f"data {name}", *_data(json.loads(text))]
    return "\n".join(lines) + "\n"


def _data(value: Any, path: str = "") -> Iterator[str]:
    """A line for each value and each list without structure; of a long list the beginning, and a hash of all of it."""
    if isinstance(value, list) and len(value) > _LONG:
        digest = hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
        yield from _data(value[:_SHOWN], path)
        yield f"{path} = {len(value)} entries, SHA-256 {digest}"
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _data(one, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for number, one in enumerate(value):
            yield from _data(one, f"{path}[{number}]")
    else:
        yield f"{path} = {json.dumps(value, ensure_ascii=False)}"
