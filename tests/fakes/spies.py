"""Calls of a function, noted while it goes on doing its work."""

from collections.abc import Callable
from typing import Any

import pytest


def spy(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, note: Callable[..., Any]) -> list[Any]:
    """Return the notes on every later call: `note` of what the function returned and of its arguments."""
    honest, notes = getattr(owner, name), list[Any]()

    def watched(*arguments: Any, **options: Any) -> Any:
        returned = honest(*arguments, **options)
        notes.append(note(returned, *arguments, **options))
        return returned

    monkeypatch.setattr(owner, name, watched)
    return notes
