"""Forgotten values: the parser would take `--gpu-ids` in `--burn-in --gpu-ids 0,1` for the duration."""

from collections.abc import Sequence

import click


def refuse(command: click.Command, ctx: click.Context, words: Sequence[str]) -> None:
    """Raise click.BadOptionUsage where an option stands in place of a value. `--output=--quiet` is a value."""
    known = (one for one in command.get_params(ctx) if isinstance(one, click.Option))
    options = {spelling: one for one in known for spelling in one.opts}
    behind = iter(words)
    for word in behind:
        if word == "--" or (isinstance(command, click.Group) and not word.startswith("-")):
            return  # arguments from here on, or the words of another command
        option = options.get(word)
        if option is None or option.is_flag or option.count:
            continue
        value = next(behind, "")
        if value in options:
            problem = f"{word} {option.metavar or 'VALUE'} has no value: {value} stands in its place."
            raise click.BadOptionUsage(word, problem, ctx)
