"""Text of others (names, messages, paths) made harmless for terminals and tables."""

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
_BLANK: Final = re.compile(r"\s+")


def plain(text: str) -> str:
    """One line without terminal escapes and without characters that Unicode does not call printable.

    Those are control characters, marks that turn the direction of writing, and what no font can know.
    """
    line = _BLANK.sub(" ", _ESCAPE.sub("", text))
    return "".join(character for character in line if character.isprintable()).strip()
