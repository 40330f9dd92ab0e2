"""Completion: what the shell offers after an option. It asks at every press of Tab, so nothing slow is imported."""

from collections.abc import Callable, Iterable

import click

from orchestrator.errors import UserError

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def offering(choices: Callable[[], Iterable[str]], *, several: bool) -> Completion:
    """Offer these words; in a list, behind its last comma, those it does not have yet. A broken file offers none."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        *before, word = incomplete.split(",") if several else [incomplete]
        start = "".join(f"{name}," for name in before)
        try:
            return [f"{start}{name}" for name in choices() if name.startswith(word) and name not in before]
        except UserError:
            return []

    return complete
