"""Text of others (names, messages, paths) made harmless for terminals and tables."""

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
_BLANK: Final = re.compile(r"\s+")


def plain(text: str) -> str:
    """One line without terminal escapes and unprintable characters, among them marks of writing direction."""
    return " ".join(_printable(_BLANK.sub(" ", _ESCAPE.sub("", text))).split())


def aligned(line: str) -> str:
    """The same for a line of a log or a program, with its blanks."""
    return _printable(_ESCAPE.sub("", line).expandtabs()).rstrip()


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(character for character in text if character.isprintable())
