"""Commands that are refused, and those that only answer, answer as before: see transcripts.py."""

import difflib

import pytest

from tests.golden import transcripts


@pytest.mark.parametrize("name", transcripts.names())
def test_commands_answer_as_stored(name: str) -> None:
    """Nothing is run and no file is left behind; `python -m tests.golden` accepts a new answer."""
    stored, played = transcripts.stored(name), transcripts.play(name)
    lines = difflib.unified_diff(stored.splitlines(), played.splitlines(), "stored", "made now", n=3, lineterm="")
    assert played == stored, "\n".join(lines)
