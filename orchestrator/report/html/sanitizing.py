"""Makes a page safe whatever characters the names in it contain.

text      without control characters and direction marks; the templates escape it
data      JSON in which no character can end a script element or begin a comment
scripts   run only if their hash is in the Content-Security-Policy
"""

import base64
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec
from markupsafe import Markup, escape

from orchestrator.system.plain_text import aligned, plain

LONGEST: Final = 2000
"""Largest number of characters of one piece of text."""
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def text(value: object) -> object:
    """Return text as one line of at most LONGEST printable characters; Markup and other types unchanged."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else cut(plain(value))


def log(line: str) -> Markup:
    """Return a line of a log, cut to LONGEST characters and escaped for HTML, with its indentation."""
    return escape(cut(aligned(line)))


def cut(words: str) -> str:
    """Return a text cut to its first LONGEST characters, with "…" after them if it was longer."""
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}…"


def data(value: object) -> Markup:
    """Return `value` as JSON that is safe within an HTML script element; texts are cut and floats rounded."""
    found = msgspec.json.encode(_plain(msgspec.to_builtins(value))).decode()
    for character, written in _ESCAPES.items():
        found = found.replace(character, written)
    return Markup(found)  # noqa: S704 - nothing in it can end the element that holds it


def policy(scripts: Iterable[str]) -> str:
    """Return the Content-Security-Policy that allows only scripts with these source texts, and inline styles."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _plain(value: object) -> object:
    """Return `value` with all texts in it cut and printable, and all floats in it rounded. Dicts and lists are copied.

    Floats below 1000 keep six significant digits, larger ones two decimals.
    """
    match value:
        case str():
            return cut(plain(value))
        case float():
            return float(f"{value:.6g}") if abs(value) < 1000 else round(value, 2)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value
