"""Make text from outside (names, messages, paths) harmless for terminals and tables."""

import re
from pathlib import Path
from typing import Final

NO_TEXT: Final = "a path must be UTF-8 without control characters. Choose another."
_ESCAPE: Final = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b.?",
    re.DOTALL,
)
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_NO_TEXT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANK: Final = re.compile(r"\s+")


def is_text(path: str | Path) -> bool:
    """Whether a path is UTF-8 without control characters, so that it can be stored, sent and shown."""
    return _NO_TEXT.search(str(path)) is None


def is_utf_8(word: str) -> bool:
    """Whether an argument or an environment variable is UTF-8. Python keeps other bytes as surrogate characters."""
    return _SURROGATE.search(word) is None


def escaped(path: str | Path) -> str:
    """Format a path as a Python string literal; bytes that are not UTF-8 appear in hexadecimal."""
    return re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", repr(str(path)))


def plain(text: str) -> str:
    """Return text as one line, without terminal escapes, unprintable characters and marks of writing direction."""
    if text.isprintable():  # nearly every text; an escape and a line break are not printable
        return " ".join(text.split())
    return " ".join(_printable(_BLANK.sub(" ", _ESCAPE.sub("", text))).split())


def aligned(line: str) -> str:
    """Clean a line of output as `plain` does, but keep leading and inner spaces, and turn tabs into spaces."""
    return _printable(_ESCAPE.sub("", line).expandtabs()).rstrip()


def plain_lines(text: str) -> str:
    """Clean each line of a text as `aligned` does."""
    return "\n".join(map(aligned, text.splitlines()))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(character for character in text if character.isprintable())
