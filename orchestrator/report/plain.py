"""Text of others (names, messages, paths) made harmless for terminals and tables."""

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BLANK: Final = re.compile(r"\s+")


def plain(text: str) -> str:
    """One line without terminal escapes, control characters and marks that turn the direction of writing."""
    return _CONTROL.sub("", _BLANK.sub(" ", _ESCAPE.sub("", text))).strip()
